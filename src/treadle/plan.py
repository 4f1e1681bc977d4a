"""A run before it starts, and how it ended: the two values on either side of the loop. Entry: `Plan`, `Ending`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.errors import AgentError
from treadle.message import JsonText
from treadle.model import History, Model
from treadle.redaction import Redactor
from treadle.types import Limits, Mode, Outcome, RunMetrics, Settings, SystemBlock


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended."""

    outcome: Outcome
    text: str
    error: AgentError | None
    metrics: RunMetrics
