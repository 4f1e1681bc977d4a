"""THE HEART: one run, from its prompt to its outcome. Streamed, collected, headless and subagent
runs all go through here.

It does no I/O of its own: model, tools, journal and feed are handed to it. Retries are retry.py's,
the calls of a turn calls.py's, limits ledger.py's. Entry: `Run.drive`.

    turn:  request -> deltas -> message -> decide -> append(response, starts) -> execute ->
           append(results) -> next turn, or the end
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from treadle._internal.clock import Clock
from treadle.budget.ledger import BudgetSpent
from treadle.errors import AgentError, ErrorKind
from treadle.events.feed import Feed
from treadle.journal.entries import CancelAsked, Entry, RunFinished, RunStarted, ToolStarted
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.sessions import ViewMark
from treadle.loop.approvals import ask_people
from treadle.loop.calls import HeldCall, OpenCalls, Ready, RefusedCall, refused
from treadle.loop.deadline import RunTime
from treadle.loop.inbox import NO_ANSWER, Inbox
from treadle.loop.model_turn import ModelTurn
from treadle.loop.outcome import Verdict
from treadle.loop.plan import Ending, Plan, as_error, metrics_of
from treadle.loop.recorder import Pen
from treadle.loop.recovery import Answers, as_run, recover, settled
from treadle.loop.session_past import begun
from treadle.loop.toolbox import Toolbox
from treadle.messages.message import ToolCall, encode_json
from treadle.models.retry import RetryPolicy
from treadle.tools.tool import LateTools
from treadle.types import Outcome, StopReason, now

logger = logging.getLogger("treadle")
logger.addHandler(logging.NullHandler())

CUT_CALL = "Not run: the response was cut by its limit on output tokens inside this call."
SHORTER = "Make it again, shorter or in several steps."
LONGER = "The limit is higher now: make it again."
GRACE_S = 20.0
"""Time that an ending run waits for its journal: longer than a journal waits for a store that
another process has locked.
"""


class Run:
    """A run in progress. Call `drive` once; `steer` and `cancel` belong to the same event loop."""

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
        """State of the run: every entry is applied to it before it is appended."""
        self.ending: Ending | None = None
        """Set once the run is over or waits, also where its task was cancelled; not where it was
        let go.
        """
        self.is_left = False
        """True once it has stopped before its end because of `let_go`: its writer is still to be
        released.
        """
        self.inbox = Inbox(plan)
        self._toolbox, self._journal, self._feed, self._clock = toolbox, journal, feed, clock
        self._ledger = self.state.ledger
        self._driven_s = self.state.driven_s + plan.prepared_s
        self._scope = toolbox.scope
        self.time = RunTime(toolbox.scope)
        self.pen = Pen(self.state, feed, self.time)
        self._reserved = False
        self._cancelled_by: str | None = None
        self._let_go = False
        self._verdict = Verdict(plan)
        self._model = ModelTurn(
            plan,
            toolbox.definitions,
            feed,
            self.pen.append,
            toolbox.traced,
            clock=clock,
            retries=retries,
        )
        self.room = self._model.room
        self.room.warn = feed.warn
        self._calls = OpenCalls(self.state)
        """The open calls of the last response."""
        toolbox.late, self.inbox.news = self.inbox.late.hear, toolbox.news

    @property
    def text_so_far(self) -> str:
        """Text streamed so far, or the text of the last response that had any."""
        return self._model.text or self.state.text

    def steer(self, text: str) -> None:
        """Text that the model reads at its next turn."""
        self.inbox.add(text)

    def compact(self) -> None:
        """Makes room in the conversation before the next request, also where there is some."""
        self.room.wanted = True

    def cancel(self, by: str = "caller") -> None:
        """Ends the run at its next await: the history is closed, the outcome `cancelled`.

        Idempotent.
        """
        self._cancelled_by = self._cancelled_by or by
        self._scope.cancel()

    def let_go(self) -> None:
        """Stop at the next await without ending the run, as if its process had died.

        Its driver releases it. Idempotent.
        """
        self._let_go = self._let_go or self._cancelled_by is None  # who asked for its end gets it
        self.cancel("close")

    async def drive(self) -> None:
        """Runs to its `ending`.

        Raises what journal.begin raises, and what cancels the awaiting task, after the run was
        closed.
        """
        self.reserve()
        try:
            await self._drive()
        finally:
            self._ledger.end()

    def reserve(self) -> None:
        """Its share of what is left above it is kept for it, until it has been driven.

        Raises BudgetSpent where there is none. Idempotent.
        """
        if not self._reserved:
            self._ledger.limits = self.plan.limits  # as its next entry says
            self._ledger.begin(
                self.plan.above, run_id=self.plan.run_id, completes=self.plan.completion
            )
            self._reserved = True

    async def _drive(self) -> None:
        seconds, begun = self.plan.limits.seconds, self._clock.monotonic()
        with self._toolbox.traced.run() as span:
            # it has begun both in the journal and here, or nowhere
            with anyio.CancelScope(shield=True):
                await self._begin()
            outcome, error = Outcome.CANCELLED, None
            if seconds is not None:
                self._scope.deadline = anyio.current_time() + max(seconds - self._driven_s, 0)
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

    async def _begin(self) -> None:
        plan = self.plan
        if plan.resumption is None:
            entry, self.pen.writer = await begun(plan.past, self._begun)
            self.state.apply(entry)
            self._feed.appended([entry], 1)
            self.pen.keep(*plan.compacted())
        else:
            self.pen.writer = plan.resumption.writer
            try:
                await self.pen.append(plan.resumed(self.pen.writer.fence))
            except BaseException:
                await self.pen.writer.release()
                raise
            approved = plan.resumption.answers.approve | self.state.approvals.allowed
            self._feed.go_on(self.state, approved)
        for text in plan.warnings:
            self._feed.warn(text)

    async def _begun(self, found: ViewMark | None) -> tuple[RunStarted, RunWriter]:
        entry = self.plan.started()
        return entry, await self._journal.begin(entry, found=found)

    async def _outcome(self) -> tuple[Outcome, AgentError | None]:
        try:
            return await self._turns(), None
        except BudgetSpent as e:
            return e.outcome, None
        except Exception as e:  # noqa: BLE001  the edge of the run: a bug in a tool or hook must not take the caller down
            # what breaks while the run is being stopped is not why it ends
            await checkpoint_if_cancelled()
            error = as_error(e, self.plan)
            return (
                Outcome.CONTEXT_OVERFLOW
                if error.kind is ErrorKind.CONTEXT_OVERFLOW
                else Outcome.ERROR
            ), error

    # ------------------------------------------------------------ a turn

    async def _turns(self) -> Outcome:
        if not self._ledger.turns:
            self._count_fixed()
        if self.plan.hooks:
            await self.plan.hooks.before_run(self.plan.hooked)
        outcome = None
        if self.plan.resumption is not None:  # what the driver before left open is closed first
            outcome = await self._closed(self.plan.resumption.answers)
        while True:
            while (
                outcome is Outcome.APPROVAL_NEEDED
                and (answers := await self._answers()) is not None
            ):
                outcome = await self._closed(answers, driven=True)
            if outcome is Outcome.REFUSED:
                self.pen.keep(*self.room.withdraw())
            if outcome is not None and not (
                outcome is Outcome.CONTEXT_OVERFLOW and await self.room.overcome()
            ):
                return outcome
            # also a model and tools that never wait can be stopped, and let others run
            await checkpoint()
            outcome = await self._turn() or self._verdict.after(self.inbox)

    async def _answers(self) -> Answers | None:
        """Return the answers to held calls. The run's clock stops while it waits."""
        if self.plan.approver is None:
            return None
        await self.pen.append()  # results that are there already are seen before the question
        with self.time.standing_still():
            return await ask_people(self.plan, self.state, self._feed, self._toolbox.offers)

    async def _closed(self, answers: Answers, *, driven: bool = False) -> Outcome | None:
        """Continue with the open calls of the last response, as `answers` decide."""
        state = self.state
        current = state.current
        if calls := current.open_calls:
            ready = [as_run(call, state, answers) for call in calls]
            await self._toolbox.get_ready(ready, settled=settled(state, answers))
            if driven:  # subscribers first see the end of a call that starts again
                begun = [
                    one
                    for one in self._calls.cut("")
                    if one.started and one.result.call_id in answers.approve
                ]
                self._feed.appended(begun, None)
            entries, prepared = await recover(
                state, self._toolbox, answers, self.plan.on_unknown, driven=driven
            )
            await self._execute(self._within_limits(prepared), *entries)
        ended = current.response is not None and not current.attempt
        return self._verdict.after(self.inbox) if ended else None

    def _count_fixed(self) -> None:
        if self._ledger.estimates:
            self._ledger.fixed_bytes = sum(
                len(encode_json(value)) for value in (*self.plan.system, *self._toolbox.definitions)
            )

    def _join_late_tools(self, late: LateTools) -> None:
        tools, notes = late.take()
        for text in notes:
            self._feed.warn(text)
        if tools:
            self._toolbox.join(tools)
            self._model.use_tools(self._toolbox.definitions)
            self._count_fixed()

    async def _turn(self) -> Outcome | None:
        ledger, state, plan = self._ledger, self.state, self.plan
        if ledger.turns_spent:
            return Outcome.TURN_LIMIT
        if plan.late_tools is not None:
            self._join_late_tools(plan.late_tools)
        if said := self.inbox.take():
            self.pen.keep(*said)
        await self.room.make()
        last = ledger.last_turn(state.context.new_bytes() if ledger.estimates else 0, plan.dearest)
        mend, was_short = self._verdict.take_mend(), self.room.was_short
        if ours := self.inbox.ours(last, mend=mend, was_short=was_short, after_words=bool(said)):
            self.pen.keep(*ours)
        found = await self._model.respond(last)
        if isinstance(found, Outcome):
            return found
        response, entry = found
        calls, stop = response.tool_calls, response.stop_reason
        self.room.answered(stop)
        if kept := self._is_kept_first(calls, stop, last):
            self._model.done()
            await self.pen.append(entry)
        await self._toolbox.get_ready(calls)
        self._model.done()
        await self._execute(self._admit(calls, stop, last), *(() if kept else (entry,)))
        return None

    def _is_kept_first(
        self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None
    ) -> bool:
        """Return True if the response is appended before its calls are judged: hooks may be slow,
        and a response that is not in the journal is paid for twice.

        Only if the calls mean the same to a process that resumes the run from there.
        """
        asks = bool(calls) and self.plan.hooks.has("before_tool")
        return (
            asks and stop is StopReason.TOOL_USE and last is None and not self._ledger.is_last_turn
        )

    async def _execute(
        self, prepared: Sequence[Ready | RefusedCall | HeldCall], *before: Entry
    ) -> None:
        """`before`, the refusals and the starts of the calls that start now are one append; then
        the calls run.
        """
        self._calls = OpenCalls(self.state, prepared, on_unknown=self.plan.on_unknown)
        self.pen.keep(*before)
        await self.pen.append(*self._calls.opening())
        if prepared:
            self._ledger.expect(len(prepared))
            await self._calls.execute(self._toolbox, self.pen.append, self.pen.writer.verify)
            self._ledger.forget_calls()

    def _admit(
        self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None
    ) -> Sequence[Ready | RefusedCall | HeldCall]:
        """Each call is ready, held, or has the result that says why it is not run."""
        if stop in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
            return [
                refused(call, f"Not run: the response ended with {stop.value}.") for call in calls
            ]
        if last is not None or self._ledger.is_last_turn:
            text, cut_by = "Not run: this was the last turn of the run.", last or Outcome.TURN_LIMIT
            completes = self._toolbox.completes
            return self._within_limits(
                [
                    self._toolbox.prepare(c) if completes(c) else refused(c, text, cut_by=cut_by)
                    for c in calls
                ]
            )
        prepared = [self._toolbox.prepare(call) for call in calls]
        if stop is StopReason.MAX_TOKENS and prepared:
            models, current = self.state.models, self.state.current
            more = self.plan.may_raise and not models.cuts and current.clamped is None
            prepared[-1] = refused(calls[-1], f"{CUT_CALL} {LONGER if more else SHORTER}")
        return self._within_limits(prepared)

    def _within_limits(
        self, prepared: Sequence[Ready | RefusedCall | HeldCall]
    ) -> Sequence[Ready | RefusedCall | HeldCall]:
        """Each that may start has its place among the calls that the limits allow; what is beyond
        them is refused, in the order of the calls.
        """
        if not self._ledger.counts_calls:
            return prepared
        limit = self.plan.limits.tool_calls
        text = (
            "Not run: the limit of tool calls is reached."
            if limit is None
            else f"Not run: the run's limit of {limit} tool calls is reached."
        )
        return [
            p if self._may_start(p) else refused(p.call, text, cut_by=Outcome.CALL_LIMIT)
            for p in prepared
        ]

    def _may_start(self, p: Ready | RefusedCall | HeldCall) -> bool:
        """Reserve a place for the call, unless it is refused or has started before."""
        return (
            isinstance(p, RefusedCall)
            or p.call.id in self.state.current.starts
            or self._ledger.admit_call(completes=self._toolbox.completes(p.call))
        )

    # ------------------------------------------------------------ the end

    async def _finish(
        self, outcome: Outcome, error: AgentError | None, *, duration_s: float
    ) -> None:
        if self._let_go and outcome is Outcome.CANCELLED:
            await self._keep_known()
            self.is_left = True
            return
        state, open_turn = self.state, self.state.turn or None
        waiting = outcome is Outcome.APPROVAL_NEEDED and bool(state.current.open_calls)
        closing = (
            []
            if waiting
            else self._close(
                "The run timed out" if outcome is Outcome.TIMEOUT else "The run was stopped"
            )
        )
        lost, stored = None, False
        empty = [NO_ANSWER] if outcome is Outcome.COMPLETED and state.models.empty_responses else []
        for text in (
            *(f"the run ended before its model could read: {text}" for text in self.inbox.waiting),
            *self._ledger.left_out,
            *empty,
        ):
            self._feed.warn(text)
        with anyio.move_on_after(GRACE_S, shield=True) as grace:
            try:
                await self.pen.append(*closing, hold=True)
                self.ending = self._ending(outcome, error, duration_s, waiting=waiting)
                finished = self.ending.finished(open_turn)
                await self.pen.append(*([] if waiting else [finished]))
                stored = True
                if waiting:  # for those who listen it ends here, for the journal it does not
                    left = [
                        one
                        for one in self._calls.cut("The run came to wait for a person")
                        if one.started
                    ]
                    self._feed.appended([*left, finished], None)
            except Exception as e:  # noqa: BLE001  the journal is gone: subscribers still receive the end
                lost = e
            await self.pen.writer.release(waiting=waiting)
        if grace.cancelled_caught and not stored:
            lost = AgentError(
                "agent",
                f"the journal did not answer for {GRACE_S:.0f} s: how this run ended is not stored",
            )
        if lost is not None:
            self.ending = self._ending(Outcome.ERROR, as_error(lost, self.plan), duration_s)
            self._feed.appended(
                [
                    *(e for e in self.pen.held if not isinstance(e, RunFinished)),
                    self.ending.finished(open_turn),
                ],
                None,
            )

    async def _keep_known(self) -> None:
        """Append what has happened and is not stored yet, such as results.

        A start whose call never began is left out.
        """
        self.pen.held = [entry for entry in self.pen.held if not isinstance(entry, ToolStarted)]
        with anyio.move_on_after(GRACE_S, shield=True):
            try:
                await self.pen.append()
            except Exception as e:  # noqa: BLE001  the journal is gone: the run is resumed without it
                logger.warning(
                    "run %s was left, and its last results could not be stored: %s",
                    self.plan.run_id,
                    as_error(e, self.plan).message,
                )

    def _close(self, why: str) -> list[Entry]:
        """Leaves a valid history: the text of a response that was cut is kept, and each open call
        gets its result.
        """
        entries: list[Entry] = (
            [CancelAsked(at=now(), by=self._cancelled_by)] if self._cancelled_by else []
        )
        if self._model.is_open:
            partial = self._model.partial()
            return entries if partial is None else [*entries, partial]
        return [*entries, *self._calls.cut(why)]

    def _ending(
        self,
        outcome: Outcome,
        error: AgentError | None,
        duration_s: float,
        *,
        waiting: bool = False,
    ) -> Ending:
        metrics, spending = (
            metrics_of(self.state, duration_s=duration_s, invocations=self._model.reached),
            tuple(self.state.spending.by_day.values()),
        )
        output, output_json = self._verdict.output_of(outcome)
        return Ending(
            outcome=outcome,
            text=self.state.text,
            error=error,
            metrics=metrics,
            spending=spending,
            waiting=waiting,
            output=output,
            output_json=output_json,
            validated=outcome is Outcome.COMPLETED,
        )
