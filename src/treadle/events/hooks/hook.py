"""The contract of a hook: the points of a run, their arguments, and the possible answers.

The loop and the toolbox call the points; chain.py combines several hooks. Entry point: `Hook`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from treadle.errors import AgentError
from treadle.messages.events import Event
from treadle.messages.message import ToolCall, ToolResult
from treadle.messages.result import RunResult
from treadle.models.model import ModelRequest, ModelResponse
from treadle.tools.approval import Approve, Deny


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedRun:
    """The run as its hooks see it."""

    run_id: str
    session_id: str | None
    parent_run_id: str | None
    user_id: str | None
    agent: str
    model: str


def _check_text(answer: object, text: object) -> None:
    """Raises AgentError(invalid): the journal keeps it, and takes nothing else."""
    if not isinstance(text, str):
        raise AgentError("invalid", f"{type(answer).__name__}({text!r:.80}): give a text")


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends here, in the outcome `error` of kind `agent`, for this reason.

    Attributes:
        reason: Reason for people and for the model.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text(self, self.reason)


@dataclass(frozen=True, slots=True)
class Add:
    """Text that the model reads before it answers; it stays in the history.

    Attributes:
        text: Text that the model reads.
    """

    text: str

    def __post_init__(self) -> None:
        _check_text(self, self.text)


@dataclass(frozen=True, slots=True)
class Ask:
    """A person is asked about the call first, for this reason.

    Attributes:
        reason: Reason that the person reads.
    """

    reason: str

    def __post_init__(self) -> None:
        _check_text(self, self.reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """The call is not run; this is its result.

    Attributes:
        text: Text in place of the result or the response.
    """

    text: str

    def __post_init__(self) -> None:
        _check_text(self, self.text)


BeforeModel: TypeAlias = "ModelResponse | Add | Stop | None"
AfterModel: TypeAlias = "ModelResponse | Stop | None"
BeforeTool: TypeAlias = "Approve | Deny | Ask | Answer | None"


class Hook:
    """Override what you need: a point that no hook overrides costs nothing.

    None everywhere means: go on as you would.
    """

    async def before_run(self, run: HookedRun) -> Stop | None:
        """Before the first turn, also of a run that is taken up again."""

    async def after_run(self, run: HookedRun, result: RunResult[Any]) -> None:
        """After its end is in the journal and its last event has left; also of a run that waits,
        was cancelled, or failed. It cannot change it.

        It has 5 s, however the run ended.
        """

    async def before_model(self, run: HookedRun, request: ModelRequest) -> BeforeModel:
        """Before each request. It may add text (what was sent before stays as it is, so that
        providers' caches keep it), stop the run, or answer in the model's place, which costs
        nothing and counts as a turn. The messages are the run's own: look at them, and do not keep
        them.
        """

    async def after_model(
        self, run: HookedRun, request: ModelRequest, response: ModelResponse
    ) -> AfterModel:
        """After a whole response of a model, before anything of it is stored or done.

        Another one in its place has no call that the model did not make; what the first one used
        stays what was used. Those who listened have heard its words as they came.
        """

    async def before_tool(self, run: HookedRun, call: ToolCall) -> BeforeTool:
        """Before a call is judged, with the arguments that it would run with: also where a person
        changed them, and again where a dead process had begun it.

        `Approve(arguments)` changes what it is called with and permits nothing: rules and modes
        judge it all the same. What a call had begun with, and what a person was shown or gave, is
        not changed any more.
        """

    async def after_tool(self, run: HookedRun, call: ToolCall, result: ToolResult) -> str | None:
        """After a call gave its result, before that is stored.

        Another text in its place stays an error where it was one.
        """

    async def before_compaction(self, run: HookedRun) -> Stop | None:
        """Before history is shortened inside a run: Stop leaves it as it is."""

    async def after_compaction(self, run: HookedRun, receipt: Mapping[str, object]) -> None:
        """Observe a compaction. `receipt`: its journal entry, as in `compacted` events."""

    def on_event(self, event: Event) -> None:
        """Receive each event of the run, deltas too, without known secrets; in the event loop, so
        be quick.

        If no hook overrides it, no events are made for it.
        """
