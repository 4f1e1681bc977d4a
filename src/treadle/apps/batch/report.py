"""What came of a batch, as values: a row for each prompt.

How it is printed is for others (markdown.py, the command line). Entry: `Report`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.apps.batch.batch import Batch
from treadle.types import Outcome, Value


class Diff(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What an attempt changed in its folder, files that git does not know yet included, ignored
    ones not.
    """

    files: int
    added: int
    """Lines; of binary files none."""
    removed: int


class GateResult(Value, frozen=True, kw_only=True, omit_defaults=False):
    """A command that judged the last attempt."""

    command: str
    passed: bool | None
    """None: not run, because one before it failed."""
    exit_code: int | None = None
    """Negative: the signal that ended it.

    None: it ran into its timeout, could not be started, or was not run.
    """
    duration_s: float = 0.0
    output: str = ""
    """The end of what it said."""
    log: str | None = None
    """The file that has all of it."""

    @property
    def failed(self) -> bool:
        return self.passed is False


class ReportRow(Value, frozen=True, kw_only=True, omit_defaults=False):
    """One prompt. Its figures are the sum of its attempts, with the runs that these started."""

    number: int
    prompt: str
    run_id: str | None = None
    """Of the last run; None where none could begin."""
    session_id: str | None = None
    """The conversation of its attempts."""
    outcome: Outcome | None = None
    """Of the last run; None where it has not ended, or not begun."""
    passed: bool = False
    """It completed, and so did every gate."""
    attempts: int = 0
    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    """Of the responses whose price was known; None where it was known of none."""
    duration_s: float = 0.0
    """Of its runs; gates have their own."""
    diff: Diff | None = None
    """None: nobody can tell, because the folder is in no git repository, or several prompts worked
    in it at once.
    """
    gates: tuple[GateResult, ...] = ()
    error: str | None = None
    """Why it ended as it did, where that is no answer."""
    text: str = ""
    """The answer, JSON where it has a type; else what the model said last."""
    branch: str | None = None
    folder: str | None = None
    """Of the worktree, where it was kept."""


class BatchTotals(Value, frozen=True, kw_only=True, omit_defaults=False):
    prompts: int
    passed: int
    turns: int
    tokens: int
    cost_usd: float | None
    duration_s: float


class Report(Value, frozen=True, kw_only=True, omit_defaults=False):
    id: str
    """Of the batch."""
    passed: bool
    """Every prompt completed and passed its gates."""
    stopped: bool
    """By a person, before its end."""
    pending: int
    """Prompts that have not come to their end: whoever resumes the batch goes on with them."""
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
