"""A run before it starts, and how it ended: the two values on either side of the loop. Entry: `Plan`, `Ending`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.errors import AgentError
from treadle.events import ErrorInfo
from treadle.journal import RunFinished, RunStarted
from treadle.message import JsonText, encode_json
from treadle.model import History, Model
from treadle.redaction import Redactor
from treadle.types import Limits, Mode, Outcome, RunMetrics, Settings, SystemBlock, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a run is, resolved before it starts."""

    run_id: str
    session_id: str | None
    agent: str
    agent_hash: str
    model: Model
    system: tuple[SystemBlock, ...]
    settings: Settings
    """Resolved: max_tokens is set, and nothing stands in it that the model refuses."""
    limits: Limits
    mode: Mode
    cwd: Path
    history: History
    """What came before, then the prompt."""
    redactor: Redactor
    inputs_json: JsonText = "{}"
    user_id: str | None = None
    warnings: tuple[str, ...] = ()

    def started(self) -> RunStarted:
        """The first entry of its journal."""
        return RunStarted(
            at=now(),
            run_id=self.run_id,
            agent=self.agent,
            agent_hash=self.agent_hash,
            model=self.model.name,
            mode=self.mode,
            cwd=str(self.cwd),
            input=self.history[-1],
            limits=self.limits,
            inputs=self.inputs_json,
            session_id=self.session_id,
            user_id=self.user_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended."""

    outcome: Outcome
    text: str
    error: AgentError | None
    metrics: RunMetrics

    def finished(self, open_turn: int | None) -> RunFinished:
        """The last entry of its journal; `open_turn` is the turn that it closes."""
        metrics, done = self.metrics, self.outcome is Outcome.COMPLETED
        return RunFinished(
            at=now(),
            outcome=self.outcome,
            turns=metrics.turns,
            tool_calls=metrics.tool_calls,
            usage=metrics.usage,
            duration_s=metrics.duration_s,
            text=self.text,
            output=encode_json(self.text).decode() if done else "null",
            validated=done,
            open_turn=open_turn,
            error=None if self.error is None else error_info(self.error),
        )


def error_info(error: AgentError) -> ErrorInfo:
    return ErrorInfo(kind=error.kind.value, message=error.message, status=error.status, request_id=error.request_id)
