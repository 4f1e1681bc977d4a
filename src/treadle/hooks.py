"""Code at named points of every run: what it is told there, and what it may do.

When each point comes is the loop's and the toolbox's. Entry: `Hook`, `Hooks`.

    before_run
      before_model · after_model          (each turn)
      before_tool  · after_tool           (each call)
      before_compaction · after_compaction
    after_run                             (always, and last)

Hooks are asked in their order, the runtime's before the agent's; after something, in the other order. Of several that decide, the first one
counts. One that raises before something stops it: a call is not run, a run ends in an error. One that raises after something, or on an event,
is logged and told as a warning, and what it was told stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from treadle.asking import Approve, Deny
from treadle.errors import AgentError
from treadle.events import Event
from treadle.message import ToolCall, ToolResult
from treadle.model import ModelRequest, ModelResponse
from treadle.result import RunResult

logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedRun:
    """The run that a hook is told of."""

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    user_id: str | None
    agent: str
    model: str


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends here, in the outcome `error` of kind `agent`, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Add:
    """Text that the model reads before it answers; it stays in the history."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A person is asked about the call first, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The call is not run; this is its result."""

    text: str


BeforeModel: TypeAlias = "ModelResponse | Add | Stop | None"
AfterModel: TypeAlias = "ModelResponse | Stop | None"
BeforeTool: TypeAlias = "Approve | Deny | Ask | Answer | None"


class Hook:
    """Override what you need: a point that no hook overrides costs nothing. None everywhere means: go on as you would."""

    async def before_run(self, run: HookedRun) -> Stop | None:
        """Before the first turn, also of a run that is taken up again."""

    async def after_run(self, run: HookedRun, result: RunResult[Any]) -> None:
        """After its end is in the journal; also of a run that waits. It cannot change it."""

    async def before_model(self, run: HookedRun, request: ModelRequest) -> BeforeModel:
        """Before each request. It may add text (what was sent before stays as it is, so that providers' caches keep it), stop the run, or answer
        in the model's place, which costs nothing and counts as a turn.
        """

    async def after_model(self, run: HookedRun, request: ModelRequest, response: ModelResponse) -> AfterModel:
        """After a whole response, before anything of it is stored or done. Another one in its place has to keep its calls' ids."""

    async def before_tool(self, run: HookedRun, call: ToolCall) -> BeforeTool:
        """Before a call is judged. `Approve(arguments)` changes what it is called with and permits nothing: rules and modes judge it all the same."""

    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> str | None:
        """After a call gave its result, before that is stored. Another text in its place stays an error where it was one."""

    async def before_compaction(self, run: HookedRun) -> Stop | None:
        """Before history is shortened: Stop leaves it as it is."""

    async def after_compaction(self, run: HookedRun, receipt: Mapping[str, object]) -> None: ...

    def on_event(self, event: Event) -> None:
        """Each event of the run as it leaves, deltas too; in the event loop, so be quick. Where nobody overrides it no events are made for it."""


def checked_hooks(hooks: object) -> tuple[Hook, ...]:
    """Raises AgentError(invalid) where they are none."""
    if isinstance(hooks, list | tuple) and all(isinstance(hook, Hook) for hook in cast("Sequence[object]", hooks)):
        return tuple(cast("Sequence[Hook]", hooks))
    raise AgentError("invalid", "hooks= takes a list of Hook objects, like hooks=[Audit()]")


class Hooks:
    """Those of one run, sorted by what they override."""

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._of = {point: _overriding(hooks, point) for point in _POINTS} if hooks else {}
        self.warn: Callable[[str], None] = lambda text: None
        """Tells people that a hook failed after something."""

    def __bool__(self) -> bool:
        return bool(self._of)

    def has(self, point: str) -> bool:
        return bool(self._of.get(point))

    async def before(self, point: str, *told: Any) -> Any:
        """The first answer. Raises AgentError(agent) where a hook fails."""
        for hook in self._of.get(point, ()):
            try:
                answer = await getattr(hook, point)(*told)
            except Exception as e:
                raise AgentError("agent", f"the hook {_name(hook)}.{point} failed: {type(e).__name__}: {e}") from e
            if answer is not None:
                return _named(answer, hook)
        return None

    async def after(self, point: str, *told: Any) -> Any:
        """The first answer; what fails is told, and is no answer."""
        for hook in reversed(self._of.get(point, ())):
            try:
                answer = await getattr(hook, point)(*told)
            except Exception as e:
                logger.exception("the hook %s.%s failed", _name(hook), point)
                self.warn(f"the hook {_name(hook)}.{point} failed, and the run goes on: {type(e).__name__}: {e}")
                continue
            if answer is not None:
                return answer
        return None

    def on_event(self, event: Event) -> None:
        for hook in self._of.get("on_event", ()):
            try:
                hook.on_event(event)
            except Exception:
                logger.exception("the hook %s.on_event failed", _name(hook))


_POINTS = tuple(name for name in vars(Hook) if not name.startswith("_"))
NO_HOOKS = Hooks()


def _overriding(hooks: Sequence[Hook], point: str) -> tuple[Hook, ...]:
    return tuple(hook for hook in hooks if getattr(type(hook), point) is not getattr(Hook, point))


def _name(hook: Hook) -> str:
    return type(hook).__name__


def _named(answer: Any, hook: Hook) -> Any:
    return (answer, _name(hook)) if isinstance(answer, ModelResponse) else answer
