"""THE HEART: one run, from its prompt to its outcome. Streamed, collected, headless and subagent runs all go through here.

It does no I/O of its own: model, tools, journal and feed are handed to it. Retries are retry.py's, the calls of a turn calls.py's,
limits budget.py's. Entry: `Run.drive`.

    turn:  request -> deltas -> message -> decide -> append(response, starts) -> execute -> append(results) -> next turn, or the end
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence

import anyio
import msgspec
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from treadle.budget import Ledger
from treadle.calls import Batch, Ready, Refused, refused
from treadle.clock import Clock
from treadle.errors import AgentError, ErrorKind
from treadle.events import LimitWarning, Warned
from treadle.execution import Toolbox
from treadle.feed import Feed
from treadle.journal import Entry, InputAdded, Journal, ModelRequested, ModelResponded, RunWriter, responded
from treadle.message import Message, Part, ToolCall, encode_json
from treadle.model import ModelRequest, ModelResponse
from treadle.plan import Ending, Plan, error_info
from treadle.repetition import Repetition
from treadle.retry import Attempt, RetryPolicy, ask
from treadle.types import Outcome, RunMetrics, Settings, StopReason, Usage, Value, new_id, now

logger = logging.getLogger("treadle")
logger.addHandler(logging.NullHandler())

LAST_TURN = "This is the last turn of this run ({}): answer now, without tools, with what you have."
EMPTY_RESPONSE = "Your last response was empty. Go on, or give your final answer."
CUT_CALL = "Not run: the response was cut by its limit on output tokens inside this call. Make it again, shorter or in several steps."


class Run:
    """One run under way. `drive` it once; `steer` and `cancel` it from the same event loop."""

    def __init__(self, plan: Plan, toolbox: Toolbox, journal: Journal, feed: Feed, *, clock: Clock, retries: RetryPolicy) -> None:
        self.plan = plan
        self.ending: Ending | None = None
        """Set once the run is over, also where its task was cancelled."""
        self._toolbox, self._journal, self._feed, self._clock, self._retries = toolbox, journal, feed, clock, retries
        self._writer: RunWriter
        self._held: list[Entry] = []
        """Entries that ride with the next append."""
        self._ledger = Ledger(plan.limits)
        self._reached = self._retried = 0
        self._repetition = Repetition()
        self._call_ids = {call.id for message in plan.history for call in message.tool_calls}
        self._inbox: deque[str] = deque()
        self._scope = toolbox.scope
        self._cancel_asked = False
        self._message_id = ""
        self._attempt: Attempt | None = None
        """Set while a response is being asked for."""
        self._batch = Batch(plan.run_id)
        """The calls of the last response."""
        self._carried: dict[str, object] = {}
        """What the provider wants back with the next request of this run."""
        self._empty_responses = 0
        """In a row."""
        self._unapproved = False
        self._cut_by: Outcome | None = None
        """The limit that refused a call."""

    def steer(self, text: str) -> None:
        """Text that the model reads at its next turn."""
        self._inbox.append(text)

    def cancel(self) -> None:
        """Ends the run at its next await: the history is closed, the outcome `cancelled`. Idempotent."""
        self._cancel_asked = True
        self._scope.cancel()

    async def drive(self) -> None:
        """Runs to its `ending`. Raises what journal.begin raises, and what cancels the awaiting task, after the run was closed."""
        plan, begun = self.plan, self._clock.monotonic()
        start = len(plan.history) - 1
        with anyio.CancelScope(shield=True):  # it has begun both in the journal and here, or nowhere
            await self._begin()
        outcome, error = Outcome.CANCELLED, None
        if plan.limits.seconds is not None:
            self._scope.deadline = anyio.current_time() + plan.limits.seconds
        try:
            with self._scope:
                outcome, error = await self._outcome()
            if self._scope.cancelled_caught:
                outcome = Outcome.CANCELLED if self._cancel_asked else Outcome.TIMEOUT
        finally:
            with anyio.CancelScope(shield=True):
                self.ending = await self._finish(outcome, error, start=start, begun=begun)
                await self._writer.release()

    async def _begin(self) -> None:
        plan = self.plan
        entry = plan.started()
        self._writer = await self._journal.begin(entry)
        self._feed.appended([entry], 1)
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
        self._count_input((*self.plan.history, *self.plan.system, *self._toolbox.definitions))
        while True:
            await checkpoint()  # also a model and tools that never wait can be stopped, and let others run
            last = self._ledger.last_turn()
            await self._append(*self._added_input(last), hold=True)
            settings = self._settings(last)
            if settings is None:
                return Outcome.TOKEN_LIMIT
            response = await self._respond(settings, last)
            await self._take_response(response, last)
            if self._batch.calls:
                await self._batch.execute(self._toolbox, self._append)
                self._take(self._batch.message())
            outcome = self._after(response, settings, last)
            if outcome is not None:
                return outcome

    def _settings(self, last: Outcome | None) -> Settings | None:
        """This turn's; None where not even its input fits into the run's tokens."""
        settings = self.plan.settings
        wanted = settings.max_tokens
        assert wanted is not None, "the runtime resolves max_tokens"
        left = self._ledger.output_left(wanted)
        if left < 1:
            return None
        if left != wanted:
            settings = msgspec.structs.replace(settings, max_tokens=left)
        if last is not None and self._toolbox.definitions:
            settings = msgspec.structs.replace(settings, tool_choice="none")
        if self._carried:
            settings = msgspec.structs.replace(settings, extra={**self._carried, **(settings.extra or {})})
        return settings

    async def _respond(self, settings: Settings, last: Outcome | None) -> ModelResponse:
        """One whole response, whatever number of attempts it takes."""
        self._message_id, attempt = new_id("msg"), Attempt(self._call_ids)
        self._attempt = attempt
        await self._append(ModelRequested(at=now(), turn=self._ledger.turns + 1))
        if last is not None:
            self._feed.say(LimitWarning, {"limit": _limit_name(last), "left": int(last is Outcome.TURN_LIMIT)})
        self._feed.begin_message(self._message_id, attempt)
        request = ModelRequest(messages=self.plan.history, tools=self._toolbox.definitions, system=self.plan.system, settings=settings)
        try:
            response = await ask(
                self.plan.model,
                request,
                attempt,
                listen=self._feed.listener,
                failed=self._retry,
                policy=self._retries,
                clock=self._clock,
            )
        finally:
            self._reached += attempt.reached
            self._retried += attempt.retries
        if response.provider_data is not None:
            self._carried |= msgspec.json.decode(response.provider_data, type=dict[str, object])
        return response

    def _added_input(self, last: Outcome | None) -> list[InputAdded]:
        """What people said meanwhile, and our own word to the model; in the history from here on."""
        added = [InputAdded(at=now(), message=Message.user(self._inbox.popleft()), by="user") for _ in range(len(self._inbox))]
        ours = LAST_TURN.format(f"limit of {_limit_name(last)}") if last is not None else EMPTY_RESPONSE if self._empty_responses and not added else None
        if ours is not None:
            added.append(InputAdded(at=now(), message=Message.user(ours), by="runtime"))
        for entry in added:
            self._take(entry.message)
        return added

    async def _retry(self, error: AgentError, wait_s: float) -> None:
        assert self._attempt is not None, "only an attempt can fail"
        failed, turn = error_info(self._as_error(error)), self._ledger.turns + 1
        await self._append(ModelRequested(at=now(), turn=turn, attempt=self._attempt.number + 1, failed=failed, wait_s=wait_s))

    async def _take_response(self, response: ModelResponse, last: Outcome | None) -> None:
        """Into history and journal, together with the refusals and the starts of the calls that start now."""
        self._ledger.settle(response.usage)
        calls = response.tool_calls
        self._call_ids.update(call.id for call in calls)
        self._batch = Batch(self.plan.run_id, self._admit(calls, response.stop_reason, last))
        self._unapproved |= self._batch.unapproved
        entry = self._responded(response.parts, response.usage, response)
        self._attempt = None
        if response.parts:
            self._take(entry.message)
        await self._append(entry, *self._batch.opening())

    def _responded(self, parts: Sequence[Part], usage: Usage, response: ModelResponse | None = None) -> ModelResponded:
        assert self._attempt is not None, "a response is an attempt's"
        message = Message(id=self._message_id, role="assistant", parts=tuple(parts), created_at=now())
        return responded(message, response, usage, turn=self._ledger.turns + (response is None), attempt=self._attempt.number)

    def _admit(self, calls: Sequence[ToolCall], stop: StopReason, last: Outcome | None) -> list[Ready | Refused]:
        """Each call is ready, or has the result that says why it is not run."""
        if stop in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
            return [refused(call, f"Not run: the response ended with {stop.value}.") for call in calls]
        if calls and (last is not None or self._ledger.turns_spent):
            self._cut_by = last or Outcome.TURN_LIMIT
            return [refused(call, "Not run: this was the last turn of the run.") for call in calls]
        prepared = [self._toolbox.prepare(call) for call in calls]
        if stop is StopReason.MAX_TOKENS and prepared:
            prepared[-1] = refused(calls[-1], CUT_CALL)
        for i, p in enumerate(prepared):
            if isinstance(p, Ready) and not self._ledger.admit_call():
                self._cut_by = Outcome.CALL_LIMIT
                prepared[i] = refused(p.call, f"Not run: the run's limit of {self.plan.limits.tool_calls} tool calls is reached.")
        return prepared

    def _after(self, response: ModelResponse, settings: Settings, last: Outcome | None) -> Outcome | None:
        """Why the run ends after this turn; None: it goes on."""
        spent = last or (Outcome.TURN_LIMIT if self._ledger.turns_spent else None)
        empty = response.stop_reason in (StopReason.COMPLETE, StopReason.TOOL_USE) and not response.text.strip() and not self._batch.calls
        self._empty_responses = self._empty_responses + 1 if empty else 0
        if response.stop_reason is StopReason.REFUSAL:
            return Outcome.REFUSED
        if response.stop_reason is StopReason.CONTEXT_OVERFLOW:
            return Outcome.CONTEXT_OVERFLOW
        if self._batch.calls:
            circling = [self._repetition.found(*pair) for pair in zip(self._batch.calls, self._batch.results, strict=True)]
            if (last_word := self._batch.ended_by) is not None:
                raise AgentError("tool", f"{last_word.name} ended the run: {last_word.text}")
            if any(circling):  # whoever asks for the same again and again because nobody approves it needs an approval
                return spent or (Outcome.APPROVAL_NEEDED if self._unapproved else Outcome.LOOPING)
            return spent
        if response.stop_reason is StopReason.MAX_TOKENS:
            return Outcome.TRUNCATED if settings.max_tokens == self.plan.settings.max_tokens else Outcome.TOKEN_LIMIT
        if response.stop_reason is StopReason.PAUSE or self._empty_responses == 1:
            return spent  # a pause is sent back as it is, an empty response is asked for once more
        if self._inbox and spent is None:
            return None  # a person's words still reach the model
        return self._cut_by or (Outcome.APPROVAL_NEEDED if self._unapproved else Outcome.COMPLETED)

    # ------------------------------------------------------------ history and journal

    def _take(self, message: Message) -> None:
        self.plan.history.append(message)
        if message.role != "assistant":
            self._count_input([message])

    def _count_input(self, values: Iterable[Value]) -> None:
        if self.plan.limits.tokens is not None:
            self._ledger.add_input(sum(len(encode_json(value)) for value in values))

    async def _append(self, *entries: Entry, hold: bool = False) -> None:
        """Durable first, then seen; `hold` leaves the entries to the next append. What the journal refuses is held for the end."""
        self._held.extend(entries)
        if hold or not self._held:
            return
        batch, self._held = self._held, []
        try:
            first = await self._writer.append(batch)
        except Exception:
            self._held[:0] = batch
            raise
        self._feed.appended(batch, first)

    # ------------------------------------------------------------ the end

    async def _finish(self, outcome: Outcome, error: AgentError | None, *, start: int, begun: float) -> Ending:
        closing = self._close("The run timed out" if outcome is Outcome.TIMEOUT else "The run was stopped")
        text = next((m.text for m in reversed(self.plan.history[start:]) if m.role == "assistant" and m.text), "")
        metrics = RunMetrics(
            turns=self._ledger.turns,
            invocations=self._reached,
            tool_calls=self._ledger.tool_calls,
            retries=self._retried,
            usage=self._ledger.usage,
            duration_s=round(self._clock.monotonic() - begun, 6),
        )
        open_turn = self._ledger.turns + (self._attempt is not None) or None
        ending = Ending(outcome=outcome, text=text, error=error, metrics=metrics)
        for late in self._inbox:
            self._feed.say(Warned, {"text": f"the run ended before its model could read: {late}"})
        try:
            await self._append(*closing, ending.finished(open_turn))
        except Exception as lost:  # noqa: BLE001  the journal is gone: those who listen are told all the same
            ending = Ending(outcome=Outcome.ERROR, text=text, error=self._as_error(lost), metrics=metrics)
            self._feed.appended([*self._held[:-1], ending.finished(open_turn)], None)
        return ending

    def _close(self, why: str) -> list[Entry]:
        """Leaves a valid history: the text of a response that was cut is kept, and each open call gets its result."""
        entries: list[Entry] = []
        if self._attempt is not None and (parts := self._attempt.partial()):
            entry = self._responded(parts, Usage())
            entries.append(entry)
            self._take(entry.message)
        elif self._batch.calls and not self._batch.told:
            cut = self._batch.cut(why)
            self._ledger.tool_calls -= sum(not finished.started for finished in cut)
            entries.extend(cut)
            self._take(self._batch.message())
        return entries


def _limit_name(limit: Outcome) -> str:
    return "turns" if limit is Outcome.TURN_LIMIT else "tool_calls"
