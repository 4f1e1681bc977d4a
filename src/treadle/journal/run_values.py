"""Values that make up a `RunState`, one for each concern: the current turn, approvals, spending,
context, the model in use and time.

Only the fold in run_state.py changes them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from treadle._internal.json_text import JsonText, encode_json
from treadle._internal.units import usd
from treadle.budget.ledger import Ledger
from treadle.budget.spending import Reserved, Spending
from treadle.journal.entries import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    Evaluated,
    ModelBatched,
    ModelResponded,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.receipts import SummaryCost
from treadle.journal.repetition import PACED_MS, FinishedCall, Repeated
from treadle.messages.message import ToolCall, ToolResult
from treadle.types import Outcome, Settings, StopReason, Time, Usage


class AgentState(msgspec.Struct):
    """Agent of the run, as defined at that time."""

    name: str = ""
    hash: str = ""
    evaluated: Evaluated | None = None
    """Results of the functions of its definition, valid for the rest of the run."""
    settings: Settings = Settings()
    passing: tuple[str, ...] = ()
    """Temporary blocks of its system prompt."""
    before: tuple[str, ...] = ()
    """Names of the agents that handed the run over, in order."""
    handing: ToolFinished | None = None
    """Call with which it hands the run to another agent, after the current turn."""

    def drive(self, entry: RunStarted | RunResumed) -> None:
        """Record the definition that a driver uses."""
        self.name, self.hash = entry.agent, entry.agent_hash
        self.evaluated = entry.evaluated or self.evaluated
        if type(entry) is RunStarted:
            self.settings, self.passing = entry.settings, entry.passing

    def switch(self, entry: AgentSwitched) -> None:
        """Note the next agent."""
        self.name, self.hash = entry.agent, entry.agent_hash
        self.evaluated, self.settings, self.passing = entry.evaluated, entry.settings, entry.passing
        self.before, self.handing = (*self.before, entry.before), None


class TurnState(msgspec.Struct):
    """The current turn, or the last one: its attempt, response, tool calls and results."""

    attempt: int = 0
    """Number of the attempt in progress; 0 if there is none."""
    last: Outcome | None = None
    """Limit that makes this turn the last one."""
    clamped: Outcome | None = None
    """Limit that left the turn fewer tokens than its settings request."""
    response: ModelResponded | None = None
    """Last complete response."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls of that response."""
    call_ids: frozenset[str] = frozenset()
    """Ids of these calls."""
    results: dict[str, ToolFinished] = {}
    starts: dict[str, ToolStarted] = {}
    late: dict[str, ToolLate] = {}
    """Late results that end open calls, by call id; the next driver closes the calls with them."""
    doubtful: dict[str, bool] = {}
    """Ids of calls without a start that may nevertheless have taken effect, because the database
    has failed over since they were requested. The value is True if the user was asked since then,
    whose approval removes the doubt.
    """
    results_only: bool = False
    """True if only results may follow the response, because a program at the provider waits for
    them or the provider has paused.
    """
    unread: bool = False
    """True if delayed messages follow the response."""
    cut_short: bool = False
    """True if max_tokens cut the response inside its thinking or a call."""
    repeated: Repeated | None = None
    """Call of the response that returned the same result too often."""
    blocked: str = ""
    """Reason of a hook to end the run because of a result; empty if there is none."""
    completing: str = ""
    """Id of the call with which the model completed the run."""
    cut_bytes: int = 0
    """Bytes that the attempt in progress had streamed when it was cut."""
    batched: ModelBatched | None = None
    """Place of the attempt's request in a batch of the provider."""

    @property
    def message_id(self) -> str:
        """Id of the message that contains the calls; empty without a response."""
        return "" if self.response is None else self.response.message.id

    def begin(self, last: Outcome | None) -> None:
        """Start the next turn, without a response."""
        self.last, self.response = last, None
        self.calls, self.call_ids = (), frozenset()
        self.results, self.starts, self.doubtful, self.late = {}, {}, {}, {}
        self.completing, self.repeated, self.unread, self.blocked = "", None, False, ""

    def judge(self, entry: ModelResponded, models: ModelState, *, text: bool) -> None:
        """Record whether the response is truncated or empty, and what may follow it. `text`: True
        if it has non-blank text.
        """
        reason = entry.stop_reason
        self.results_only = (entry.results_only and bool(self.calls)) or reason is StopReason.PAUSE
        self.cut_short = (
            reason is StopReason.MAX_TOKENS
            and self.clamped is None
            and (bool(self.calls) or not text)
        )
        models.cuts += self.cut_short
        empty = not self.calls and not text and reason in (StopReason.COMPLETE, StopReason.TOOL_USE)
        models.empty_responses = models.empty_responses + 1 if empty else 0
        self.repeated = None

    def is_closed_by(self, late: ToolLate) -> bool:
        """Return True if the late result ends an open call."""
        return (
            late.status is not None
            and late.call_id in self.call_ids
            and late.call_id not in self.results
        )

    def doubt(self) -> None:
        """Mark every call without a start as doubtful, because its start may be lost."""
        self.doubtful = {call.id: False for call in self.open_calls if call.id not in self.starts}

    def doubt_was_told(self, call_id: str) -> None:
        """Record that the user is asked about the call."""
        if call_id in self.doubtful:
            self.doubtful[call_id] = True

    def trust(self, call_id: str) -> None:
        """Record the user's approval of the call. It counts if the request was made after the doubt
        arose.
        """
        if self.doubtful.get(call_id):
            del self.doubtful[call_id]

    def may_have_happened(self, call_id: str) -> bool:
        """Return True for a call without a start that is in doubt."""
        return call_id in self.doubtful and call_id not in self.starts

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without a result, in their order."""
        calls, results = self.calls, self.results
        if len(results) == len(calls):
            return []
        return [call for call in calls if call.id not in results]

    @property
    def has_open_calls(self) -> bool:
        """True if a call has no result."""
        return len(self.results) < len(self.call_ids)

    @property
    def ended_by(self) -> ToolFinished | None:
        """First call with which a tool ends the run."""
        for finished in self.results.values():
            if finished.ends_run or finished.done is not None:
                return finished
        return None

    @property
    def unknown(self) -> ToolResult | None:
        """First result whose effect is unknown."""
        return next((f.result for f in self.results.values() if f.status == "unknown"), None)

    @property
    def completion(self) -> ToolCall | None:
        """Call with which the model completed the run."""
        if not self.completing:
            return None
        return next((call for call in self.calls if call.id == self.completing), None)

    def ordered_results(self) -> list[ToolResult]:
        """Return the results, in the order of the calls."""
        return [self.results[call.id].result for call in self.calls if call.id in self.results]

    def finished_calls(self) -> Iterator[FinishedCall]:
        """Return the calls with their results, for the check on repetition. Every call has a
        result.
        """
        for call in self.calls:
            finished, started = self.results[call.id], self.starts.get(call.id)
            changed = (
                started is not None
                and started.effect != "pure"
                and finished.status in ("ok", "unknown")
            )
            waited = finished.duration_ms >= PACED_MS or (started is not None and started.polls)
            yield FinishedCall(call, finished.result, changed, waited)


class ApprovalState(msgspec.Struct):
    """Approval requests for tool calls and the decisions on them, by call id."""

    asked: dict[str, ApprovalAsked] = {}
    """Open requests."""
    allowed: set[str] = set()
    """Calls that were approved and have not started since."""
    edited: dict[str, JsonText] = {}
    """Arguments that a user substituted for the model's."""
    shown: dict[str, JsonText] = {}
    """Arguments that the request showed."""
    unapproved: bool = False
    """True if a request was decided without a user."""

    def ask(self, entry: ApprovalAsked) -> None:
        self.asked[entry.call_id] = entry
        self.shown[entry.call_id] = entry.arguments_json

    def answer(self, entry: ApprovalAnswered) -> None:
        self.asked.pop(entry.call_id, None)
        if entry.decision == "allow":
            self.allowed.add(entry.call_id)
        if entry.arguments_json is not None:
            self.edited[entry.call_id] = entry.arguments_json
        self.unapproved |= entry.by == "nobody"


