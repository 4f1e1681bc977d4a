"""Results of a batch as values: a row for each prompt.

markdown.py and the command line render them. Entry point: `Report`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.apps.batch.batch import Batch
from treadle.types import Outcome, Value


class Diff(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Changes that an attempt made in its folder, including untracked files, without ignored
    ones.
    """

    files: int
    added: int
    """Number of added lines, excluding those of binary files."""
    removed: int


class GateResult(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Result of a gate for the last attempt."""

    command: str
    passed: bool | None
    """True if it succeeded; None if it did not run, because an earlier gate failed."""
    exit_code: int | None = None
    """Exit code of the command; negative for the signal that ended it.

    None: it timed out, could not be started, or did not run.
    """
    duration_s: float = 0.0
    output: str = ""
    """Last lines of the command's output."""
    log: str | None = None
    """File with the whole output."""

    @property
    def failed(self) -> bool:
        return self.passed is False


class ReportRow(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Result of a prompt. Figures are sums over its attempts, including their child runs."""

    number: int
    prompt: str
    run_id: str | None = None
    """Id of the last run; None if none could begin."""
    session_id: str | None = None
    """Conversation of all attempts."""
    outcome: Outcome | None = None
    """Outcome of the last run; None if it has not ended or not begun."""
    passed: bool = False
    """True if the run completed and every gate passed."""
    attempts: int = 0
    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    """Cost of the responses with a known price; None if there are none."""
    duration_s: float = 0.0
    """Duration of its runs, without gates."""
    diff: Diff | None = None
    """Changes of files; None if unknown, because the folder is not in a git repository, or several
    prompts worked in it concurrently.
    """
    gates: tuple[GateResult, ...] = ()
    error: str | None = None
    """Reason why the prompt ended without an answer."""
    text: str = ""
    """Answer, as JSON if it is typed, or else the model's last text."""
    branch: str | None = None
    folder: str | None = None
    """Folder of the worktree, if it is kept."""


class BatchTotals(Value, frozen=True, kw_only=True, omit_defaults=False):
    prompts: int
    passed: int
    turns: int
    tokens: int
    cost_usd: float | None
    duration_s: float


class Report(Value, frozen=True, kw_only=True, omit_defaults=False):
    id: str
    """Id of the batch."""
    passed: bool
    """True if every prompt completed and passed its gates."""
    stopped: bool
    """True if a person stopped it before its end."""
    pending: int
    """Number of unfinished prompts, which a resume continues."""
    totals: BatchTotals
    rows: tuple[ReportRow, ...]

    @classmethod
    def of(cls, batch: Batch, rows: Sequence[ReportRow], *, stopped: bool, pending: int) -> Report:
        return cls(
            id=batch.id,
            passed=all(row.passed for row in rows),
            stopped=stopped,
            pending=pending,
            totals=_totals(rows),
            rows=tuple(rows),
        )


def _totals(rows: Sequence[ReportRow]) -> BatchTotals:
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return BatchTotals(
        prompts=len(rows),
        passed=sum(row.passed for row in rows),
        turns=sum(row.turns for row in rows),
        tokens=sum(row.tokens for row in rows),
        cost_usd=sum(costs) if costs else None,
        duration_s=sum(row.duration_s for row in rows),
    )
