"""The hooks of one run, one after the other: before an action in their order, after it in reverse.

Hooks that add, change or ask leave the decision to the next; only Stop, Deny or an answer ends the
chain. A hook that fails before an action stops it; after an action, and on events, the failure is
reported and the run continues. Entry point: `Hooks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.events.hooks.checking import POINTS
from treadle.events.hooks.hook import Add, Answer, Ask, Hook, HookedRun, Stop
from treadle.messages.events import Event, RunEnd
from treadle.messages.message import ToolCall, ToolResult
from treadle.models.model import ModelRequest, ModelResponse
from treadle.tools.approval import Approve, Deny

logger = logging.getLogger("treadle")

_ANSWERS: Mapping[str, tuple[type, ...]] = {
    "before_run": (Stop,),
    "before_model": (ModelResponse, Add, Stop),
    "after_model": (ModelResponse, Stop),
    "before_tool": (Approve, Deny, Ask, Answer),
    "after_tool": (str,),
    "before_compaction": (Stop,),
}
"""Answers that each point accepts besides None; other points only observe."""


class BeforeModelSaid(NamedTuple):
    add: str = ""
    """Nothing: no hook adds anything."""
    answered: ModelResponse | None = None
    hook: str | None = None
    """Name of the hook that answered."""


class BeforeToolSaid(NamedTuple):
    arguments_json: str | None = None
    """Arguments that replace the call's."""
    verdict: Deny | Ask | Answer | None = None


UNSAID = BeforeToolSaid()
"""The absence of an answer."""


class Hooks:
    """Hooks of one run, sorted by the points that they override."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._of = (
            {point: found for point in POINTS if (found := _overriding(hooks, point))}
            if hooks
            else {}
        )
        self.points = frozenset(self._of)
        """Points that a hook overrides."""
        self.warn: Callable[[str], None] = lambda text: None
        """Tells people that a hook failed after something."""
        self._told: set[int] = set()
        """Hooks whose on_event has failed: each is reported once per run."""

    def __bool__(self) -> bool:
        return bool(self._of)

    # ------------------------------------------------------------ before: a failure ends it

    async def before_run(self, run: HookedRun) -> None:
        """Raises AgentError(agent) where a hook stops the run, or fails."""
        for hook in self._of.get("before_run", ()):
            _go_on(await _asked(hook, "before_run", run))

    async def before_model(self, run: HookedRun, request: ModelRequest) -> BeforeModelSaid:
        """Collect the additions, up to the first hook that answers.

        Raises AgentError(agent) if a hook stops the run, or fails.
        """
        added: list[str] = []
        for hook in self._of.get("before_model", ()):
            said = await _asked(hook, "before_model", run, request)
            _go_on(said)
            if isinstance(said, ModelResponse):
                return BeforeModelSaid("\n\n".join(added), said, _name(hook))
            if said is not None and said.text:
                added.append(said.text)
        return BeforeModelSaid("\n\n".join(added))

    async def before_tool(self, run: HookedRun, call: ToolCall) -> BeforeToolSaid:
        """Ask each hook, with the call as changed by those before it.

        Denied if one fails; ask a person if no hook denied or answered it.
        """
        changed: str | None = None
        ask: Ask | None = None
        for hook in self._of.get("before_tool", ()):
            try:
                said = await _asked(hook, "before_tool", run, call)
                if isinstance(said, Approve) and said.arguments is not None:
                    changed = encode_json(dict(said.arguments)).decode()
                    call = msgspec.structs.replace(call, arguments_json=changed)
            except Exception as e:  # noqa: BLE001  what it gave may be anything
                return BeforeToolSaid(
                    changed,
                    Deny(
                        e.message if isinstance(e, AgentError) else _failure(hook, "before_tool", e)
                    ),
                )
            if isinstance(said, Deny | Answer):
                return BeforeToolSaid(changed, said)
            ask = ask or (said if isinstance(said, Ask) else None)
        return BeforeToolSaid(changed, ask)

    async def before_compaction(self, run: HookedRun) -> bool:
        """Return True if history may be compacted. Raises AgentError(agent) if a hook fails."""
        for hook in self._of.get("before_compaction", ()):
            if await _asked(hook, "before_compaction", run) is not None:
                return False
        return True

    # ------------------------------------------------------------ after: a failure is reported

    async def after_run(self, run: HookedRun, result: Any) -> None:
        """The last event has left: what fails is only logged."""
        self.warn = lambda text: None
        for hook in reversed(self._of.get("after_run", ())):
            await self._told_of(hook, "after_run", run, result)

    async def after_model(
        self, run: HookedRun, request: ModelRequest, response: ModelResponse
    ) -> ModelResponse:
        """Return the response as hooks change it. Raises AgentError(agent) if one stops the run."""
        for hook in reversed(self._of.get("after_model", ())):
            said = await self._told_of(hook, "after_model", run, request, response)
            _go_on(said)
            if said is None:
                continue
            ids = [call.id for call in said.tool_calls]
            if len({*ids}) == len(ids) and {*ids} <= {call.id for call in response.tool_calls}:
                response = msgspec.structs.replace(said, usage=response.usage, model=response.model)
            else:
                self._failed(
                    hook,
                    "after_model",
                    ValueError("its response has calls that the model did not make"),
                )
        return response

    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result as hooks change it."""
        for hook in reversed(self._of.get("after_tool", ())):
            said = await self._told_of(hook, "after_tool", run, call, result)
            result = result if said is None else msgspec.structs.replace(result, content=said)
        return result

    async def after_compaction(self, run: HookedRun, receipt: Mapping[str, object]) -> None:
        for hook in reversed(self._of.get("after_compaction", ())):
            await self._told_of(hook, "after_compaction", run, receipt)

    def on_event(self, event: Event) -> None:
        for hook in self._of.get("on_event", ()):
            try:
                hook.on_event(event)
            except Exception as e:
                if id(hook) in self._told:
                    continue
                self._told.add(id(hook))  # first: the warning is an event too
                logger.exception("the hook %s.on_event failed", _name(hook))
                if not isinstance(event, RunEnd):  # which is the last one
                    self.warn(f"{_failure(hook, 'on_event', e)}. The run goes on")

    async def _told_of(self, hook: Hook, point: str, *told: Any) -> Any:
        try:
            return await _asked(hook, point, *told, wrap=False)
        except Exception as e:  # noqa: BLE001  the edge of a hook: the run goes on
            self._failed(hook, point, e)
            return None

    def _failed(self, hook: Hook, point: str, error: Exception) -> None:
        logger.error("the hook %s.%s failed", _name(hook), point, exc_info=error)
        self.warn(f"{_failure(hook, point, error)}. The run goes on")


