"""Entries of a run, an append-only list without gaps.

journal.py defines where they are stored, entry_codec.py reads them back; the loop decides when they
are appended. Entry point: `Entry`.

Order of a run: run.started, then for each turn model.requested (one more for each failed attempt),
model.responded with the starts of the calls that start now, tool.finished for each, and in the end
run.finished. Two barriers a turn: the response and the starts are appended before any of those
calls begins; every result is appended before the next request uses it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from treadle._internal.json_text import (
    JsonText,
)
from treadle.budget.spending import Reserved, Spending
from treadle.journal.view import View
from treadle.messages.events import ErrorInfo
from treadle.messages.labels import Metadata
from treadle.messages.message import Message, ToolResult
from treadle.messages.metrics import RunTotals
from treadle.messages.response_details import ResponseDetails
from treadle.models.model import ToolDefinition
from treadle.types import (
    Effect,
    Limits,
    Mode,
    OnAsk,
    OnUnknown,
    Outcome,
    Settings,
    StopReason,
    Time,
    Usage,
    Value,
)

SCHEMA = 1
"""Major version of the entries, stored in run.started. Readers refuse a higher one."""


class _Entry(Value, frozen=True, kw_only=True, tag_field="type"):
    at: Time
    idle_s: float = 0.0
    """Seconds before this entry that do not count: a user was being asked, or the clock was set."""


class Fork(Value, frozen=True, kw_only=True):
    """Origin of a run that continues another run, whose entries are read and never copied."""

    run_id: str
    turn: int
    """Number of closed turns of the other run to keep; 0: only what precedes its prompt."""
    seq: int
    """Sequence number of the last entry of the other run to read."""
    asks: bool = True
    """True if the run's own prompt follows; False if it continues where the other run stopped."""
    results: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Call id -> result that replaces that call's result."""
    delayed: bool = False
    """True if messages that could not follow the other run's open calls yet are kept. Older forks
    left them out.
    """


class Evaluated(Value, frozen=True, kw_only=True):
    """Results of the functions of an agent's definition, valid for the rest of the run."""

    instructions: str | None = None
    """Text of its instructions; None if the definition states the text itself."""
    tools: tuple[ToolDefinition, ...] | None = None
    """Definitions of the agent's own tools, in order; None if the definition lists them itself."""


class RunStarted(_Entry, frozen=True, kw_only=True, tag="run.started"):
    run_id: str
    agent: str
    agent_hash: str
    model: str
    mode: Mode
    cwd: str
    input: Message
    """Prompt as the model sees it."""
    messages: tuple[Message, ...] = ()
    """The agent's own first messages, before the prompt."""
    settings: Settings = Settings()
    limits: Limits = Limits()
    inputs: JsonText = "{}"
    output: JsonText | None = None
    """Output schema as given, if it differs from the one in `settings`: for types that are not
    objects, and for output passed to a tool.
    """
    session_id: str | None = None
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = msgspec.field(default_factory=dict[str, "str | int | float | bool"])
    past: int | None = None
    """Written by older versions: number of the session's messages when it began.

    None: all that were in view at its position in the session.
    """
    late: dict[str, int] | None = None
    """Late results known when the run began, as `SessionView.late`; None if an older version wrote
    this, and the clock decides.
    """
    on_ask: OnAsk = "deny"
    on_unknown: OnUnknown = "tell"
    fork: Fork | None = None
    """Origin of a forked run."""
    imported: Time | None = None
    """Time of its import from a file without a valid signature; None for a run of this journal."""
    passing: tuple[str, ...] = ()
    """Temporary blocks of its system prompt, which the next runs of its session send too."""
    evaluated: Evaluated | None = None
    """None if the definition has nothing to evaluate, or if its first driver evaluates it."""
    batch: str = ""
    """Name of the batch of runs whose requests go out with this run's; empty if there is none."""
    schema: int = msgspec.field(default_factory=lambda: SCHEMA)
    """Always written: an omitted default would be read as the reader's own version."""


