"""What a run gives: its end as a value, with everything there is so far. Entry: `RunResult`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, cast

from typing_extensions import TypeVar

from treadle._internal.json_text import JsonText
from treadle._internal.units import count
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message
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
class RunResult(Generic[Out]):
    """The same fields whatever the outcome."""

    run_id: str
    session_id: str | None
    outcome: Outcome
    output: Out | None
    """The typed answer; None where the run did not come to one.

    With the outcome `invalid_output` the raw text.
    """
    validated: bool
    """Whether the output is what was asked for."""
    text: str
    """That of the last assistant message that has some."""
    error: AgentError | None
    """Set where the outcome is `error`, and where an error is what ended it otherwise."""
    messages: list[Message]
    """The conversation: what the next request would send. Yours to change."""
    new_messages: list[Message]
    """This run's, its prompt first. Yours to change."""
    metrics: RunMetrics
    output_json: JsonText = "null"
    """`output` as JSON, as the journal has it."""
    waiting: bool = False
    """It is not over: `resume` goes on with it."""

    @property
    def output_text(self) -> str:
        """The output as text: JSON where it is typed."""
        return (
            self.output
            if isinstance(self.output, str)
            else self.text
            if self.output is None
            else self.output_json
        )

    @property
    def success(self) -> bool:
        return self.outcome is Outcome.COMPLETED

    @property
    def terminate_reason(self) -> Outcome:
        """An alias of `outcome`."""
        return self.outcome

    @property
    def turn_count(self) -> int:
        return self.metrics.turns

    def unwrap(self) -> Out:
        """The output of a completed run. Raises AgentError for every other outcome."""
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