NO_HOOKS = Hooks()


def hooks_of(runtime: Sequence[Hook], agent: Sequence[Hook]) -> Hooks:
    """Return the hooks of one run."""
    return Hooks((*runtime, *agent)) if runtime or agent else NO_HOOKS


async def _asked(hook: Hook, point: str, *told: Any, wrap: bool = True) -> Any:
    """Raises AgentError(agent) where it fails or gives what this point cannot be given; without
    `wrap` what the hook itself raised.
    """
    try:
        said = await getattr(hook, point)(*told)
        if said is not None and point in _ANSWERS and not isinstance(said, _ANSWERS[point]):
            raise TypeError(
                f"it gave {said!r:.80}, and may give "
                f"{', '.join(kind.__name__ for kind in _ANSWERS[point])} or None"
            )
    except asyncio.CancelledError as cancelled:
        if _is_cancelled():
            raise
        # by something in the hook, and by nothing outside
        raise AgentError("agent", _failure(hook, point, cancelled)) from cancelled
    except Exception as e:
        if not wrap:
            raise
        raise AgentError("agent", _failure(hook, point, e)) from e
    return said


def _is_cancelled() -> bool:
    """True if this task was asked to end."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _go_on(said: object) -> None:
    if isinstance(said, Stop):
        raise AgentError("agent", f"a hook stopped the run: {said.reason}")


def _failure(hook: Hook, point: str, error: BaseException) -> str:
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  also its text is anybody's code
        words = type(error).__name__
    return f"the hook {_name(hook)}.{point} failed: {words}"


def _overriding(hooks: Sequence[Hook], point: str) -> tuple[Hook, ...]:
    return tuple(hook for hook in hooks if getattr(type(hook), point) is not getattr(Hook, point))


def _name(hook: Hook) -> str:
    return type(hook).__name__
