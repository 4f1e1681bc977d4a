"""Outcome of a run: decides after each turn whether it ends, waits or continues, from its state
alone; then gives open calls results, stores the end and releases the run.

Cancellation, timeouts and errors are decided by the loop, limits by the ledger. Entry points:
`Verdict`, `Closing`.
"""

from __future__ import annotations

import logging

import anyio

from treadle._internal.json_text import JsonText, encode_json
from treadle.errors import AgentError, ErrorKind
from treadle.events.feed import Feed
from treadle.events.hooks import RunBlocked
from treadle.journal.entries import CancelAsked, Entry, RunFinished, ToolStarted
from treadle.loop.calls import OpenCalls
from treadle.loop.ending import Ending, as_error, metrics_of
from treadle.loop.guarding import Check, withdrawn_by
from treadle.loop.inbox import NO_ANSWER, Inbox
from treadle.loop.model_turn import ModelTurn
from treadle.loop.output import RunOutput
from treadle.loop.plan import Plan
from treadle.loop.recorder import Pen
from treadle.types import Outcome, StopReason, now

logger = logging.getLogger("treadle")

GRACE_S = 20.0
"""Seconds that an ending run waits for its journal. It exceeds the time that a journal waits for a
store that another process has locked.
"""


class Verdict:
    """Outcome decision of one run."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._state = plan, plan.state
        self.output = RunOutput(plan)

    def error(self, outcome: Outcome) -> AgentError | None:
        """Return the reason why the output is invalid; None for any other outcome."""
        if outcome is not Outcome.INVALID_OUTPUT:
            return None
        return AgentError(ErrorKind.AGENT, f"the output is invalid: {self.output.problems}")

    def output_of(self, outcome: Outcome) -> tuple[object, JsonText]:
        """Return the output as a value and as JSON: of a completed run, or the raw text if it is
        invalid; else None.
        """
        if outcome is Outcome.COMPLETED and self._plan.answer is not None:
            return self.output.value, self._plan.answer.encoded(self.output.value)
        output = (
            self.output.value if outcome in (Outcome.COMPLETED, Outcome.INVALID_OUTPUT) else None
        )
        return output, encode_json(output).decode()

    def after(self, inbox: Inbox) -> Outcome | None:
        """Return the outcome; None if the run continues, as it does if `inbox` has messages that
        the model has not read.

        Raises AgentError(tool) if a call ends the run, and RunBlocked.
        """
        state, response = self._state, self._state.current.response
        assert response is not None, "a turn is a response"
        if state.current.blocked:
            raise RunBlocked(state.current.blocked)
        if state.current.open_calls:
            return Outcome.APPROVAL_NEEDED
        spent = self._spent
        if response.stop_reason is StopReason.REFUSAL:
            return Outcome.REFUSED
        if response.stop_reason is StopReason.CONTEXT_OVERFLOW:
            return Outcome.CONTEXT_OVERFLOW
        if state.current.calls:
            return self._after_calls(spent)
        if state.current.cut_short and state.models.cuts == 1 and self._plan.may_raise:
            return spent
        if response.stop_reason is StopReason.MAX_TOKENS:
            return state.current.clamped or Outcome.TRUNCATED
        if response.stop_reason is StopReason.PAUSE or state.models.empty_responses == 1:
            return spent  # continue after a pause, and once after an empty response
        words = inbox.waiting or inbox.late.entries or state.current.unread
        if words and spent is None:
            return None  # so that the model reads the messages
        return state.cut_by or (
            Outcome.APPROVAL_NEEDED
            if state.approvals.unapproved
            else self._answered(response.message.text, said=True)
        )

    async def checked(self, check: Check, inbox: Inbox) -> Outcome | None:
        """Return the outcome of a completed run after the check of its output; None if the model
        has to correct the output, or to read messages that came meanwhile.

        The value of a tool that ended the run cannot be corrected. Raises AgentError(agent) if the
        check fails, and RunBlocked.
        """
        current = self._state.current
        ended = current.ended_by is not None
        outcome = await self.output.checked(check, may_mend=self._may_mend, ended=ended)
        if outcome is Outcome.COMPLETED and self._spent is None and not current.calls:
            return None if inbox.waiting or inbox.late.entries else outcome
        return outcome

    @property
    def _spent(self) -> Outcome | None:
        state = self._state
        return state.current.last or (Outcome.TURN_LIMIT if state.ledger.turns_spent else None)

    @property
    def _may_mend(self) -> bool:
        """True if the model may correct its output once more."""
        return self._spent is None and self._state.models.mended < self._plan.mends

    def _after_calls(self, spent: Outcome | None) -> Outcome | None:
        state = self._state
        if self._plan.on_unknown == "fail" and (unknown := state.current.unknown) is not None:
            raise AgentError(
                "tool",
                (
                    f"it is unknown whether {unknown.name} (call {unknown.call_id}) took effect: "
                    f"{unknown.text}"
                ),
            )
        if (last := state.current.ended_by) is not None:
            return self.output.ended(last)
        if (done := state.current.completion) is not None:
            return self._answered(self.output.completed_with(done))
        # a repeated call that was refused for lack of an approver needs approval
        if state.current.repeated is not None and state.current.repeated.ends:
            return spent or (
                Outcome.APPROVAL_NEEDED if state.approvals.unapproved else Outcome.LOOPING
            )
        return spent

    def _answered(self, text: str, *, said: bool = False) -> Outcome | None:
        """Return the outcome of an answer; None if the model has to correct it, at most
        `Plan.mends` times. `said`: the output is text, not a call.
        """
        if self._plan.answer is None and not self._plan.completion:
            self.output.value = self.output.raw = text
            return Outcome.COMPLETED
        return self.output.answered(text, said=said, may_mend=self._may_mend)


class Closing:
    """The end of one run, executed once."""

    def __init__(
        self,
        plan: Plan,
        pen: Pen,
        feed: Feed,
        model: ModelTurn,
        verdict: Verdict,
        inbox: Inbox,
    ) -> None:
        self.ending: Ending | None = None
        """Set when the run has ended or waits, even if its task was cancelled."""
        self.is_unstored = False
        """True if the end could not be journaled. The run can then be resumed elsewhere; release
        its writer after its calls have ended.
        """
        self._plan, self._state, self._ledger = plan, plan.state, plan.state.ledger
        self._pen, self._feed = pen, feed
        self._model, self._verdict, self._inbox = model, verdict, inbox

    async def finish(
        self,
        outcome: Outcome,
        error: AgentError | None,
        calls: OpenCalls,
        *,
        duration_s: float,
        cancelled_by: str | None,
    ) -> None:
        """Store the end, set `ending` and release the run. `calls`: the open calls.

        If the journal fails, the outcome is `error` and the run is not released (`is_unstored`).
        Raises the error of a failed release. Waits at most `GRACE_S`, despite cancellation.
        """
        state, open_turn = self._state, self._state.turn or None
        waiting = outcome is Outcome.APPROVAL_NEEDED and bool(state.current.open_calls)
        why = "The run timed out" if outcome is Outcome.TIMEOUT else "The run was stopped"
        self._warn(outcome, waiting=waiting)
        lost, stored = None, False
        with anyio.move_on_after(GRACE_S, shield=True) as grace:
            self._inbox.is_closed = True
            last = await self._inbox.close() if waiting else self._close(why, calls, cancelled_by)
            try:
                await self._pen.append(*last, hold=True)
                self.ending = ending = self._ending(outcome, error, duration_s, waiting=waiting)
                finished = ending.finished(open_turn)
                await self._pen.append(*([] if waiting else [finished]))
                stored = True
                if waiting:  # subscribers receive an end, although the journaled run continues
                    cut = calls.cut("The run came to wait for a person")
                    self._feed.appended([*(one for one in cut if one.started), finished], None)
            except Exception as e:  # noqa: BLE001  a journal error; subscribers still receive the end
                lost = self._pen.failed or e
            # if a run is released without its request for approval in the journal, it can never be
            # approved
            if stored:
                await self._pen.writer.release(waiting=waiting)
        self.is_unstored = not stored
        if grace.cancelled_caught and not stored:
            text = f"the journal did not answer for {GRACE_S:.0f} s"
            lost = AgentError("agent", f"{text}: the end of this run is not stored")
        if lost is not None:
            self.ending = ending = self._ending(
                Outcome.ERROR, as_error(lost, self._plan), duration_s
            )
            held = (entry for entry in self._pen.held if not isinstance(entry, RunFinished))
            self._feed.appended([*held, ending.finished(open_turn)], None)

    def _warn(self, outcome: Outcome, *, waiting: bool) -> None:
        """Warn of messages that the model will not read, of unpriced usage and empty responses."""
        for text in () if waiting else self._inbox.waiting:
            self._feed.warn(f"the run ended before its model could read: {text}")
        for text in self._ledger.left_out:
            self._feed.warn(text)
        if outcome is Outcome.COMPLETED and self._state.models.empty_responses:
            self._feed.warn(NO_ANSWER)

    def outcome_of(self, error: Exception) -> tuple[Outcome, AgentError]:
        """Return the outcome of a run that an error or a hook ended."""
        outcome = Outcome.ERROR
        if isinstance(error, RunBlocked):
            self._model.withhold()
            if (paid := self._model.partial()) is not None:
                self._pen.keep(paid)
            self._model.done()
            self._pen.keep(*withdrawn_by(error, self._state))
            outcome, error = Outcome.REFUSED, AgentError("agent", error.message)
        error = as_error(error, self._plan)
        too_long = error.kind is ErrorKind.CONTEXT_OVERFLOW
        return Outcome.CONTEXT_OVERFLOW if too_long else outcome, error

    async def keep_known(self) -> None:
        """Store pending results and users' messages, without the starts of calls that did not
        begin. Logs a journal error.
        """
        self._pen.held = [entry for entry in self._pen.held if not isinstance(entry, ToolStarted)]
        with anyio.move_on_after(GRACE_S, shield=True):
            try:
                if self._inbox.waiting:  # a hook that rewrites messages must not delay the results
                    await self._pen.append()
                await self._pen.append(*await self._inbox.close())
            except Exception as e:  # noqa: BLE001  a journal error; the run is resumed without them
                logger.warning(
                    "run %s was released, but its last results could not be stored: %s",
                    self._plan.run_id,
                    as_error(e, self._plan).message,
                )

    def _close(self, why: str, calls: OpenCalls, cancelled_by: str | None) -> list[Entry]:
        """Return the entries that make the history valid: the text of an interrupted response, or
        results for the open calls.
        """
        entries: list[Entry] = [CancelAsked(at=now(), by=cancelled_by)] if cancelled_by else []
        if self._model.is_open:
            partial = self._model.partial()
            return entries if partial is None else [*entries, partial]
        if self._inbox.late.entries:
            self._pen.keep(*self._inbox.late.take_results())
        return [*entries, *calls.cut(why)]

    def _ending(
        self,
        outcome: Outcome,
        error: AgentError | None,
        duration_s: float,
        *,
        waiting: bool = False,
    ) -> Ending:
        metrics, spending = (
            metrics_of(self._state, duration_s=duration_s, invocations=self._model.reached),
            tuple(self._state.spending.by_day.values()),
        )
        output, output_json = self._verdict.output_of(outcome)
        return Ending(
            outcome=outcome,
            text="" if outcome is Outcome.REFUSED and error else self._state.text,
            error=error,
            metrics=metrics,
            spending=spending,
            waiting=waiting,
            output=output,
            output_json=output_json,
            validated=outcome is Outcome.COMPLETED,
            free=self._model.is_free if error is not None and self._model.is_open else None,
        )
