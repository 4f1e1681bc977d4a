"""Result of a run: its outcome and everything it produced.

Entry points: `RunResult`, `PendingCall`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Never, cast

from typing_extensions import TypeVar

from treadle._internal.json_text import JsonText
from treadle._internal.other_names import missing
from treadle._internal.units import count
from treadle.errors import AgentError, ErrorKind
from treadle.messages.labels import Metadata
from treadle.messages.message import MediaPart, Message
from treadle.messages.metrics import RunMetrics
from treadle.types import Outcome

Out = TypeVar("Out", default=str)

_KIND_OF = {
    Outcome.TIMEOUT: ErrorKind.TIMEOUT,
    Outcome.CANCELLED: ErrorKind.CANCELLED,
    Outcome.CONTEXT_OVERFLOW: ErrorKind.CONTEXT_OVERFLOW,
    Outcome.TURN_LIMIT: ErrorKind.LIMIT,
    Outcome.CALL_LIMIT: ErrorKind.LIMIT,
    Outcome.TOKEN_LIMIT: ErrorKind.LIMIT,
    Outcome.COST_LIMIT: ErrorKind.LIMIT,
    Outcome.TRUNCATED: ErrorKind.LIMIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A tool call for which a run waits.

    Attributes:
        call_id: Id of the call, which an answer refers to.
        name: Name of the tool.
        arguments: Arguments of the call; the model's text if it is not a JSON object.
        reason: Reason why it waits.
        deferred: True if it has started and its result comes from outside, such as from a child run
            that waits. Then it cannot be approved.
    """

    call_id: str
    name: str
    arguments: dict[str, object] | str
    reason: str
    deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Generic[Out]):
    """Result of a run. It has the same fields for every outcome.

    Attributes:
        run_id: Id of the run.
        session_id: Session of the run, or None.
        outcome: Why the run ended.
        output: The typed output; None if there is none, or the raw text if the outcome is
            `invalid_output`.
        validated: True if the output satisfies the requested type.
        text: Text of the last assistant message that has any.
        error: The error, if the outcome is `error` or an error caused another outcome. For
            `invalid_output`, what is wrong with the last answer.
        messages: The conversation as the next request would send it. A copy that you may modify.
        new_messages: Messages of this run, beginning with its prompt. A copy that you may modify.
        metrics: Turns, calls, tokens, time and cost.
        output_json: `output` as the JSON in the journal.
        waiting: True if the run waits for an approval and has not ended. Continue it with `resume`.
        pending: Calls for which the run waits, in the order of the questions.
        agent: Name of the agent that answered: the last one, if the run was handed over.
        tags: Tags of the run.
        metadata: Metadata of the run. A copy that you may modify.
    """

    run_id: str
    session_id: str | None
    outcome: Outcome
    output: Out | None
    validated: bool
    text: str
    error: AgentError | None
    messages: list[Message]
    new_messages: list[Message]
    metrics: RunMetrics
    output_json: JsonText = "null"
    waiting: bool = False
    pending: tuple[PendingCall, ...] = ()
    agent: str = ""
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, "str | int | float | bool"])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            raise missing("RunResult", name)

    @property
    def output_text(self) -> str:
        """The output if it is a string, its JSON if it is typed, `text` if there is none."""
        return (
            self.output
            if isinstance(self.output, str)
            else self.text
            if self.output is None
            else self.output_json
        )

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Images and sounds that the model made in this run, in order."""
        said = (message for message in self.new_messages if message.role == "assistant")
        return tuple([part for message in said for part in message.media])

    @property
    def success(self) -> bool:
        """True if the run completed, that is, `outcome` is `completed`."""
        return self.outcome is Outcome.COMPLETED

    @property
    def terminate_reason(self) -> Outcome:
        """Alias of `outcome`."""
        return self.outcome

    @property
    def turn_count(self) -> int:
        """Number of accepted responses; the same as `metrics.turns`."""
        return self.metrics.turns

    def unwrap(self) -> Out:
        """Return the output of a completed run. Raises AgentError for every other outcome."""
        if self.success:
            return cast("Out", self.output)
        if self.error is not None:
            raise self.error
        kind = _KIND_OF.get(self.outcome, ErrorKind.AGENT)
        spent = self.metrics.total.spent_of(self.outcome) or count(self.turn_count, "turn")
        raise AgentError(
            kind,
            (
                f"run {self.run_id} ended {self.outcome.value} after {spent}; its text so far: "
                f"{self.text[:200]!r}"
            ),
        )