class SpendingState(msgspec.Struct):
    """Requests and costs of the run, beyond the totals of its ledger."""

    by_day: dict[tuple[str, str], Spending] = {}
    """Spending by day (ISO 8601) and model."""
    used_up: dict[str, int] = {}
    """Number of responses and errors that each model returned, by its name."""
    retries: int = 0
    invocations: int = 0
    """Number of requests that a provider answered."""
    reserved: Reserved | None = None
    """Reservation of the attempt in progress."""
    summary: Reserved | None = None
    """Reservation of the attempt at a summary that is in progress."""

    def charge(
        self, entry: ModelResponded, ledger: Ledger, model: str, untold_bytes: int | None
    ) -> None:
        """Charge a response. `untold_bytes`: size of the messages to estimate from, if it reports
        no usage.
        """
        if untold_bytes is None:
            ledger.settle(entry.usage, entry.cost_usd, entry.context_tokens)
        else:
            ledger.settle_untold(untold_bytes, len(encode_json(entry.message)), self.reserved)
        self.spend(entry.at, entry.usage, entry.cost_usd, model, responses=1)
        self.invocations += 1
        self.use_up(model)

    def sum_up(self, at: Time, spent: SummaryCost, model: str) -> None:
        """Add the cost of a summary, by the run's `model` if it names none."""
        model = spent.model or model
        self.spend(at, spent.usage, spent.cost_usd, model, responses=1)
        self.use_up(model)

    def use_up(self, model: str) -> None:
        """Count a response or an error of the model."""
        self.used_up[model] = self.used_up.get(model, 0) + 1

    def spend(
        self, at: Time, usage: Usage, cost_usd: float | None, model: str, *, responses: int = 0
    ) -> None:
        """Add to the day of `at`."""
        key = at.date().isoformat(), model
        before = self.by_day.get(key) or Spending(day=key[0], model=key[1])
        self.by_day[key] = Spending(
            day=before.day,
            model=before.model,
            responses=before.responses + responses,
            unpriced=before.unpriced + (cost_usd is None),
            usage=before.usage + usage,
            cost_usd=before.cost_usd if cost_usd is None else usd(before.cost_usd, cost_usd),
        )


