"""The core loop: drives one run from its prompt to its outcome, whether new, resumed or forked.

It does no I/O itself: it receives model, tools, journal and feed. Entry point: `Run.drive`.

    turn:  request -> deltas -> message -> decide -> append(response, starts) -> execute ->
           append(results) -> next turn, or the end
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from treadle._internal.clock import Clock
from treadle.budget.limits import BudgetSpent
from treadle.errors import AgentError
from treadle.events.feed import Feed
from treadle.journal.entries import Entry, ModelResponded
from treadle.journal.journal import Journal
from treadle.loop.answers import Answers
from treadle.loop.approvals import ask_people
from treadle.loop.call_values import Prepared
from treadle.loop.calls import Admission, OpenCalls
from treadle.loop.deadline import RunTime
from treadle.loop.ending import Ending
from treadle.loop.guarding import rewritten
from treadle.loop.inbox import Inbox, LateResults
from treadle.loop.model_turn import ModelTurn
from treadle.loop.outcome import Closing, Verdict
from treadle.loop.plan import Plan
from treadle.loop.recorder import Pen
from treadle.loop.recovery import as_run, recover, settled
from treadle.loop.toolbox import Toolbox
from treadle.models.retry import Retries, RetryPolicy
from treadle.tools.tool import LateTools
from treadle.types import Outcome


class Run:
    """An active run. Call `drive` once. Call the other methods in the same event loop."""

    def __init__(
        self,
        plan: Plan,
        toolbox: Toolbox,
        journal: Journal,
        feed: Feed,
        *,
        clock: Clock,
        retries: RetryPolicy,
    ) -> None:
        self.plan = plan
        self.state = plan.state
        """State of the run. Entries are applied to it before they are appended."""
        self.is_left = False
        """True if the run stopped without a journaled end. Its calls may still be running."""
        self.hand_over: Callable[[Run], Awaitable[Run]] | None = None
        """Prepares the run of the agent to which the model handed over. Raises AgentError."""
        self.next: Run | None = None
        """Set when the run continues with the next agent, under the same writer."""
        self.inbox = Inbox(plan, LateResults(plan.state))
        self._toolbox, self._journal, self._feed, self._clock = toolbox, journal, feed, clock
        self._ledger, self._driven_s = self.state.ledger, self.state.driven_s + plan.prepared_s
        self._scope = toolbox.scope
        self.time = RunTime(toolbox.scope)
        self.pen = Pen(self.state, feed, self.time)
        self._reserved = self._let_go = False
        self._cancelled_by: str | None = None
        self._verdict = Verdict(plan)
        self._model = ModelTurn(plan, toolbox, feed, self.pen.append, Retries(retries, clock))
        self._calls = OpenCalls(self.state)
        """The open calls of the last response."""
        self._admission = Admission(plan, toolbox)
        self._closing = Closing(plan, self.pen, feed, self._model, self._verdict, self.inbox)
        toolbox.late = self.inbox.late.hear

    @property
    def ending(self) -> Ending | None:
        """Set when the run has ended or waits, even if its task was cancelled; not by `let_go`."""
        return self._closing.ending

    @property
    def text_so_far(self) -> str:
        """Text streamed so far, or the text of the last response that had any."""
        return self._model.text or self.state.text

    def compact(self) -> None:
        """Compact the conversation before the next request, even if it fits."""
        self.inbox.wants_compaction = True

    def cancel(self, by: str = "caller") -> None:
        """End the run as `cancelled` at its next await, with a valid history. Idempotent."""
        self._cancelled_by = self._cancelled_by or by
        self._scope.cancel()

    def let_go(self) -> None:
        """Stop at the next await, without an end, so that the run can be resumed. Idempotent."""
        self._let_go = self._let_go or self._cancelled_by is None  # cancellation takes precedence
        self.cancel("close")

    async def drive(self) -> None:
        """Drive the run until `ending` is set. Raises the errors of `Journal.begin`.

        Cancellation of the task is raised after the run is closed.
        """
        self.reserve()
        try:
            await self._drive()
        finally:
            self._ledger.end()

    def follow(self, before: Run) -> None:
        """Continue the run of the agent that handed over, with what has arrived there since."""
        self.inbox.follow(before.inbox)
        self.time.above = before.time.above
        self._cancelled_by, self._let_go = before._cancelled_by, before._let_go
        if before._scope.cancel_called:
            self._scope.cancel()

    def reserve(self) -> None:
        """Reserve a share of the parent's budget for this run. Idempotent. Raises BudgetSpent."""
        if not self._reserved:
            self._ledger.limits = self.plan.limits  # as the next entry will record them
            self._ledger.begin(
                self.plan.above, run_id=self.plan.run_id, completes=self.plan.completion
            )
            self._reserved = True

    async def _drive(self) -> None:
        plan, begun = self.plan, self._clock.monotonic()
        if (seconds := plan.limits.seconds) is not None:
            self._scope.deadline = anyio.current_time() + max(seconds - self._driven_s, 0)
        with self._toolbox.traced.run() as span:
            if "before_input" in plan.hooks.points:
                plan = await rewritten(plan)
            # shielded, so that a run that begins in the journal also begins here
            with anyio.CancelScope(shield=True):
                await self.pen.begin(plan, self._journal)
            for text in self.plan.warnings:
                self._feed.warn(text)
            outcome, error = Outcome.CANCELLED, None
            try:
                with self._scope:
                    outcome, error = await self._outcome()
                if self._scope.cancelled_caught:
                    outcome = Outcome.CANCELLED if self._cancelled_by else Outcome.TIMEOUT
            finally:
                await self._finish(
                    outcome, error, duration_s=self._driven_s + self._clock.monotonic() - begun
                )
                if (ending := self.ending) is not None:
                    span.ended(ending.outcome, ending.metrics, ending.error)

    async def _outcome(self) -> tuple[Outcome, AgentError | None]:
        try:
            outcome = await self._turns()
            return outcome, self._verdict.error(outcome)
        except BudgetSpent as e:
            return e.outcome, None
        except Exception as e:  # noqa: BLE001  edge of the run; a bug in user code must not crash the caller
            # an error during cancellation does not change the outcome
            await checkpoint_if_cancelled()
            return self._closing.outcome_of(e)

    # ------------------------------------------------------------ a turn

    async def _turns(self) -> Outcome:
        if self._ledger.estimates and not self._ledger.context_tokens:
            self._model.count_fixed()
        if self.plan.hooks.points:
            await self.plan.hooks.before_run()
        outcome = None
        if self.plan.resumption is not None:  # close the previous driver's open calls first
            outcome = await self._closed(self.plan.resumption.answers)
        while True:
            if outcome is None and self.state.agent.handing is not None:
                return await self._handed_over()
            if outcome is Outcome.COMPLETED and self._toolbox.output_check is not None:
                outcome = await self._verdict.checked(self._toolbox.output_check, self.inbox)
            while (
                outcome is Outcome.APPROVAL_NEEDED
                and (answers := await self._answers()) is not None
            ):
                outcome = await self._closed(answers, driven=True)
            if outcome is Outcome.REFUSED:
                self.pen.keep(*self._model.room.withdraw())
            if outcome is not None and not (
                outcome is Outcome.CONTEXT_OVERFLOW and await self._model.overcome()
            ):
                return outcome
            # let subscribers receive the turn, and steer the run, before the next request
            await asyncio.sleep(0)  # anyio's checkpoint costs three times as much
            outcome = await self._turn() or self._verdict.after(self.inbox)

    async def _handed_over(self) -> Outcome:
        await self.pen.append()
        assert self.hand_over is not None, "only an agent with handoffs hands over"
        self.next = await self.hand_over(self)
        return Outcome.COMPLETED

    async def _answers(self) -> Answers | None:
        """Return the answers to held calls, or None. The run's clock pauses meanwhile."""
        if late := self.inbox.late.take_results():
            self.pen.keep(*late)
            return Answers()
        if self.plan.approver is None:
            return None
        await self.pen.append()  # publish known results before requesting approval
        with self.time.standing_still():
            answers = await ask_people(self.plan, self.state, self._feed, self._toolbox)
        late = self.inbox.late.take_results()
        self.pen.keep(*late)
        return Answers() if answers is None and late else answers

    async def _closed(self, answers: Answers, *, driven: bool = False) -> Outcome | None:
        """Apply `answers` to the open calls, then run them. `driven`: this driver has asked."""
        self.pen.keep(*self.inbox.late.take_results())
        state = self.state
        current, answers = state.current, answers.to_open(state)
        if (calls := current.open_calls) and not current.blocked:
            late = current.late
            ready = [as_run(call, state, answers) for call in calls if call.id not in late]
            await self._toolbox.get_ready(ready, settled=settled(state, answers))
            keep, then = self.pen.keep, self.plan.on_unknown
            prepared = await recover(state, self._toolbox, answers, then, keep=keep, driven=driven)
            await self._execute(self._admission.within_limits(prepared))
        ended = current.response is not None and not current.attempt
        return self._verdict.after(self.inbox) if ended else None

    def _join_late_tools(self, late: LateTools) -> None:
        tools, notes = late.take()
        for text in notes:
            self._feed.warn(text)
        if tools:
            self._toolbox.join(tools)
            self._model.use_tools(self._toolbox.definitions)

    async def _turn(self) -> Outcome | None:
        ledger, state, plan = self._ledger, self.state, self.plan
        if ledger.turns_spent and state.current.batched is None:
            return Outcome.TURN_LIMIT
        if plan.late_tools is not None:
            self._join_late_tools(plan.late_tools)
        if self._toolbox.registry.defers and self._toolbox.load(state.context.history):
            self._model.use_tools(self._toolbox.definitions)
        last = state.current.last
        if state.current.batched is None:  # otherwise the request was sent by an earlier driver
            said, news = list[Entry](), self._toolbox.news() if self._toolbox.kept else ()
            if news or self.inbox.waiting or self.inbox.late.entries:
                self.pen.keep(*(said := await self.inbox.take(news)))
            if self.inbox.wants_compaction or plan.windows(state.models.asked):
                await self._model.compact(self.inbox)
            new_bytes = state.context.new_bytes() if ledger.estimates else 0
            last = ledger.last_turn(new_bytes, plan.dearest)
            short, output = self._model.was_short, self._verdict.output
            if last is not None or short or output.needs_words:
                ours = self.inbox.ours(last, output, was_short=short, after_words=bool(said))
                self.pen.keep(*ours)
        if isinstance(found := await self._model.respond(last), Outcome):
            return found
        response, entry = found
        calls, stop = response.tool_calls, response.stop_reason
        if kept := self._admission.is_kept_first(calls, stop, last):
            self._model.done()
            await self.pen.append(entry)
        await self._toolbox.get_ready(calls)
        self._model.done()
        await self._execute(self._admission.admit(calls, stop, last), *(() if kept else (entry,)))
        return None

    async def _execute(self, prepared: Sequence[Prepared], *before: ModelResponded) -> None:
        """Append `before`, refusals and starts together, then run the calls."""
        self._calls = OpenCalls(self.state, prepared, on_unknown=self.plan.on_unknown)
        await self.pen.append(*before, *self._calls.opening(*before))
        if prepared:
            self._ledger.expect(len(prepared))
            await self._calls.execute(self._toolbox, self.pen.append, self.pen.writer.verify)
            self._ledger.forget_calls()

    # ------------------------------------------------------------ the end

    async def _finish(
        self, outcome: Outcome, error: AgentError | None, *, duration_s: float
    ) -> None:
        if self.next is not None and outcome is Outcome.COMPLETED:
            return
        self.next = None
        if self._let_go and outcome is Outcome.CANCELLED:
            await self._closing.keep_known()
            self.is_left = True
            return
        await self._closing.finish(
            outcome, error, self._calls, duration_s=duration_s, cancelled_by=self._cancelled_by
        )
        self.is_left = self._closing.is_unstored
