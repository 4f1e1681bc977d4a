"""The hook contract: the points of a run, their arguments, and the possible answers.

The loop and the toolbox call the points; chain.py combines several hooks. Entry point: `Hook`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeAlias

from typing_extensions import TypeVar

from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.message import Message, ToolCall, ToolResult
from treadle.messages.result import RunResult
from treadle.models.model import ModelRequest, ModelResponse
from treadle.tools.approval import Approve, Deny
from treadle.tools.tool import SpawnedAgent
from treadle.types import Limits

Deps = TypeVar("Deps", contravariant=True, default=object)
GivenDeps = TypeVar("GivenDeps", covariant=True, default=object)
ChildOut = TypeVar("ChildOut")
_NO_DEPS: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedRun(Generic[GivenDeps]):
    """Read-only view of the run for which a hook is called.

    Attributes:
        run_id: Id of the run.
        session_id: Session of the run, or None.
        parent_run_id: Run that started this one, or None.
        user_id: User on whose behalf the run acts, or None.
        agent: Name of the agent.
        model: Name of the model.
        deps: The application's own dependencies, as passed to the run. None before a queued run has
            a worker.
        inputs: Inputs of the run by name, with defaults filled in.
        run_child: Starter of child runs, for `spawn`. None while no process drives the run.
    """

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    user_id: str | None
    agent: str
    model: str
    deps: GivenDeps = _NO_DEPS
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run_child: Callable[..., Awaitable[RunResult[Any]]] | None = field(default=None, repr=False)

    async def spawn(
        self,
        agent: SpawnedAgent[None, ChildOut],
        text: str,
        *,
        key: str,
        limits: Limits | None = None,
    ) -> RunResult[ChildOut]:
        """Run an agent without dependencies to its end, as a child run: its usage counts against
        the limits of the run, and it gets no additional rights.

        `key`: identifies the question within the run, like `tone:` and the id of a message. The
        same key has the same result; a resume continues the child run. Raises
        AgentError(invalid) in `before_input` of a queued run, and ToolFailed if the limits allow
        no further run.
        """
        if self.run_child is None:
            raise AgentError("invalid", "this hook is called before its run: it cannot start runs")
        return await self.run_child(
            f"hook:{key}", agent, text, deps=None, inputs=None, limits=limits
        )


def _check_text(answer: object, text: object) -> None:
    """Raise AgentError(invalid) if `text`, which is journaled, is not a string."""
    if not isinstance(text, str):
        raise AgentError("invalid", f"{type(answer).__name__}({text!r:.80}): pass a string")


@dataclass(frozen=True, slots=True)
class Stop:
    """Answer that ends the run with the outcome `refused`.

    Attributes:
        reason: Reason for people, in `RunResult.error`.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text(self, self.reason)


@dataclass(frozen=True, slots=True)
class Add:
    """Answer that adds a user message, which the model reads before it responds. It stays in the
    history.

    Attributes:
        text: Text of the message.
    """

    text: str

    def __post_init__(self) -> None:
        _check_text(self, self.text)


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer that requires a person's approval of the call.

    Attributes:
        reason: Reason that the person reads.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text(self, self.reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer that prevents the call and supplies its result.

    Attributes:
        text: Text of the result.
    """

    text: str

    def __post_init__(self) -> None:
        _check_text(self, self.text)


BeforeModel: TypeAlias = "ModelResponse | Add | Stop | None"
AfterModel: TypeAlias = "ModelResponse | str | Stop | None"
BeforeTool: TypeAlias = "Approve | Deny | Ask | Answer | Stop | None"
AfterTool: TypeAlias = "str | Deny | Stop | None"


class Hook(Generic[Deps]):
    """Base class of hooks. Override the points that you need; the others cost nothing.

    Return None to continue unchanged. `Hook[Deps]` is for runs with these dependencies.

    Attributes:
        observes: Names of the points at which this hook only observes. There it returns None, and
            an error is reported while the run continues. At every other point that can change or
            block something, an error blocks it.
    """

    observes: ClassVar[Collection[str]] = ()

    async def before_run(self, run: HookedRun[Deps]) -> Stop | None:
        """Called before the first turn. A resumed run calls it again."""

    async def after_run(self, run: HookedRun[Deps], result: RunResult[Any]) -> None:
        """Observe the end. Called after it is journaled and the last event is published, whatever
        the outcome, and also if the run waits. Must return within 5 s. It cannot change the result.
        """

    async def before_input(self, run: HookedRun[Deps], message: Message) -> str | None:
        """Called with the prompt before the run is recorded, and with each message that a user
        sends to the run before it is recorded. Can return a replacement text.

        The original text is not stored. A queued run calls it when it is submitted.
        """

    async def check_input(self, run: HookedRun[Deps], message: Message) -> Stop | None:
        """Called with each message of a user, in parallel with the request that shows it to the
        model. Can stop the run: the request is cancelled, and the message leaves the conversation.

        The response is neither recorded nor are its calls run before this has returned.
        """

    async def check_output(self, run: HookedRun[Deps], output: Any) -> Deny | Stop | None:
        """Called with a valid output, before the run completes. Can return it to the model with a
        reason (`Deny`), within the `retries` of the agent, or stop the run without it.

        A resume may call it again.
        """

    async def before_model(self, run: HookedRun[Deps], request: ModelRequest) -> BeforeModel:
        """Called before each request. Can add text, stop the run, or respond instead of the model,
        which costs nothing and counts as a turn.

        Added text follows the existing messages, so that prompt caches stay valid. The messages
        belong to the run: do not modify or keep them.
        """

    async def after_model(
        self, run: HookedRun[Deps], request: ModelRequest, response: ModelResponse
    ) -> AfterModel:
        """Called after a complete response, before it is journaled and its calls run. Can replace
        it, or its text, or stop the run.

        A replacement must not contain tool calls that the model did not request. Its usage is that
        of the original, whose deltas are already published.
        """

    async def before_tool(self, run: HookedRun[Deps], call: ToolCall) -> BeforeTool:
        """Called before a call is decided, with the arguments that it would run with; and again
        after a person changed them, or for a call that a dead process had started.

        `Approve(arguments)` changes the arguments but does not approve the call: rules and mode
        still decide. Arguments with which a call has started, or that a person gave or saw, cannot
        be changed.
        """

    async def after_tool(
        self, run: HookedRun[Deps], call: ToolCall, result: ToolResult
    ) -> AfterTool:
        """Called after a call, before its result is journaled. Can return a replacement for its
        text, which keeps its media, withhold the result from the model with a reason (`Deny`), or
        also stop the run.

        The result of a failed call stays an error.
        """

    async def before_compaction(self, run: HookedRun[Deps]) -> Stop | None:
        """Called before a compaction during a run. Stop prevents it."""

    async def after_compaction(self, run: HookedRun[Deps], receipt: Mapping[str, object]) -> None:
        """Called after a compaction. `receipt`: as in the `compaction` event."""

    def on_event(self, event: Event) -> None:
        """Called with each event of the run, including deltas, with known secrets masked. Must be
        fast, because it runs in the event loop.
        """
