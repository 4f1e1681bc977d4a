"""THE HEART: one run, from its prompt to its outcome. Streamed, collected, headless and subagent runs all go through here.

It does no I/O of its own: model, tools, journal and feed are handed to it. Retries are retry.py's, the calls of a turn calls.py's,
limits budget.py's. Entry: `Run.drive`.

    turn:  request -> deltas -> message -> decide -> append(response, starts) -> execute -> append(results) -> next turn, or the end
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
import msgspec
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from treadle.budget import LIMIT_NAMES, Left
from treadle.calls import Held, OpenCalls, Ready, Refused, refused
from treadle.clock import Clock
from treadle.entries import CancelAsked, Entry, InputAdded, ModelRequested, ModelResponded, RunFinished, responded, switched
from treadle.errors import AgentError, ErrorKind
from treadle.events import LimitWarning, Warned
from treadle.execution import Toolbox
from treadle.feed import Feed
from treadle.journal import Journal, RunWriter
from treadle.late import LateResults
from treadle.message import Message, Part, ToolCall, encode_json
from treadle.model import ModelRequest, ModelResponse, Switch
from treadle.plan import Ending, Plan, error_info, metrics_of
from treadle.prices import Pricing
from treadle.recovery import recover
from treadle.retry import Attempt, RetryPolicy, ask
from treadle.types import Outcome, StopReason, new_id, now

logger = logging.getLogger("treadle")
logger.addHandler(logging.NullHandler())

LAST_TURN = "This is the last turn of this run ({}): answer now, without tools, with what you have."
EMPTY_RESPONSE = "Your last response was empty. Go on, or give your final answer."
CUT_CALL = "Not run: the response was cut by its limit on output tokens inside this call. Make it again, shorter or in several steps."
GRACE_S = 20.0
"""How long a run that ends waits for its journal. Longer than a journal waits for a store that somebody else has locked."""


class Run:
    """One run under way. `drive` it once; `steer` and `cancel` it from the same event loop."""

    def __init__(self, plan: Plan, toolbox: Toolbox, journal: Journal, feed: Feed, *, clock: Clock, retries: RetryPolicy) -> None:
        self.plan = plan
        self.state = plan.state
        """What the run has come to: every entry is applied to it before it is appended."""
        self.ending: Ending | None = None
        """Set once the run is over or waits, also where its task was cancelled."""
        self.writer: RunWriter
        self.late = LateResults(self.state)
        self._toolbox, self._journal, self._feed, self._clock, self._retries = toolbox, journal, feed, clock, retries
        self._held: list[Entry] = []
        """Entries that ride with the next append."""
        self._ledger = self.state.ledger
        self._reached = self.state.invocations
        self._driven_s = self.state.driven_s
        self._inbox: tuple[str, ...] = ()
        self._scope = toolbox.scope
        self._cancelled_by: str | None = None
        self._message_id = ""
        self._asked: ModelRequested
        self._attempt: Attempt | None = None
        """Set while a response is being asked for."""
        self._calls = OpenCalls(self.state)
        """The open calls of the last response."""
        toolbox.late = self.late.hear

    def steer(self, text: str) -> None:
        """Text that the model reads at its next turn."""
        self._inbox = (*self._inbox, text)

    def cancel(self, by: str = "caller") -> None:
        """Ends the run at its next await: the history is closed, the outcome `cancelled`. Idempotent."""
        self._cancelled_by = self._cancelled_by or by
        self._scope.cancel()

    async def drive(self) -> None:
        """Runs to its `ending`. Raises what journal.begin raises, and what cancels the awaiting task, after the run was closed."""
        seconds, begun = self.plan.limits.seconds, self._clock.monotonic()
        with anyio.CancelScope(shield=True):  # it has begun both in the journal and here, or nowhere
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
            await self._finish(outcome, error, duration_s=self._driven_s + self._clock.monotonic() - begun)

    async def _begin(self) -> None:
        plan = self.plan
        if plan.resumption is None:
            entry = plan.started()
            self.writer = await self._journal.begin(entry)
            self.state.apply(entry)
            self._feed.appended([entry], 1)
            await self._append(*plan.compacted(), hold=True)
        else:
            self.writer = plan.resumption.writer
            try:
                await self._append(plan.resumed(self.writer.fence))
            except BaseException:
                await self.writer.release()
                raise
            self._feed.go_on(self.state, plan.resumption.answers.approve | self.state.allowed)
        for text in plan.warnings:
            self._feed.say(Warned, {"text": text})

    async def _outcome(self) -> tuple[Outcome, AgentError | None]:
        try:
            return await self._turns(), None
        except Exception as e:  # noqa: BLE001  the edge of the run: somebody's bug must not take the caller down
            await checkpoint_if_cancelled()  # what breaks while the run is being stopped is not why it ends
            error = self._as_error(e)
            return (Outcome.CONTEXT_OVERFLOW if error.kind is ErrorKind.CONTEXT_OVERFLOW else Outcome.ERROR), error

    def _as_error(self, error: Exception) -> AgentError:
        """For the caller, secrets taken out."""
        if not isinstance(error, AgentError):
            logger.error("run %s failed inside", self.plan.run_id, exc_info=error)
            error = AgentError("agent", f"the run failed inside: {type(error).__name__}: {error}")
        error.message = self.plan.redactor.text(error.message)
        error.args = (error.kind, error.message)
        return error

    # ------------------------------------------------------------ a turn

    async def _turns(self) -> Outcome:
        if self._ledger.estimates and not self._ledger.turns:
            fixed = sum(len(encode_json(value)) for value in (*self.plan.system, *self._toolbox.definitions))
            self._ledger.add_input(fixed + sum(len(encode_json(message)) for message in self.state.history[: self.state.past]))
        outcome = await self._recovered()
        while outcome is None:
            await checkpoint()  # also a model and tools that never wait can be stopped, and let others run
            outcome = await self._turn() or self._after()
        return outcome

    async def _recovered(self) -> Outcome | None:
        """What the driver before left open is closed first."""
        state, resumption = self.state, self.plan.resumption
        if resumption is not None and state.open_calls:
            await self._toolbox.get_ready(state.open_calls)
            entries, prepared = await recover(state, self._toolbox, resumption.answers, self.plan.on_unknown)
            await self._execute(prepared, *entries)
        return self._after() if state.response is not None and not state.attempt else None

    async def _turn(self) -> Outcome | None:
        last = self._ledger.last_turn()
        await self._append(*self._added_input(last), hold=True)
        left = self._ledger.output_left(self.plan.max_tokens, self.plan.dearest)
        if left.tokens <= 0:
            return left.limit
        response = await self._respond(left, last)
        cost_usd = await self._pricing.cost_usd(response.usage, self._asked.at, response.model)
        entry = self._responded(response.parts, response, cost_usd)
        await self._toolbox.get_ready(response.tool_calls)
        self._attempt = None
        await self._execute(self._admit(response.tool_calls, response.stop_reason, last), entry)
        return None

    async def _execute(self, prepared: Sequence[Ready | Refused | Held], *before: Entry) -> None:
        """`before`, the refusals and the starts of the calls that start now are one append; then the calls run."""
        self._calls = OpenCalls(self.state, prepared, on_unknown=self.plan.on_unknown)
        await self._append(*before, hold=True)
        await self._append(*self._calls.opening())
        if prepared:
            await self._calls.execute(self._toolbox, self._append)

    @property
    def _pricing(self) -> Pricing:
        return self.plan.prices(self.state.asked_model)

    async def _respond(self, left: Left, last: Outcome | None) -> ModelResponse:
        """One whole response, whatever number of attempts it takes."""
        state, plan = self.state, self.plan
        settings = plan.turn_settings(left.tokens, without_tools=last is not None and bool(self._toolbox.definitions))
        self._message_id = new_id("msg")
        self._attempt = attempt = Attempt(state.call_ids, number=state.attempt + 1)
        clamped = None if left.limit is None else left.tokens
        self._asked = ModelRequested(at=now(), turn=self._ledger.turns + 1, attempt=attempt.number, max_tokens=clamped, clamped_by=left.limit)
        await self._append(self._asked)
        if last is not None:
            self._feed.say(LimitWarning, {"limit": LIMIT_NAMES[last], "left": int(last is Outcome.TURN_LIMIT)})
        self._feed.begin_message(self._message_id, attempt)
        request = ModelRequest(messages=state.history, tools=self._toolbox.definitions, system=plan.system, settings=settings, model=state.asked_model)
        listen = self._pricing.listening(self._feed.listener)
        try:
            return await ask(plan.model, request, attempt, listen=listen, failed=self._retry, policy=self._retries, clock=self._clock)
        finally:
            self._reached += attempt.reached

    def _added_input(self, last: Outcome | None) -> list[Entry]:
        """What came meanwhile, what people said, and our own word to the model; in the history from here on."""
        said, self._inbox = self._inbox, ()
        added: list[Entry] = [*self.late.take(), *(InputAdded(at=now(), message=Message.user(text), by="user") for text in said)]
        if self.state.attempt:  # the driver before had said ours already
            return added
        empty = self.state.empty_responses and not added
        ours = LAST_TURN.format(f"limit of {LIMIT_NAMES[last]}") if last is not None else EMPTY_RESPONSE if empty else None
        return added if ours is None else [*added, InputAdded(at=now(), message=Message.user(ours), by="runtime")]

    async def _retry(self, error: AgentError, wait_s: float, switch: Switch | None) -> None:
        """`switch`: another model is asked instead of the same one once more."""
        assert self._attempt is not None, "only an attempt can fail"
        failed, number = error_info(self._as_error(error)), self._attempt.number + 1
        if switch is None:
            await self._append(msgspec.structs.replace(self._asked, at=now(), attempt=number, failed=failed, wait_s=wait_s))
        else:
            spent_usd = None if switch.usage is None else await self._pricing.cost_usd(switch.usage, self._asked.at, "")
            await self._append(*switched(self._asked, switch, failed, attempt=number, spent_usd=spent_usd))

    def _responded(self, parts: Sequence[Part], response: ModelResponse | None = None, cost_usd: float | None = None) -> ModelResponded:
        assert self._attempt is not None, "a response is an attempt's"
        message = Message(id=self._message_id, role="assistant", parts=tuple(parts), created_at=now())
        return responded(message, response, turn=self._ledger.turns + 1, attempt=self._attempt.number, cost_usd=cost_usd)

    def _admit(self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None) -> list[Ready | Refused | Held]:
        """Each call is ready, held, or has the result that says why it is not run."""
        if stop in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
            return [refused(call, f"Not run: the response ended with {stop.value}.") for call in calls]
        if last is not None or self._ledger.is_last_turn:
            cut_by = last or Outcome.TURN_LIMIT
            return [refused(call, "Not run: this was the last turn of the run.", cut_by=cut_by) for call in calls]
        prepared = [self._toolbox.prepare(call) for call in calls]
        if stop is StopReason.MAX_TOKENS and prepared:
            prepared[-1] = refused(calls[-1], CUT_CALL)
        waiting = 0
        for i, p in enumerate(prepared):
            if not isinstance(p, Refused) and not self._ledger.allows_call(waiting):
                text = f"Not run: the run's limit of {self.plan.limits.tool_calls} tool calls is reached."
                prepared[i] = refused(p.call, text, cut_by=Outcome.CALL_LIMIT)
            waiting += not isinstance(prepared[i], Refused)
        return prepared

    def _after(self) -> Outcome | None:
        """Why the run ends, or waits, after this turn; None: it goes on."""
        state, response = self.state, self.state.response
        assert response is not None, "a turn is a response"
        if state.open_calls:
            return Outcome.APPROVAL_NEEDED
        spent = state.last or (Outcome.TURN_LIMIT if self._ledger.turns_spent else None)
        if response.stop_reason is StopReason.REFUSAL:
            return Outcome.REFUSED
        if response.stop_reason is StopReason.CONTEXT_OVERFLOW:
            return Outcome.CONTEXT_OVERFLOW
        if state.calls:
            if self.plan.on_unknown == "fail" and (unknown := state.unknown) is not None:
                raise AgentError("tool", f"{unknown.name} (call {unknown.call_id}) may have taken effect, and nobody knows: {unknown.text}")
            if (last_word := state.ended_by) is not None:
                raise AgentError("tool", f"{last_word.name} ended the run: {last_word.text}")
            if state.circling:  # whoever asks for the same again and again because nobody approves it needs an approval
                return spent or (Outcome.APPROVAL_NEEDED if state.unapproved else Outcome.LOOPING)
            return spent
        if response.stop_reason is StopReason.MAX_TOKENS:
            return state.clamped or Outcome.TRUNCATED
        if response.stop_reason is StopReason.PAUSE or state.empty_responses == 1:
            return spent  # a pause is sent back as it is, an empty response is asked for once more
        if (self._inbox or self.late) and spent is None:
            return None  # a person's words still reach the model
        return state.cut_by or (Outcome.APPROVAL_NEEDED if state.unapproved else Outcome.COMPLETED)

    async def _append(self, *entries: Entry, hold: bool = False) -> None:
        """Durable first, then seen; `hold` leaves the entries to the next append. What the journal refuses is held for the end."""
        for entry in entries:
            self.state.apply(entry)
        self._held.extend(entries)
        if hold or not self._held:
            return
        batch, self._held = self._held, []
        try:
            first = await self.writer.append(batch)
        except Exception:
            self._held[:0] = batch
            raise
        self._feed.appended(batch, first)

    # ------------------------------------------------------------ the end

    async def _finish(self, outcome: Outcome, error: AgentError | None, *, duration_s: float) -> None:
        state, open_turn = self.state, self.state.turn or None
        waiting = outcome is Outcome.APPROVAL_NEEDED and bool(state.open_calls)
        closing = [] if waiting else self._close("The run timed out" if outcome is Outcome.TIMEOUT else "The run was stopped")
        lost, stored = None, False
        for text in (*(f"the run ended before its model could read: {text}" for text in self._inbox), *self._ledger.left_out):
            self._feed.say(Warned, {"text": text})
        with anyio.move_on_after(GRACE_S, shield=True) as grace:
            try:
                await self._append(*closing, hold=True)
                self.ending = self._ending(outcome, error, duration_s, waiting=waiting)
                finished = self.ending.finished(open_turn)
                await self._append(*([] if waiting else [finished]))
                stored = True
                if waiting:  # for those who listen it ends here, for the journal it does not
                    left = [one for one in self._calls.cut("The run came to wait for a person") if one.started]
                    self._feed.appended([*left, finished], None)
            except Exception as e:  # noqa: BLE001  the journal is gone: those who listen are told all the same
                lost = e
            await self.writer.release(waiting=waiting)
        if grace.cancelled_caught and not stored:
            lost = AgentError("agent", f"the journal did not answer for {GRACE_S:.0f} s: how this run ended is not stored")
        if lost is not None:
            self.ending = self._ending(Outcome.ERROR, self._as_error(lost), duration_s)
            self._feed.appended([*(e for e in self._held if not isinstance(e, RunFinished)), self.ending.finished(open_turn)], None)

    def _close(self, why: str) -> list[Entry]:
        """Leaves a valid history: the text of a response that was cut is kept, and each open call gets its result."""
        entries: list[Entry] = [CancelAsked(at=now(), by=self._cancelled_by)] if self._cancelled_by else []
        if self._attempt is not None:
            parts = self._attempt.partial()
            return [*entries, self._responded(parts)] if parts else entries
        return [*entries, *self._calls.cut(why)]

    def _ending(self, outcome: Outcome, error: AgentError | None, duration_s: float, *, waiting: bool = False) -> Ending:
        metrics, spending = metrics_of(self.state, duration_s=duration_s, invocations=self._reached), tuple(self.state.spending.values())
        return Ending(outcome=outcome, text=self.state.text, error=error, metrics=metrics, spending=spending, waiting=waiting)
