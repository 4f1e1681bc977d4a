"""Admission of a response's tool calls: decides which may run, and gives the others a result.

Entry point: `Admission`.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.loop.call_values import Prepared, Ready, RefusedCall, refused
from treadle.loop.plan import Plan
from treadle.loop.toolbox import Toolbox
from treadle.messages.message import ToolCall
from treadle.types import Outcome, StopReason

CUT_CALL = "Not run: the response was cut by its limit on output tokens inside this call."
SECOND = "Not run: another call of this response hands the conversation to {}."
SHORTER = "Make it again, shorter or in several steps."
LONGER = "The limit is higher now: make it again."


class Admission:
    """Admission of one run's calls, by the response's stop reason and the remaining limits."""

    def __init__(self, plan: Plan, toolbox: Toolbox) -> None:
        self._plan, self._toolbox = plan, toolbox
        self._state, self._ledger = plan.state, plan.state.ledger

    def admit(
        self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None
    ) -> Sequence[Prepared]:
        """Return each call as ready, held, or refused with the reason as its result.

        `last`: the limit that makes this turn the last one, or None.
        """
        if stop in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
            return [
                refused(call, f"Not run: the response ended with {stop.value}.") for call in calls
            ]
        if last is not None or self._ledger.is_last_turn:
            text, cut_by = "Not run: this was the last turn of the run.", last or Outcome.TURN_LIMIT
            completes = self._toolbox.completes
            return self.within_limits(
                [
                    self._toolbox.prepare(c) if completes(c) else refused(c, text, cut_by=cut_by)
                    for c in calls
                ]
            )
        prepared = [self._toolbox.prepare(call) for call in calls]
        if stop is StopReason.MAX_TOKENS and prepared:
            models, current = self._state.models, self._state.current
            more = self._plan.may_raise and not models.cuts and current.clamped is None
            prepared[-1] = refused(calls[-1], f"{CUT_CALL} {LONGER if more else SHORTER}")
        if self._toolbox.has_handoffs:
            prepared = self._one_handoff(prepared)
        return self.within_limits(prepared)

    def _one_handoff(self, prepared: Sequence[Prepared]) -> list[Prepared]:
        """Refuse every handoff after the first."""
        admitted: list[Prepared] = []
        first = ""
        for one in prepared:
            to = self._toolbox.hands_to(one.tool) if isinstance(one, Ready) else ""
            admitted.append(refused(one.call, SECOND.format(first)) if to and first else one)
            first = first or to
        return admitted

    def within_limits(self, prepared: Sequence[Prepared]) -> Sequence[Prepared]:
        """Reserve each call that may start, in order, and refuse those beyond the limits."""
        if not self._ledger.counts_calls:
            return prepared
        limit = self._plan.limits.tool_calls
        text = (
            "Not run: the limit of tool calls is reached."
            if limit is None
            else f"Not run: the run's limit of {limit} tool calls is reached."
        )
        return [
            p if self._may_start(p) else refused(p.call, text, cut_by=Outcome.CALL_LIMIT)
            for p in prepared
        ]

    def _may_start(self, p: Prepared) -> bool:
        """Return False if no call is left. Refused calls, and calls that have started before, need
        no reservation.
        """
        return (
            isinstance(p, RefusedCall)
            or p.call.id in self._state.current.starts
            or self._ledger.admit_call(completes=self._toolbox.completes(p.call))
        )

    def is_kept_first(
        self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None
    ) -> bool:
        """Return True if the response must be journaled before hooks see its calls: hooks may be
        slow, and a crash meanwhile would lose a paid response.

        Only responses whose calls a resuming process would admit in the same way qualify.
        """
        asks = bool(calls) and "before_tool" in self._plan.hooks.points
        return (
            asks and stop is StopReason.TOOL_USE and last is None and not self._ledger.is_last_turn
        )
