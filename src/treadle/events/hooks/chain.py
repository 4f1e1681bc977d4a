"""Chain of one run's hooks, called one after another: in order before an action, in reverse after
it.

After a hook adds, changes or asks, later hooks still run; Stop, Deny and answers end the chain. A
hook that fails where it could change or block something blocks it: an input, a response or an
output ends the run, a call is denied, a result is withheld. Failures of observers are reported, and
the run continues. Entry points: `Hooks`, `RunBlocked`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from treadle._internal.json_text import encode_json
from treadle.errors import AgentError
from treadle.events.hooks.checking import POINTS
from treadle.events.hooks.hook import Add, Answer, Ask, Hook, HookedRun, Stop
from treadle.messages.events import Event, RunEnd
from treadle.messages.message import Message, TextPart, ToolCall, ToolResult
from treadle.models.model import ModelRequest, ModelResponse
from treadle.tools.approval import Approve, Deny
from treadle.tools.failures import ToolFailed

logger = logging.getLogger("treadle")

_ANSWERS: Mapping[str, tuple[type, ...]] = {
    "before_input": (str,),
    "check_input": (Stop,),
    "check_output": (Deny, Stop),
    "before_run": (Stop,),
    "before_model": (ModelResponse, Add, Stop),
    "after_model": (ModelResponse, str, Stop),
    "before_tool": (Approve, Deny, Ask, Answer, Stop),
    "after_tool": (str, Deny, Stop),
    "before_compaction": (Stop,),
}
"""Answers that each point accepts, in addition to None. Other points only observe."""
_OBSERVED = frozenset(POINTS) - _ANSWERS.keys()


class RunBlocked(Exception):
    """Raised to end the run as `refused`."""

    def __init__(self, message: str, *, since: str = "") -> None:
        """`since`: id of the first message that leaves the conversation; empty if none does."""
        super().__init__(message)
        self.message, self.since = message, since


class AfterToolSaid(NamedTuple):
    result: ToolResult
    blocked: str = ""
    """Reason to end the run as `refused`, or empty."""
    withheld: bool = False
    """True if the result is a statement that its text is not shown."""


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

    def __init__(self, hooks: Sequence[Hook[Any]] = ()) -> None:
        self._of = (
            {point: found for point in POINTS if (found := _overriding(hooks, point))}
            if hooks
            else {}
        )
        self.points = frozenset(self._of)
        """Points that at least one hook overrides."""
        self.keeps_cut = all(
            "after_model" in hook.observes for hook in self._of.get("after_model", ())
        )
        """True if the text of an interrupted response may be stored, because no hook that misses
        it could have changed it.
        """
        self.run: HookedRun[Any]
        """The run as the hooks see it. Set by `begin`."""
        self.warn: Callable[[str], None] = lambda text: None
        """Callback that publishes a warning about a failed hook."""
        self._told: set[int] = set()
        """Ids of hooks whose on_event has failed. Each is reported once per run."""

    def begin(self, run: HookedRun[Any], warn: Callable[[str], None]) -> None:
        """Set the run, before any other call, and the callback for warnings."""
        self.run, self.warn = run, warn

    # ------------------------------------------------------------ before

    async def before_input(self, message: Message) -> Message:
        """Return the message with the text of the hooks. Raises AgentError(agent) if one fails."""
        for hook in self._of.get("before_input", ()):
            said = await self._asked(hook, "before_input", self.run, message)
            message = message if said is None else _with_text(message, said)
        return message

    async def check_input(self, messages: Sequence[Message]) -> None:
        """Check the messages. Raises RunBlocked, or AgentError(agent) if a hook fails."""
        for message in messages:
            for hook in self._of.get("check_input", ()):
                said = await self._asked(hook, "check_input", self.run, message)
                _go_on(hook, said, since=message.id)

    async def check_output(self, output: object) -> None:
        """Check the output. Raises ToolFailed with the reason of a rejection, RunBlocked, or
        AgentError(agent) if a hook fails.
        """
        for hook in self._of.get("check_output", ()):
            said = await self._asked(hook, "check_output", self.run, output)
            _go_on(hook, said)
            if said is not None:
                raise ToolFailed(said.reason)

    async def before_run(self) -> None:
        """Run the hooks. Raises RunBlocked, or AgentError(agent) if one fails."""
        for hook in self._of.get("before_run", ()):
            _go_on(hook, await self._asked(hook, "before_run", self.run))

    async def before_model(self, request: ModelRequest) -> BeforeModelSaid:
        """Collect the additions of the hooks, up to the first one that answers.

        Raises RunBlocked, or AgentError(agent) if a hook fails.
        """
        added: list[str] = []
        for hook in self._of.get("before_model", ()):
            said = await self._asked(hook, "before_model", self.run, request)
            _go_on(hook, said)
            if isinstance(said, ModelResponse):
                return BeforeModelSaid("\n\n".join(added), said, _name(hook))
            if said is not None and said.text:
                added.append(said.text)
        return BeforeModelSaid("\n\n".join(added))

    async def before_tool(self, call: ToolCall) -> BeforeToolSaid:
        """Return the hooks' changes to a call and their verdict. Each hook sees earlier changes.

        A failing hook denies the call. Ask applies if no hook denies or answers the call. Raises
        RunBlocked.
        """
        changed: str | None = None
        ask: Ask | None = None
        for hook in self._of.get("before_tool", ()):
            try:
                said = await self._asked(hook, "before_tool", self.run, call)
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
            _go_on(hook, said)
            if isinstance(said, Deny | Answer):
                return BeforeToolSaid(changed, said)
            ask = ask or (said if isinstance(said, Ask) else None)
        return BeforeToolSaid(changed, ask)

    async def before_compaction(self) -> bool:
        """Return False if a hook forbids the compaction. Raises AgentError(agent) if one fails."""
        for hook in self._of.get("before_compaction", ()):
            if await self._asked(hook, "before_compaction", self.run) is not None:
                return False
        return True

    # ------------------------------------------------------------ after

    async def after_run(self, result: Any) -> None:
        """Run the hooks. Failures are only logged, because the last event is already published."""
        self.warn = lambda text: None
        for hook in reversed(self._of.get("after_run", ())):
            await self._asked(hook, "after_run", self.run, result)

    async def after_model(self, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        """Return the response with the hooks' changes. Raises RunBlocked, or AgentError(agent) if
        a hook fails.
        """
        for hook in reversed(self._of.get("after_model", ())):
            said = await self._asked(hook, "after_model", self.run, request, response)
            _go_on(hook, said)
            if isinstance(said, str):
                said = _with_text(response, said)
            if said is None:
                continue
            ids = [call.id for call in said.tool_calls]
            if len({*ids}) == len(ids) and {*ids} <= {call.id for call in response.tool_calls}:
                response = msgspec.structs.replace(said, usage=response.usage, model=response.model)
            else:
                self._fail(
                    hook,
                    "after_model",
                    ValueError("its response contains tool calls that the model did not request"),
                )
        return response

    async def after_tool(self, call: ToolCall, result: ToolResult) -> AfterToolSaid:
        """Return the result with the hooks' changes. Stop ends the chain. The result is withheld if
        a hook fails, with a warning.
        """
        withheld = False
        for hook in reversed(self._of.get("after_tool", ())):
            try:
                said = await self._asked(hook, "after_tool", self.run, call, result)
            except AgentError as e:
                self.warn(f"{e.message}. The result of {call.name} is withheld from the model")
                # not its message, which may quote the result
                said = Deny(f"the hook {_name(hook)} failed to check it")
            if isinstance(said, Deny | Stop):
                withheld = True
                text = f"The result is withheld: {said.reason}"
                result = msgspec.structs.replace(result, content=text, is_error=True)
            elif said is not None:
                content = result.content
                result = msgspec.structs.replace(
                    result, content=said if isinstance(content, str) else _retold(content, said)
                )
            if isinstance(said, Stop):
                return AfterToolSaid(result, _stopped(hook, said), withheld)
        return AfterToolSaid(result, withheld=withheld)

    async def after_compaction(self, receipt: Mapping[str, object]) -> None:
        for hook in reversed(self._of.get("after_compaction", ())):
            await self._asked(hook, "after_compaction", self.run, receipt)

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

    async def _asked(self, hook: Hook[Any], point: str, *told: Any) -> Any:
        """Call a point of a hook and return its answer.

        Raises AgentError(agent) if the hook fails or its answer has the wrong type. If it only
        observes the point, the failure is reported instead, and the answer is None.
        """
        try:
            said = await getattr(hook, point)(*told)
            if said is not None and point in _ANSWERS:
                _check_answer(hook, point, said)
        except asyncio.CancelledError as cancelled:
            if _is_cancelled():
                raise
            self._fail(hook, point, cancelled)  # the hook cancelled itself
            return None
        except Exception as e:  # noqa: BLE001  user code
            self._fail(hook, point, e)
            return None
        return said

    def _fail(self, hook: Hook[Any], point: str, error: BaseException) -> None:
        """Report the failure of an observer. Raises AgentError(agent) for any other hook."""
        if point not in _OBSERVED and point not in hook.observes:
            raise AgentError("agent", _failure(hook, point, error)) from error
        logger.error("the hook %s.%s failed", _name(hook), point, exc_info=error)
        self.warn(f"{_failure(hook, point, error)}. The run continues")


NO_HOOKS = Hooks()


def _check_answer(hook: Hook[Any], point: str, said: object) -> None:
    """Raise TypeError for an answer that the point, or an observer, does not give."""
    kinds = () if point in hook.observes else _ANSWERS[point]
    if not isinstance(said, kinds):
        told = ", ".join([*(kind.__name__ for kind in kinds), "None"])
        raise TypeError(
            f"it returned {said!r:.80}; it must return {' or '.join(told.rsplit(', ', 1))}"
        )


def _is_cancelled() -> bool:
    """Return True if the current task is being cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _go_on(hook: Hook[Any], said: object, *, since: str = "") -> None:
    if isinstance(said, Stop):
        raise RunBlocked(_stopped(hook, said), since=since)


