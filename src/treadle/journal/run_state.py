"""Fold of a run's entries into its state, for driving the run and for reading it.

Resume, replay, fork and the view of a session use this fold. It decides nothing and does no I/O;
load.py supplies the entries. Entry point: `RunState.apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from treadle._internal.json_text import decode_json, encode_json
from treadle.budget.ledger import Ledger
from treadle.budget.spending import Reserved
from treadle.journal.context_state import ContextState
from treadle.journal.entries import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    Compaction,
    Entry,
    Evaluated,
    InputAdded,
    ModelBatched,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.receipts import Cleared, Summary, SummaryCost, Withdrawn, read_receipt
from treadle.journal.repetition import DEFAULT_REPEATS, Repetition
from treadle.journal.run_messages import failover_message, late_message, tool_message
from treadle.journal.run_values import (
    AgentState,
    ApprovalState,
    ModelState,
    RunClock,
    SpendingState,
    TurnState,
)
from treadle.messages.history import History
from treadle.messages.message import Message, ToolCall
from treadle.types import NO_LIMITS, Mode, Outcome, Time


class RunState:
    """State of a run after the entries applied so far.

    All attributes may be read between two entries; only `apply` changes them.
    """

    def __init__(self, past: Sequence[Message] = (), *, settled: int | None = None) -> None:
        """Create a run state. `past`: messages before the run, from its session or the run it was
        forked from; `settled`: how many of them belong to ended runs (default: all).
        """
        self.context = ContextState.after(past, settled=settled)
        self.current = TurnState()
        self.approvals = ApprovalState()
        self.spending = SpendingState()
        self.models = ModelState()
        self.ledger = Ledger(NO_LIMITS)
        self.limits = NO_LIMITS
        self.started: RunStarted | None = None
        self.finished: RunFinished | None = None
        self.seq = 0
        """Sequence number of the last entry."""
        self.ready_at = 0
        """Sequence number of the last entry before the first turn, when the prompt is complete."""
        self.resumed = 0
        """Number of resumes."""
        self.agent = AgentState()
        self.model = self.cwd = ""
        self.mode: Mode = "full"
        """Mode under the last driver."""
        self.text = ""
        """Text of the model's last message in this run that has any."""
        self.closed: list[int] = []
        """Sequence number of the last entry of each turn that is over."""
        self.repeatable: set[str] = set()
        """Ids of calls that may be repeated."""
        self.unknown_calls: set[str] = set()
        """Ids of calls with an unknown outcome, whose results may still arrive."""
        self.cut_by: Outcome | None = None
        """Limit that refused a call."""
        self._repetition = Repetition()
        self._clock = RunClock()

    def stand_on(self, past: Sequence[Message], *, settled: int | None = None) -> None:
        """Replace the messages before the run. Allowed only before the first entry."""
        self.context = ContextState.after(past, settled=settled)

    @property
    def history(self) -> History:
        """Messages that the model sees."""
        return self.context.history

    @property
    def open_calls(self) -> list[ToolCall]:
        """Tool calls of the last response that have no result, in their order."""
        return self.current.open_calls

    @property
    def asked(self) -> Mapping[str, ApprovalAsked]:
        """Open questions for approval, by call id."""
        return self.approvals.asked

    @property
    def agent_hash(self) -> str:
        """Hash of the agent definition that the last driver used."""
        return self.agent.hash

    @property
    def evaluated(self) -> Evaluated | None:
        """Results of the functions of the agent's definition."""
        return self.agent.evaluated

    @property
    def turn(self) -> int:
        """Number of the current or last turn; 0 before the first."""
        return self.ledger.turns + (self.current.attempt > 0)

    @property
    def driven_s(self) -> float:
        """Seconds in which a process drove the run, up to its last entry."""
        return self._clock.driven_s

    @property
    def under_way(self) -> list[Reserved | None]:
        """Reservations of attempts that have not ended."""
        return [self.spending.reserved if self.current.attempt else None, self.spending.summary]

    def apply(self, entry: Entry) -> None:
        self.seq += 1
        clock = self._clock
        if type(entry) is RunResumed:
            clock.driven_before_s, clock.idle_s = clock.driven_s, 0.0
        if type(entry) is not ToolLate:  # may arrive while no process drives the run
            clock.at = entry.at
        if entry.idle_s:
            clock.idle_s += entry.idle_s
        if (handle := _HANDLERS.get(type(entry))) is not None:
            handle(self, entry)

    def _started(self, entry: RunStarted) -> None:
        self.started, self._clock.segment_at, self.ready_at = entry, entry.at, self.seq
        self._driven_by(entry)
        self.models.asked = self.models.answering = entry.model
        self.limits = self.ledger.limits = entry.limits
        for message in entry.messages:
            self.context.add(message)
        self.context.prompt_at = len(self.context.history)
        if entry.fork is None or entry.fork.asks:
            self.context.ask(entry.input)

    def _driven_by(self, entry: RunStarted | RunResumed) -> None:
        self.agent.drive(entry)
        self.model, self.mode, self.cwd = entry.model, entry.mode, entry.cwd

    def _requested(self, entry: ModelRequested) -> None:
        current, spending, models = self.current, self.spending, self.models
        if entry.attempt == 1:
            current.begin(entry.last or self.ledger.last_by_count)
        if entry.spent is not None:
            self.ledger.spend(entry.spent, entry.spent_usd)
            spending.spend(entry.at, entry.spent, entry.spent_usd, models.answering)
        elif entry.attempt > 1 and not entry.free:
            self.ledger.lose(spending.reserved)
        spending.reserved, current.cut_bytes, current.batched = entry.reserved, 0, None
        if entry.view is not None or self.context.seen is not None:
            self.context.see(entry.view)
        self.context.is_processed = True
        if entry.without:
            models.without.add(entry.without)
        if entry.failed is not None:
            spending.use_up(models.answering)
            spending.retries += 1
            spending.invocations += entry.failed.status is not None
        models.answering = models.asked
        current.attempt = entry.attempt
        current.clamped = (
            None if entry.max_tokens is None else entry.clamped_by or Outcome.TOKEN_LIMIT
        )

    def _batched(self, entry: ModelBatched) -> None:
        self.current.batched = entry

    def _responded(self, entry: ModelResponded) -> None:
        current, message, text = self.current, entry.message, entry.message.text
        untold = (
            not entry.usage.total_tokens and entry.hook is None and entry.stop_reason is not None
        )
        new_bytes = self.context.new_bytes() if untold else 0
        if message.parts:
            self.context.add(message)
            self.text = text or self.text
        if entry.stop_reason is None:
            current.cut_bytes = len(encode_json(message))
            return
        current.response, current.calls, current.attempt = entry, message.tool_calls, 0
        current.call_ids = frozenset([call.id for call in current.calls])
        self.context.made_room, self.context.unanswered, current.batched = False, (), None
        self.context.call_ids.update(current.call_ids)
        if entry.hook is not None:
            self.ledger.pass_turn()
        else:
            told = new_bytes if untold else None
            self.spending.charge(entry, self.ledger, self.models.answering, told)
            if untold or entry.context_tokens != 0:
                self.context.measure(self.ledger.context_tokens)
        if entry.provider_data is not None:
            self.models.carried |= decode_json(entry.provider_data.encode(), dict[str, object])
        current.judge(entry, self.models, text=bool(text.strip()))
        if not current.calls:
            self._close_turn()

    def _close_turn(self) -> None:
        self.closed.append(self.seq)
        if self.context.later:
            self._tell_later()

    def _handed_over(self, entry: AgentSwitched) -> None:
        self.agent.switch(entry)
        self._switched(entry)
        self.model, self.ledger.context_tokens = entry.model, 0
        self.models.empty_responses = self.models.mended = 0
        self.current.repeated = None
        self.context.show(entry.view)

    def _switched(self, entry: ModelSwitched | AgentSwitched) -> None:
        if entry.model.partition(":")[0] != self.models.asked.partition(":")[0]:
            self.models.carried = {}
        self.models.ask(entry.model)

    def _tool_started(self, entry: ToolStarted) -> None:
        if entry.call_id not in self.current.starts:
            self.ledger.start_call()
        if self.current.late:
            self._pass_over(entry.call_id)
        self.current.starts[entry.call_id] = entry
        if entry.effect != "once":
            self.repeatable.add(entry.call_id)
        self.approvals.allowed.discard(entry.call_id)

    def _tool_finished(self, entry: ToolFinished) -> None:
        current, call_id = self.current, entry.result.call_id
        current.results[call_id] = entry
        self.approvals.asked.pop(call_id, None)
        if current.late:
            self._pass_over(call_id, unless=entry.status != "unknown")
        if entry.completes and not current.completing:
            current.completing = call_id
        current.blocked = current.blocked or entry.blocked
        if entry.hands_to and self.agent.handing is None:
            self.agent.handing = entry
        self.cut_by = entry.cut_by or self.cut_by
        if entry.status == "unknown":
            self.unknown_calls.add(call_id)
        else:
            self.unknown_calls.discard(call_id)
        if len(current.results) == len(current.calls):
            current.repeated = self._repetition.found(
                current.finished_calls(), self.limits.repeats or DEFAULT_REPEATS
            )
            assert current.response is not None, "calls are a response's"
            results = current.ordered_results()
            self.context.add(tool_message(current.response.message, results, entry.at))
            self._close_turn()

    def _tell_later(self) -> None:
        """Add delayed messages, unless they would separate a call from its result, or precede the
        continuation of a program at the provider.
        """
        if not self.current.has_open_calls and not self.current.results_only:
            later, self.context.later = self.context.later, []
            for message in later:
                self.context.add(message)
            self.current.unread |= bool(later)

    def _tool_late(self, entry: ToolLate) -> None:
        if not self.current.is_closed_by(entry):
            self._delay(late_message(entry))
            return
        self.current.late[entry.call_id] = entry
        self.approvals.asked.pop(entry.call_id, None)
        self.unknown_calls.discard(entry.call_id)

    def _pass_over(self, call_id: str, *, unless: bool = False) -> None:
        """Deliver a late result as a message, because a driver of an older version continued
        without it, `unless` the call's result is known.
        """
        if (late := self.current.late.pop(call_id, None)) is not None and not unless:
            self._delay(late_message(late))

    def _delay(self, message: Message) -> None:
        self.context.later.append(message)
        self._tell_later()

    def _approval_asked(self, entry: ApprovalAsked) -> None:
        self.approvals.ask(entry)
        self.current.doubt_was_told(entry.call_id)
        self.unknown_calls.update({entry.call_id} & self.current.starts.keys())

    def _approval_answered(self, entry: ApprovalAnswered) -> None:
        self.approvals.answer(entry)
        if entry.decision == "allow":
            self.current.trust(entry.call_id)

    def _input_added(self, entry: InputAdded) -> None:
        self.models.mended += entry.mends
        if entry.by == "user":
            self.context.unanswered = (*self.context.unanswered, entry.message)
            self.current.repeated = None
            self._repetition.reset()
        self._delay(entry.message)

    def _compaction(self, entry: Compaction) -> None:
        context, receipt = self.context, read_receipt(entry.receipt)
        if not self.turn:
            self.ready_at = self.seq
        if isinstance(receipt, Cleared) and receipt.is_note:
            self._end_summary(lost=receipt.ended == "lost")
            self.spending.summary = receipt.reserved
            if receipt.spent is not None:
                self._summed_up(entry.at, receipt.spent)
            return
        context.compact(receipt)
        if isinstance(receipt, Withdrawn):
            context.measured = (0, 0)
        elif isinstance(receipt, Summary) or (isinstance(receipt, Cleared) and not receipt.unseen):
            context.measured = (len(context.history), receipt.tokens_after)
            self.ledger.context_tokens, self.ledger.fixed_bytes = receipt.tokens_after, 0
            context.made_room |= receipt.tokens_after < receipt.tokens_before
            if receipt.spent is not None:
                self.spending.summary = None
                self._summed_up(entry.at, receipt.spent)

    def _end_summary(self, *, lost: bool) -> None:
        """End the attempt at a summary. `lost`: it may have cost its whole reservation."""
        self.ledger.lose(self.spending.summary if lost else None)
        self.spending.summary = None

    def _summed_up(self, at: Time, spent: SummaryCost) -> None:
        """Charge a summary, which may come from another model than the run's."""
        self.ledger.spend(spent.usage, spent.cost_usd)
        self.spending.sum_up(at, spent, self.models.answering)

    def _resumed(self, entry: RunResumed) -> None:
        current, self.resumed = self.current, self.resumed + 1
        self._clock.segment_at = entry.at
        if entry.asked is not None or entry.model != self.model:
            self.models.ask(entry.asked or entry.model)
            current.batched = None
        self._driven_by(entry)
        if entry.limits is not None:
            self.limits = self.ledger.limits = entry.limits
            current.last = self.ledger.last_by_count if current.attempt else None
        if current.attempt and current.batched is None:
            self.ledger.lose(self.spending.reserved, current.cut_bytes)
            self.spending.reserved = None
        self._end_summary(lost=True)
        if entry.failed_over:
            current.doubt()
            self._delay(failover_message(entry))

    def _finished(self, entry: RunFinished) -> None:
        current = self.current
        if current.attempt and entry.error is not None:
            self.spending.use_up(self.models.answering)
        if current.attempt and not entry.is_free:
            self.ledger.lose(self.spending.reserved, current.cut_bytes)
        self._end_summary(lost=True)
        self.finished, current.attempt, current.results_only = entry, 0, False
        self._tell_later()


