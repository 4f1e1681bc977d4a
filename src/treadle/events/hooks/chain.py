"""Chain of one run's hooks, called one after another: in order before an action, in reverse after
it.

After a hook adds, changes or asks, later hooks still run; Stop, Deny and answers end the chain. A
hook that fails before an action prevents it. A failure after an action or on an event is reported,
and the run continues. Entry point: `Hooks`.
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
"""Answers that each point accepts, in addition to None. Other points only observe."""


class BeforeModelSaid(NamedTuple):
    add: str = ""
    """Text to add to the history; empty if no hook adds any."""
    answered: ModelResponse | None = None
    hook: str | None = None
    """Name of the hook that answered."""


class BeforeToolSaid(NamedTuple):
    arguments_json: str | None = None
    """Arguments that replace those of the call, or None."""
    verdict: Deny | Ask | Answer | None = None


UNSAID = BeforeToolSaid()
"""Value for a call on which no hook has decided."""


class Hooks:
    """Hooks of one run, by the points that they override."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._of = (
            {point: found for point in POINTS if (found := _overriding(hooks, point))}
            if hooks
            else {}
        )
        self.points = frozenset(self._of)
        """Points that at least one hook overrides."""
        self.warn: Callable[[str], None] = lambda text: None
        """Callback that publishes a warning about a failed hook."""
        self._told: set[int] = set()
        """Ids of hooks whose on_event has failed. Each is reported once per run."""

    def __bool__(self) -> bool:
        return bool(self._of)

    # ------------------------------------------------------------ before: a failure prevents it

    async def before_run(self, run: HookedRun) -> None:
        """Call `before_run` of each hook. Raises AgentError(agent) if one stops the run or
        fails.
        """
        for hook in self._of.get("before_run", ()):
            _go_on(await _asked(hook, "before_run", run))

    async def before_model(self, run: HookedRun, request: ModelRequest) -> BeforeModelSaid:
        """Collect the texts that the hooks add, up to the first hook that answers.

        Raises AgentError(agent) if a hook stops the run or fails.
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
        """Return the hooks' changes to a call and their verdict. Each hook sees earlier changes.

        A failing hook denies the call. Ask applies if no hook denies or answers the call.
        """
        changed: str | None = None
        ask: Ask | None = None
        for hook in self._of.get("before_tool", ()):
            try:
                said = await _asked(hook, "before_tool", run, call)
                if isinstance(said, Approve) and said.arguments is not None:
                    changed = encode_json(dict(said.arguments)).decode()
                    call = msgspec.structs.replace(call, arguments_json=changed)
            except Exception as e:  # noqa: BLE001  user code; its arguments may not be JSON
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
        """Return False if a hook forbids the compaction. Raises AgentError(agent) if one fails."""
        for hook in self._of.get("before_compaction", ()):
            if await _asked(hook, "before_compaction", run) is not None:
                return False
        return True

    # ------------------------------------------------------------ after: a failure is reported

    async def after_run(self, run: HookedRun, result: Any) -> None:
        """Call `after_run` of each hook. Failures are only logged, because the last event is
        already published.
        """
        self.warn = lambda text: None
        for hook in reversed(self._of.get("after_run", ())):
            await self._told_of(hook, "after_run", run, result)

    async def after_model(
        self, run: HookedRun, request: ModelRequest, response: ModelResponse
    ) -> ModelResponse:
        """Return the response with the hooks' changes. Raises AgentError(agent) if one stops the
        run.
        """
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
                    ValueError("its response contains tool calls that the model did not request"),
                )
        return response

    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the result with the texts by which hooks replaced it."""
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
                self._told.add(id(hook))  # before the warning, which is an event too
                logger.exception("the hook %s.on_event failed", _name(hook))
                if not isinstance(event, RunEnd):  # no event may follow run_end
                    self.warn(f"{_failure(hook, 'on_event', e)}. The run continues")

    async def _told_of(self, hook: Hook, point: str, *told: Any) -> Any:
        try:
            return await _asked(hook, point, *told, wrap=False)
        except Exception as e:  # noqa: BLE001  user code; the run continues
            self._failed(hook, point, e)
            return None

    def _failed(self, hook: Hook, point: str, error: Exception) -> None:
        logger.error("the hook %s.%s failed", _name(hook), point, exc_info=error)
        self.warn(f"{_failure(hook, point, error)}. The run continues")


NO_HOOKS = Hooks()


def hooks_of(runtime: Sequence[Hook], agent: Sequence[Hook]) -> Hooks:
    """Combine the hooks of the runtime and of the agent, in this order."""
    return Hooks((*runtime, *agent)) if runtime or agent else NO_HOOKS


async def _asked(hook: Hook, point: str, *told: Any, wrap: bool = True) -> Any:
    """Call a point of a hook and return its answer.

    Raises AgentError(agent) if the hook fails or its answer has the wrong type; without `wrap`, the
    original error.
    """
    try:
        said = await getattr(hook, point)(*told)
        if said is not None and point in _ANSWERS and not isinstance(said, _ANSWERS[point]):
            raise TypeError(
                f"it returned {said!r:.80}; it must return "
                f"{', '.join(kind.__name__ for kind in _ANSWERS[point])} or None"
            )
    except asyncio.CancelledError as cancelled:
        if _is_cancelled():
            raise
        # the hook cancelled itself
        raise AgentError("agent", _failure(hook, point, cancelled)) from cancelled
    except Exception as e:
        if not wrap:
            raise
        raise AgentError("agent", _failure(hook, point, e)) from e
    return said


def _is_cancelled() -> bool:
    """Return True if the current task is being cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _go_on(said: object) -> None:
    if isinstance(said, Stop):
        raise AgentError("agent", f"a hook stopped the run: {said.reason}")


def _failure(hook: Hook, point: str, error: BaseException) -> str:
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  __str__ may be user code
        words = type(error).__name__
    return f"the hook {_name(hook)}.{point} failed: {words}"


def _overriding(hooks: Sequence[Hook], point: str) -> tuple[Hook, ...]:
    return tuple(hook for hook in hooks if getattr(type(hook), point) is not getattr(Hook, point))


def _name(hook: Hook) -> str:
    return type(hook).__name__