class ModelRequested(_Entry, frozen=True, kw_only=True, tag="model.requested"):
    """Start of an attempt.

    Attempts after the first are appended before their wait, and void the output of the previous
    one.
    """

    turn: int
    attempt: int = 1
    reserved: Reserved | None = None
    """Maximum cost of the attempt; None without a cost limit."""
    last: Outcome | None = None
    """Limit that makes this turn the last one."""
    failed: ErrorInfo | None = None
    """Error of the previous attempt; None if it was lost with its process."""
    wait_s: float = 0.0
    max_tokens: int | None = None
    """Limit on the response, if the run's budget leaves less than its settings request."""
    clamped_by: Outcome | None = None
    """The limit that leaves less. If `max_tokens` is set without it, that is the token limit."""
    spent: Usage | None = None
    """Known usage of the failed attempt before this one, by the model of that attempt."""
    spent_usd: float | None = None
    """Cost of that usage; None if its price was unknown."""
    free: bool = False
    """True if the provider refused or never received the failed attempt, so it cost nothing."""
    view: View | None = None
    """Messages that the model sees, as a view of the last request's and the new ones; None: all."""
    without: str | None = None
    """Setting that the provider refused by name; the run continues without it."""


class ModelResponded(_Entry, frozen=True, kw_only=True, tag="model.responded"):
    turn: int
    attempt: int
    message: Message
    usage: Usage
    cost_usd: float | None = None
    """Cost at the prices of that day; None if no price was known."""
    stop_reason: StopReason | None
    """Stop reason; None if the response was cut off by the end of the run."""
    raw_stop_reason: str = ""
    response_id: str = ""
    model: str = ""
    provider_data: JsonText | None = None
    context_tokens: int | None = None
    """Tokens of the conversation after it, if `usage` sums several passes of a server's own tools;
    None: as in `usage`; 0: unknown.
    """
    results_only: bool = False
    """True if only the results of its calls may follow, because a program at the provider waits for
    them.
    """
    withdraws: bool = False
    """True for a refusal after which the provider refuses all further requests, so that the
    exchange must be withdrawn.
    """
    hook: str | None = None
    """Name of the hook that answered instead of the model; no request was sent."""
    details: ResponseDetails | None = None


class ModelBatched(_Entry, frozen=True, kw_only=True, tag="model.batched"):
    """Place of the request in a batch of the provider: once before the submission of the batch, and
    again with its id. The next driver waits for the same batch.
    """

    custom_id: str
    batch_id: str = ""
    """The provider's id of the batch; empty if the provider has not accepted it yet."""


class ToolStarted(_Entry, frozen=True, kw_only=True, tag="tool.started"):
    call_id: str
    name: str
    arguments_json: JsonText
    effect: Effect
    key: str
    """Idempotency key: the same for every attempt of this call."""
    attempt: int = 1
    polls: bool = False
    """True if the tool polls work in progress, so that equal results do not count as a loop."""
    message_id: str = ""
    """Id of the message that contains the call; empty if an older version wrote this."""


class ToolFinished(_Entry, frozen=True, kw_only=True, tag="tool.finished"):
    """The one result of a call, including calls that were refused and never started."""

    status: Literal["ok", "error", "denied", "cancelled", "unknown"]
    result: ToolResult
    duration_ms: float = 0.0
    started: bool = True
    """False if the call was refused before its start, and therefore has no tool.started."""
    ends_run: bool = False
    """True if the tool ended the run with an error."""
    done: JsonText | None = None
    """Output with which the tool ended the run, or None."""
    cut_by: Outcome | None = None
    """Limit that refused the call."""
    completes: bool = False
    """True if the call completes the run with its arguments as the output."""
    hands_to: str = ""
    """Name of the agent that continues the run after this turn."""
    blocked: str = ""
    """Reason of a hook to end the run as `refused` because of the result, or empty."""
    message_id: str = ""
    """As in tool.started."""


class ToolLate(_Entry, frozen=True, kw_only=True, tag="tool.late"):
    """A result that arrived after `unknown`: a message to the model that never replaces a result.
    With a status, it becomes the result of a call that is still open.
    """

    call_id: str
    text: str
    status: Literal["ok", "error"] | None = None
    """Status of a timely result; None: unknown, or written by an older version."""