def _stopped(hook: Hook[Any], said: Stop) -> str:
    return f"the hook {_name(hook)} stopped the run: {said.reason}"


T = TypeVar("T")
Spoken = TypeVar("Spoken", Message, ModelResponse)


def _with_text(one: Spoken, text: str) -> Spoken:
    """Return the message or response with another text in the place of its first one, and without
    its other texts.
    """
    return msgspec.structs.replace(one, parts=_retold(one.parts, text))


def _retold(parts: Sequence[T], text: str) -> tuple[T | TextPart, ...]:
    texts = [i for i, part in enumerate(parts) if isinstance(part, TextPart)]
    kept: list[T | TextPart] = [part for i, part in enumerate(parts) if i not in texts]
    kept.insert(texts[0] if texts else len(parts), TextPart(text=text))
    return tuple(kept)


def _failure(hook: Hook[Any], point: str, error: BaseException) -> str:
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  __str__ may be user code
        words = type(error).__name__
    return f"the hook {_name(hook)}.{point} failed: {words}"


def _overriding(hooks: Sequence[Hook[Any]], point: str) -> tuple[Hook[Any], ...]:
    return tuple(hook for hook in hooks if getattr(type(hook), point) is not getattr(Hook, point))


def _name(hook: Hook[Any]) -> str:
    return type(hook).__name__