class ModelState(msgspec.Struct):
    """The model that the run uses, and its known properties."""

    asked: str = ""
    """Model of the next request: the run's own, or the one that it switched to."""
    answering: str = ""
    """Model of the attempt in progress."""
    without: set[str] = set()
    """Settings that the model is known to reject."""
    carried: dict[str, object] = {}
    """Provider data to return with the next request."""
    empty_responses: int = 0
    """Consecutive empty responses."""
    cuts: int = 0
    """Number of responses that max_tokens truncated inside their thinking or a call."""
    mended: int = 0
    """Number of times that an answer was returned to the model with its errors."""

    def ask(self, model: str) -> None:
        self.asked, self.without = model, set()


class RunClock(msgspec.Struct):
    """Time in which a process drove the run, in seconds."""

    driven_before_s: float = 0.0
    """Seconds before the last resume."""
    idle_s: float = 0.0
    segment_at: Time | None = None
    """Time of the start or the last resume."""
    at: Time | None = None
    """Time of the last entry that a driver wrote."""

    @property
    def driven_s(self) -> float:
        """Seconds up to the last entry, without idle time. Never decreases below the value at the
        last resume, even if an older version wrote entries while the system clock was set back.
        """
        if self.segment_at is None or self.at is None:
            return self.driven_before_s
        segment_s = (self.at - self.segment_at).total_seconds() - self.idle_s
        return self.driven_before_s + max(segment_s, 0.0)