class ApprovalAsked(_Entry, frozen=True, kw_only=True, tag="approval.asked"):
    call_id: str
    name: str
    arguments_json: JsonText
    reason: str
    deferred: bool = False
    """True if no approval is needed: the call has started, and its result comes from outside."""


class ApprovalAnswered(_Entry, frozen=True, kw_only=True, tag="approval.answered"):
    call_id: str
    decision: Literal["allow", "deny"]
    by: str
    reason: str = ""
    arguments_json: JsonText | None = None
    """Arguments that a user substituted for the model's."""


class InputAdded(_Entry, frozen=True, kw_only=True, tag="input.added"):
    message: Message
    by: Literal["user", "runtime", "hook"]
    mends: bool = False
    """True if the message lists errors of the previous answer, which the model must correct."""


class ModelSwitched(_Entry, frozen=True, kw_only=True, tag="model.switched"):
    """Switch to another model; precedes that model's first attempt."""

    model: str
    before: str = ""
    why: str = ""


class AgentSwitched(_Entry, frozen=True, kw_only=True, tag="agent.switched"):
    """Handoff to another agent, which continues the run; precedes its first request."""

    agent: str
    before: str
    """Name of the agent that handed over."""
    agent_hash: str
    model: str
    settings: Settings = Settings()
    evaluated: Evaluated | None = None
    """As in run.started, for the next agent."""
    passing: tuple[str, ...] = ()
    """As in run.started, for the next agent."""
    view: View | None = None
    """Messages that the next agent sees in this run; None: all."""


class Compaction(_Entry, frozen=True, kw_only=True, tag="compaction"):
    receipt: JsonText


class CancelAsked(_Entry, frozen=True, kw_only=True, tag="cancel.asked"):
    by: str


class RunResumed(_Entry, frozen=True, kw_only=True, tag="run.resumed"):
    """Takeover by a new driver. Later appends of the previous one are rejected."""

    fence: int
    agent: str
    agent_hash: str
    model: str
    asked: str | None = None
    """Model to use from now on, if this driver cannot use the one that answered last."""
    mode: Mode
    cwd: str
    limits: Limits | None = None
    """Limits from now on, as in run.started; None: unchanged."""
    failed_over: bool = False
    """True if the database has failed over since the previous driver, whose newest entries may be
    missing.
    """
    evaluated: Evaluated | None = None
    """Set by the first driver of a queued run; None: unchanged."""


class RunFinished(_Entry, frozen=True, kw_only=True, tag="run.finished"):
    outcome: Outcome
    turns: int
    tool_calls: int
    usage: Usage
    cost_usd: float | None = None
    spending: tuple[Spending, ...] = ()
    """Breakdown of `usage` and `cost_usd`."""
    total: RunTotals | None = None
    """Totals of the run and its children.

    None: it has none, or an older version wrote this.
    """
    duration_s: float
    text: str = ""
    output: JsonText = "null"
    validated: bool = False
    open_turn: int | None = None
    """Turn that was cut off or closed by the end."""
    free: bool | None = None
    """True if the attempt that failed in the end cost nothing, False if it may have cost its whole
    reservation; None if no attempt failed, or if an older version wrote the end.
    """
    error: ErrorInfo | None = None

    @property
    def is_free(self) -> bool:
        """True if the attempt in progress, if any, cost nothing."""
        refused = self.error is not None and self.error.status is not None
        return refused if self.free is None else self.free


Entry: TypeAlias = (
    RunStarted
    | ModelRequested
    | ModelResponded
    | ModelBatched
    | ToolStarted
    | ToolFinished
    | ToolLate
    | ApprovalAsked
    | ApprovalAnswered
    | InputAdded
    | ModelSwitched
    | AgentSwitched
    | Compaction
    | CancelAsked
    | RunResumed
    | RunFinished
)


class Record(Value, frozen=True, kw_only=True):
    """An entry with its position."""

    seq: int
    """Sequence number from 1, without gaps."""
    entry: Entry
