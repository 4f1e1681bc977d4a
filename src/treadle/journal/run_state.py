"""What a run has come to: a fold of its entries, the same while it runs and whenever it is read
again.

Resume, replay, fork and the view of a session are this fold. It decides nothing and does no I/O;
entries come from load.py. Entry: `RunState.apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec

from treadle._internal.json_text import JsonText, encode_json
from treadle.budget.ledger import Ledger
from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    Compaction,
    Entry,
    InputAdded,
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
from treadle.journal.receipts import Cleared, Said, Summary, SummaryCost, Withdrawn, read_receipt
from treadle.journal.repetition import DEFAULT_REPEATS, PACED_MS, FinishedCall, Repeated, Repetition
from treadle.journal.run_messages import late_message, tool_message
from treadle.messages.history import History
from treadle.messages.message import Message, TextPart, ToolCall, ToolResult
from treadle.types import NO_LIMITS, Mode, Outcome, Reserved, Spending, StopReason, Time, Usage, usd


class RunState:
    """Apply every entry in order.

    Between two entries everything in it may be read; only `apply` changes it.
    """

    def __init__(self, past: Sequence[Message] = (), *, settled: int | None = None) -> None:
        """`past`: what its session, or the run it was forked from, had said before.

        `settled`: how much of that belongs to ended runs.
        """
        self.stand_on(past, settled=settled)
        self.said: list[Said] = []
        """What it adds to its session."""
        self.started: RunStarted | None = None
        self.finished: RunFinished | None = None
        self.ready_at = 0
        """The sequence of the last entry before its first turn: what it begins with is whole then.
        """
        self.limits = NO_LIMITS
        """As its entries say."""
        self.ledger = Ledger(self.limits)
        self.retries = self.invocations = self.resumed = self.seq = 0
        self.agent_hash = self.model = self.cwd = ""
        self.asked_model = ""
        """The one that is asked now: `model`, or what the run has switched to."""
        self.mode: Mode = "full"
        """As its last driver had them."""
        self.text = ""
        """That of the last message of the model in this run that has some."""
        self.measured = (0, 0)
        """Messages at the beginning of the history whose tokens a response, or the receipt of a
        compaction, has told, and how many those are.
        """
        self.made_room = False
        """Since the last response."""
        self.repeatable: set[str] = set()
        """Calls of this run that may be made again."""
        self.attempt = 0
        """The number of the attempt that is under way; 0 where none is."""
        self.last: Outcome | None = None
        """The limit that makes the turn under way the last one."""
        self.clamped: Outcome | None = None
        """The limit that left the turn fewer tokens than its settings say."""
        self.response: ModelResponded | None = None
        """The last whole one."""
        self.calls: tuple[ToolCall, ...] = ()
        """Those of the last response."""
        self.results: dict[str, ToolFinished] = {}
        self.starts: dict[str, ToolStarted] = {}
        self.asked: dict[str, ApprovalAsked] = {}
        """Not answered yet."""
        self.allowed: frozenset[str] = frozenset()
        """By a person, and not started since."""
        self.edited: dict[str, JsonText] = {}
        """Call id -> what a person wants it to be called with."""
        self.shown: dict[str, JsonText] = {}
        """Call id -> what a person was asked about it with."""
        self.closed: list[int] = []
        """For each turn that is over, the sequence of its last entry."""
        self.without: frozenset[str] = frozenset()
        """Settings that the model which is asked now is known to refuse."""
        self.carried: dict[str, object] = {}
        """What the provider wants back with the next request."""
        self.results_only = False
        """True if nothing but results may follow the last response: a program at the provider waits
        for them, or the provider has paused.
        """
        self.unread = False
        """True if messages that had to wait follow the last response."""
        self.empty_responses = 0
        """In a row."""
        self.cuts = 0
        """Responses that max_tokens cut inside their thinking or a call."""
        self.cut_short = False
        """The last response is one of these."""
        self.mended = 0
        """Times that the model was told what is wrong with its answer."""
        self.unapproved = False
        self.repeated: Repeated | None = None
        """A call of the last response that gave the same result too often."""
        self.unknown_calls: set[str] = set()
        """Of which nobody knows what became: what they gave may still come."""
        self.cut_by: Outcome | None = None
        """The limit that refused a call."""
        self.used_up: dict[str, int] = {}
        """Answers and errors that each model gave, by its name."""
        self.spending: dict[tuple[str, str], Spending] = {}
        """By day and model."""
        self._answering = ""
        """The one that the attempt under way asks."""
        self._later: tuple[Message, ...] = ()
        """Messages that may not follow the last response, or its results, yet."""
        self._completing = ""
        """The call with which the model said that it is done."""
        self.reserved: Reserved | None = None
        """For the attempt that is under way."""
        self.summary: Reserved | None = None
        """For an attempt at a summary that is under way."""
        self._cut_bytes = 0  # of what that attempt had said when it was cut
        self._repetition = Repetition()
        self._driven_s = self._idle_s = 0.0
        self._segment_at: Time | None = None
        self._at: Time | None = None

    def stand_on(self, past: Sequence[Message], *, settled: int | None = None) -> None:
        """Replace what came before. Only before the first entry."""
        self.history = History(past, settled=len(past) if settled is None else settled)
        # `past`: messages in the history that are not its own
        self.past = self.prompt_at = len(past)
        self.call_ids = {call.id for message in past for call in message.tool_calls}

    # ------------------------------------------------------------ what can be asked

    @property
    def open_calls(self) -> list[ToolCall]:
        """Those of the last response that have no result, in their order."""
        calls, results = self.calls, self.results
        return (
            [] if len(results) == len(calls) else [call for call in calls if call.id not in results]
        )

    @property
    def turn(self) -> int:
        """The turn under way, or the last one; 0 before the first."""
        return self.ledger.turns + (self.attempt > 0)

    @property
    def driven_s(self) -> float:
        """Seconds in which somebody drove it, up to its last entry."""
        return max(self._driven_s + _between(self._segment_at, self._at) - self._idle_s, 0.0)

    @property
    def ended_by(self) -> ToolResult | None:
        """The first result of the last response with which a tool ends the run."""
        for finished in self.results.values():
            if finished.ends_run:
                return finished.result
        return None

    @property
    def unknown(self) -> ToolResult | None:
        """The first result of the last response of which nobody knows whether it happened."""
        return next((f.result for f in self.results.values() if f.status == "unknown"), None)

    @property
    def completion(self) -> ToolCall | None:
        """The call of the last response with which the model said that it is done."""
        return (
            next((call for call in self.calls if call.id == self._completing), None)
            if self._completing
            else None
        )

    def new_bytes(self) -> int:
        """Of messages that no response has counted yet."""
        return sum(len(encode_json(message)) for message in self.history[self.measured[0] :])

    def ordered_results(self) -> list[ToolResult]:
        """Those of the last response, in the order of its calls."""
        return [self.results[call.id].result for call in self.calls if call.id in self.results]

    # ------------------------------------------------------------ the fold

    def apply(self, entry: Entry) -> None:
        self.seq += 1
        if type(entry) is RunResumed:
            self._driven_s, self._idle_s = self.driven_s, 0.0
        if type(entry) is not ToolLate:  # it may come when nobody drives the run
            self._at = entry.at
        if entry.idle_s:
            self._idle_s += entry.idle_s
        if (handle := _HANDLERS.get(type(entry))) is not None:
            handle(self, entry)

    def _started(self, entry: RunStarted) -> None:
        self.started, self._segment_at, self.ready_at = entry, entry.at, self.seq
        self.agent_hash, self.model, self.mode, self.cwd = (
            entry.agent_hash,
            entry.model,
            entry.mode,
            entry.cwd,
        )
        self.asked_model = self._answering = entry.model
        self.limits = self.ledger.limits = entry.limits
        for message in entry.messages:
            self._add(message)
        self.prompt_at = len(self.history)
        if entry.fork is None or entry.fork.asks:
            self._add(entry.input)

    def _requested(self, entry: ModelRequested) -> None:
        if entry.attempt == 1:
            self.last = entry.last or self.ledger.last_by_count
            (
                self.response,
                self.calls,
                self.results,
                self.starts,
                self._completing,
                self.repeated,
            ) = None, (), {}, {}, "", None
            self.unread = False
        if entry.spent is not None:
            self.ledger.spend(entry.spent, entry.spent_usd)
            self._spend(entry.at, entry.spent, entry.spent_usd)
        elif entry.attempt > 1 and not entry.free:
            self.ledger.lose(self.reserved)
        self.reserved, self._cut_bytes = entry.reserved, 0
        self.without |= {entry.without} if entry.without else frozenset()
        if entry.failed is not None:
            self._use_up()
        self._answering = self.asked_model
        self.retries += entry.failed is not None
        self.invocations += entry.failed is not None and entry.failed.status is not None
        self.attempt = entry.attempt
        self.clamped = None if entry.max_tokens is None else entry.clamped_by or Outcome.TOKEN_LIMIT

    def _responded(self, entry: ModelResponded) -> None:
        message = entry.message
        untold = (
            not entry.usage.total_tokens and entry.hook is None and entry.stop_reason is not None
        )
        new_bytes = self.new_bytes() if untold else 0
        if message.parts:
            self._add(message)
            self.text = message.text or self.text
        if entry.stop_reason is None:
            self._cut_bytes = len(encode_json(message))
            return
        self.response, self.calls, self.attempt, self.made_room = (
            entry,
            message.tool_calls,
            0,
            False,
        )
        self.call_ids.update([call.id for call in self.calls])
        if entry.hook is not None:
            self.ledger.pass_turn()
        else:
            if untold:
                self.ledger.settle_untold(new_bytes, len(encode_json(message)), self.reserved)
            else:
                self.ledger.settle(entry.usage, entry.cost_usd, entry.context_tokens)
            if untold or entry.context_tokens != 0:
                self.measured = (len(self.history), self.ledger.context_tokens)
            self._spend(entry.at, entry.usage, entry.cost_usd, responses=1)
            self.invocations += 1
            self._use_up()
        if entry.provider_data is not None:
            self.carried |= msgspec.json.decode(entry.provider_data, type=dict[str, object])
        self.results_only = (
            entry.results_only and bool(self.calls)
        ) or entry.stop_reason is StopReason.PAUSE
        text = any(isinstance(part, TextPart) and part.text.strip() for part in message.parts)
        self.cut_short = (
            entry.stop_reason is StopReason.MAX_TOKENS
            and self.clamped is None
            and (bool(self.calls) or not text)
        )
        self.cuts += self.cut_short
        empty = (
            not self.calls
            and not text
            and entry.stop_reason in (StopReason.COMPLETE, StopReason.TOOL_USE)
        )
        self.empty_responses = self.empty_responses + 1 if empty else 0
        self.repeated = None
        if not self.calls:
            self.closed.append(self.seq)
            self._tell_later()

    def _use_up(self, model: str | None = None) -> None:
        name = model or self._answering
        self.used_up[name] = self.used_up.get(name, 0) + 1

    def _spend(
        self,
        at: Time,
        usage: Usage,
        cost_usd: float | None,
        *,
        responses: int = 0,
        model: str | None = None,
    ) -> None:
        key = at.date().isoformat(), model or self._answering
        before = self.spending.get(key) or Spending(day=key[0], model=key[1])
        self.spending[key] = Spending(
            day=before.day,
            model=before.model,
            responses=before.responses + responses,
            unpriced=before.unpriced + (cost_usd is None),
            usage=before.usage + usage,
            cost_usd=usd(before.cost_usd, cost_usd),
        )

    def _switched(self, entry: ModelSwitched) -> None:
        if entry.model.partition(":")[0] != self.asked_model.partition(":")[0]:
            self.carried = {}
        self.asked_model, self.without = entry.model, frozenset()

    def _tool_started(self, entry: ToolStarted) -> None:
        if entry.call_id not in self.starts:
            self.ledger.start_call()
        self.starts[entry.call_id] = entry
        if entry.effect != "once":
            self.repeatable.add(entry.call_id)
        if self.allowed:
            self.allowed -= {entry.call_id}

    def _tool_finished(self, entry: ToolFinished) -> None:
        self.results[entry.result.call_id] = entry
        self.asked.pop(entry.result.call_id, None)
        if entry.completes and not self._completing:
            self._completing = entry.result.call_id
        self.cut_by = entry.cut_by or self.cut_by
        if entry.status == "unknown":
            self.unknown_calls.add(entry.result.call_id)
        else:
            self.unknown_calls.discard(entry.result.call_id)
        if len(self.results) == len(self.calls):
            results = self.ordered_results()
            self.repeated = self._repetition.found(
                map(self._done, self.calls), self.limits.repeats or DEFAULT_REPEATS
            )
            assert self.response is not None, "calls are a response's"
            self._add(tool_message(self.response.message, results, entry.at))
            self.closed.append(self.seq)
            self._tell_later()

    def _tell_later(self) -> None:
        """Add what had to wait, unless it would stand between a call and its result, or before a
        program at the provider has gone on.
        """
        if not self.open_calls and not self.results_only:
            later, self._later = self._later, ()
            for message in later:
                self._add(message)
            self.unread |= bool(later)

    def _done(self, call: ToolCall) -> FinishedCall:
        finished, started = self.results[call.id], self.starts.get(call.id)
        changed = (
            started is not None
            and started.effect != "pure"
            and finished.status in ("ok", "unknown")
        )
        waited = finished.duration_ms >= PACED_MS or (started is not None and started.polls)
        return FinishedCall(call, finished.result, changed, waited)

    def _tool_late(self, entry: ToolLate) -> None:
        self._later = (*self._later, late_message(entry))
        self._tell_later()

    def _approval_asked(self, entry: ApprovalAsked) -> None:
        self.asked[entry.call_id] = entry
        self.shown[entry.call_id] = entry.arguments_json
        if entry.call_id in self.starts:
            self.unknown_calls.add(entry.call_id)

    def _approval_answered(self, entry: ApprovalAnswered) -> None:
        self.asked.pop(entry.call_id, None)
        if entry.decision == "allow":
            self.allowed |= {entry.call_id}
        if entry.arguments_json is not None:
            self.edited[entry.call_id] = entry.arguments_json
        self.unapproved |= entry.by == "nobody"

    def _input_added(self, entry: InputAdded) -> None:
        self.mended += entry.mends
        if entry.by == "user":
            self.repeated = None
            self._repetition.reset()
        self._later = (*self._later, entry.message)
        self._tell_later()

    def _compaction(self, entry: Compaction) -> None:
        receipt, seen = read_receipt(entry.receipt), self.history[:]
        if not self.turn:
            self.ready_at = self.seq
        if isinstance(receipt, Cleared) and receipt.is_note:
            self._end_summary(lost=receipt.ended == "lost")
            self.summary = receipt.reserved
            if receipt.spent is not None:
                self._summed_up(entry.at, receipt.spent)
            return
        settled = self.history.settled
        if (kept := receipt.kept(seen)) is not None:
            settled, self.past, self.prompt_at = (
                kept.moved(boundary) for boundary in (settled, self.past, self.prompt_at)
            )
        self.history = History(receipt.of(seen), settled=settled)
        self.said.append(receipt)
        if isinstance(receipt, Withdrawn):
            self.measured = (0, 0)
        elif isinstance(receipt, Summary) or (isinstance(receipt, Cleared) and not receipt.unseen):
            self.measured = (len(self.history), receipt.tokens_after)
            self.ledger.context_tokens, self.ledger.fixed_bytes = receipt.tokens_after, 0
            self.made_room |= receipt.tokens_after < receipt.tokens_before
            if receipt.spent is not None:
                self.summary = None
                self._summed_up(entry.at, receipt.spent)

    def _end_summary(self, *, lost: bool) -> None:
        """`lost`: the attempt may have cost all of its reservation."""
        if lost:
            self.ledger.lose(self.summary)
        self.summary = None

    @property
    def under_way(self) -> list[Reserved | None]:
        """Reservations of attempts without an end."""
        return [self.reserved if self.attempt else None, self.summary]

    def _summed_up(self, at: Time, spent: SummaryCost) -> None:
        """Another model than its own may have been asked; a script has one entry fewer."""
        self.ledger.spend(spent.usage, spent.cost_usd)
        self._spend(at, spent.usage, spent.cost_usd, responses=1, model=spent.model)
        self._use_up(spent.model)

    def _resumed(self, entry: RunResumed) -> None:
        self.resumed += 1
        self._segment_at = entry.at
        if entry.asked is not None or entry.model != self.model:
            self.asked_model, self.without = entry.asked or entry.model, frozenset()
        self.agent_hash, self.model, self.mode, self.cwd = (
            entry.agent_hash,
            entry.model,
            entry.mode,
            entry.cwd,
        )
        if entry.limits is not None:
            self.limits = self.ledger.limits = entry.limits
            self.last = self.ledger.last_by_count if self.attempt else None
        if self.attempt:
            self.ledger.lose(self.reserved, self._cut_bytes)
            self.reserved = None
        self._end_summary(lost=True)

    def _finished(self, entry: RunFinished) -> None:
        if self.attempt and entry.error is not None:
            self._use_up()
        if self.attempt and (entry.error is None or entry.error.status is None):
            self.ledger.lose(self.reserved, self._cut_bytes)
        self._end_summary(lost=True)
        self.finished, self.attempt, self.results_only = entry, 0, False
        self._tell_later()

    def _add(self, message: Message) -> None:
        self.history.append(message)
        self.said.append(message)


_HANDLERS = cast(
    "Mapping[type[Entry], Callable[[RunState, Entry], None]]",
    {
        RunStarted: RunState._started,  # pyright: ignore[reportPrivateUsage]  its own
        ModelRequested: RunState._requested,  # pyright: ignore[reportPrivateUsage]
        ModelResponded: RunState._responded,  # pyright: ignore[reportPrivateUsage]
        ModelSwitched: RunState._switched,  # pyright: ignore[reportPrivateUsage]
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


def _between(start: Time | None, end: Time | None) -> float:
    """Seconds; clocks may have been set back meanwhile."""
    return 0.0 if start is None or end is None else max((end - start).total_seconds(), 0.0)
