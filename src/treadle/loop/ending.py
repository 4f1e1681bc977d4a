"""Endings of runs and their metrics, from a driver or from the journal.

Entry points: `Ending`, `ending_of`, `unfinished`, `metrics_of`.
"""

from __future__ import annotations

import logging

import msgspec

from treadle._internal.json_text import decode_json
from treadle.budget.spending import Spending
from treadle.errors import AgentError, out_of_memory
from treadle.journal.entries import RunFinished
from treadle.journal.run_state import RunState
from treadle.loop.plan import Plan
from treadle.messages.events import ErrorInfo
from treadle.messages.message import JsonText
from treadle.messages.metrics import RunMetrics, RunTotals
from treadle.types import Outcome, now

logger = logging.getLogger("treadle")


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, or its pause while it waits for a user."""

    outcome: Outcome
    text: str
    error: AgentError | None
    metrics: RunMetrics
    spending: tuple[Spending, ...] = ()
    waiting: bool = False
    """True if the run waits and `resume` continues it."""
    output: object = None
    output_json: JsonText = "null"
    validated: bool = False
    free: bool | None = None
    """As in RunFinished."""

    def finished(self, open_turn: int | None) -> RunFinished:
        """Return the run's last entry. `open_turn`: the turn that it closes, or None."""
        metrics = self.metrics
        return RunFinished(
            at=now(),
            outcome=self.outcome,
            turns=metrics.turns,
            tool_calls=metrics.tool_calls,
            usage=metrics.usage,
            cost_usd=metrics.cost_usd,
            spending=self.spending,
            total=metrics.total if metrics.total.runs > 1 else None,
            duration_s=metrics.duration_s,
            text=self.text,
            output=self.output_json,
            validated=self.validated,
            open_turn=open_turn,
            free=self.free,
            error=None if self.error is None else error_info(self.error),
        )


def ending_of(state: RunState) -> Ending:
    """Return the ending of a finished run, from its journal."""
    finished = state.finished
    assert finished is not None, "the run is finished"
    error = finished.error
    return Ending(
        outcome=finished.outcome,
        text=finished.text,
        error=None
        if error is None
        else AgentError(
            error.kind, error.message, status=error.status, request_id=error.request_id
        ),
        metrics=metrics_of(state, duration_s=finished.duration_s, total=finished.total),
        output=decode_json(finished.output.encode(), object),
        output_json=finished.output,
        validated=finished.validated,
    )


def unfinished(
    state: RunState,
    outcome: Outcome | None = None,
    *,
    driven_s: float | None = None,
    total: RunTotals | None = None,
) -> Ending:
    """Return the ending of a run that has none in the journal.

    `driven_s`: the run's active time, if later entries in `state` are not the driver's. `total`: as
    for `metrics_of`.
    """
    metrics = metrics_of(
        state, duration_s=state.driven_s if driven_s is None else driven_s, total=total
    )
    if outcome is None and state.approvals.asked:
        return Ending(
            outcome=Outcome.APPROVAL_NEEDED,
            text=state.text,
            error=None,
            metrics=metrics,
            waiting=True,
        )
    error = (
        AgentError("agent", "the run is not finished: resume it, or kill it")
        if outcome is None
        else None
    )
    return Ending(outcome=outcome or Outcome.ERROR, text=state.text, error=error, metrics=metrics)


def metrics_of(
    state: RunState,
    *,
    duration_s: float,
    invocations: int | None = None,
    total: RunTotals | None = None,
) -> RunMetrics:
    """Return the metrics of a run.

    `invocations`: the driver's count, by default the journaled one. `total`: totals of the tree, by
    default the ledger's.
    """
    ledger = state.ledger
    return RunMetrics(
        turns=ledger.turns,
        invocations=state.spending.invocations if invocations is None else invocations,
        tool_calls=ledger.tool_calls,
        retries=state.spending.retries,
        usage=ledger.usage,
        cost_usd=ledger.cost_usd,
        duration_s=round(duration_s, 6),
        total=total or ledger.total,
    )


def as_error(error: Exception, plan: Plan, what: str = "failed unexpectedly") -> AgentError:
    """Return the error for the caller, with secrets masked. Logs an unexpected exception. `what`:
    what happened to the run, for the message.
    """
    if not isinstance(error, AgentError):
        logger.error("run %s %s", plan.run_id, what, exc_info=error)
        if isinstance(error, MemoryError):
            error = out_of_memory(f"the run {what}")
        else:
            error = AgentError("agent", f"the run {what}: {type(error).__name__}: {error}")
    error.message = plan.redactor.text(error.message)
    error.args = (error.kind, error.message)
    return error


def request_named(error: AgentError) -> str:
    """Return the provider's id of the failed request, to follow the error's message."""
    return f"; request {error.request_id}" if error.request_id else ""


def error_info(error: AgentError) -> ErrorInfo:
    return ErrorInfo(
        kind=error.kind.value,
        message=error.message,
        status=error.status,
        request_id=error.request_id,
    )