_HANDLERS = cast(
    "Mapping[type[Entry], Callable[[RunState, Entry], None]]",
    {
        RunStarted: RunState._started,  # pyright: ignore[reportPrivateUsage]  its own
        ModelRequested: RunState._requested,  # pyright: ignore[reportPrivateUsage]
        ModelBatched: RunState._batched,  # pyright: ignore[reportPrivateUsage]
        ModelResponded: RunState._responded,  # pyright: ignore[reportPrivateUsage]
        ModelSwitched: RunState._switched,  # pyright: ignore[reportPrivateUsage]
        AgentSwitched: RunState._handed_over,  # pyright: ignore[reportPrivateUsage]
        ToolStarted: RunState._tool_started,  # pyright: ignore[reportPrivateUsage]
        ToolFinished: RunState._tool_finished,  # pyright: ignore[reportPrivateUsage]
        ToolLate: RunState._tool_late,  # pyright: ignore[reportPrivateUsage]
        ApprovalAsked: RunState._approval_asked,  # pyright: ignore[reportPrivateUsage]
        ApprovalAnswered: RunState._approval_answered,  # pyright: ignore[reportPrivateUsage]
        InputAdded: RunState._input_added,  # pyright: ignore[reportPrivateUsage]
        Compaction: RunState._compaction,  # pyright: ignore[reportPrivateUsage]
        RunResumed: RunState._resumed,  # pyright: ignore[reportPrivateUsage]
        RunFinished: RunState._finished,  # pyright: ignore[reportPrivateUsage]
    },
)
