"""The events of a run, in the order in which subscribers receive them. docs/command-line.md lists
those of `stream-json`.

Durable events are projections of journal entries (journal.py) and carry `id`; deltas are lossy and
do not. Nothing here says how events reach anybody (hub.py). Entry: `Event`.

    run_start
      turn_start
        reasoning_start reasoning_delta* reasoning_end · text_delta* · tool_call_delta*   (of one
                                                                                          attempt;
                                                                                          `retry`
                                                                                          voids
                                                                                          them)
        usage message tool_call*
        tool_call_start tool_progress* tool_call_end                                      (per call;
                                                                                          calls
                                                                                          interleave)
      turn_end
    output? error? run_end                                                                (always,
                                                                                          and last)
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from treadle.messages.message import Message
from treadle.messages.metrics import RunTotals
from treadle.messages.response_details import ResponseDetails
from treadle.types import Effect, Outcome, Time, Usage, Value


class _Event(Value, frozen=True, kw_only=True, omit_defaults=False, tag_field="type"):
    run_id: str
    session_id: str | None
    seq: int
    """Rises by one with each event of this process's run."""
    at: Time
    id: str | msgspec.UnsetType = msgspec.UNSET
    """`ENTRY.K`: the journal's sequence and the place among that entry's events; only on durable
    events.
    """
    parent_run_id: str | msgspec.UnsetType = msgspec.UNSET


class RunStart(_Event, frozen=True, kw_only=True, tag="run_start"):
    """First of all."""

    agent: str
    model: str


class TurnStart(_Event, frozen=True, kw_only=True, tag="turn_start"):
    turn: int
    """From 1."""


class TurnEnd(_Event, frozen=True, kw_only=True, tag="turn_end"):
    """After the last result of the turn, or where the run ends inside it."""

    turn: int


class _Delta(_Event, frozen=True, kw_only=True):
    message_id: str
    attempt: int
    """From 1. `retry`, or `run_end` without the message, voids an attempt's deltas."""


class TextDelta(_Delta, frozen=True, kw_only=True, tag="text_delta"):
    text: str


class ReasoningStart(_Delta, frozen=True, kw_only=True, tag="reasoning_start"):
    pass


class ReasoningDelta(_Delta, frozen=True, kw_only=True, tag="reasoning_delta"):
    text: str


class ReasoningEnd(_Delta, frozen=True, kw_only=True, tag="reasoning_end"):
    """Follows every reasoning_start, also where the attempt is cut."""


class ToolCallDelta(_Delta, frozen=True, kw_only=True, tag="tool_call_delta"):
    call_id: str
    name: str
    arguments: str
    """A piece of JSON text; the first may be empty."""


class ToolCallAsked(_Event, frozen=True, kw_only=True, tag="tool_call"):
    """The model asked; execution begins with tool_call_start, or never."""

    call_id: str
    name: str
    arguments: dict[str, object] | str
    """An object; the model's text where it is not one."""


class ApprovalRequested(_Event, frozen=True, kw_only=True, tag="approval_requested"):
    call_id: str
    name: str
    arguments: dict[str, object] | str
    reason: str


class ApprovalResolved(_Event, frozen=True, kw_only=True, tag="approval_resolved"):
    call_id: str
    decision: Literal["allow", "deny"]
    by: str


class ToolCallStart(_Event, frozen=True, kw_only=True, tag="tool_call_start"):
    """The start is in the journal; the call runs now."""

    call_id: str
    name: str
    effect: Effect


class ToolProgress(_Event, frozen=True, kw_only=True, tag="tool_progress"):
    call_id: str
    text: str
    done: float | msgspec.UnsetType = msgspec.UNSET
    total: float | msgspec.UnsetType = msgspec.UNSET


class ToolCallEnd(_Event, frozen=True, kw_only=True, tag="tool_call_end"):
    """One for each tool_call_start.

    A call that was refused before it could start has neither: a `warning` says why.
    """

    call_id: str
    name: str
    result: str
    is_error: bool
    unknown: bool
    duration_ms: float
    exit_code: int | msgspec.UnsetType = msgspec.UNSET
    """Of the command that the call ran; absent for calls that run none."""

    @property
    def failed(self) -> bool:
        """True for an error, and for a command with an exit code other than 0."""
        return self.is_error or bool(self.exit_code)


class MessageAdded(_Event, frozen=True, kw_only=True, tag="message"):
    """An assistant message as stored; after its append, before its tool_call_start."""

    message: Message


class Retry(_Event, frozen=True, kw_only=True, tag="retry"):
    """Attempt `attempt` failed and is void; another follows after `wait_s`."""

    attempt: int
    wait_s: float
    kind: str
    """Of its error; `lost` where its process died, `hook` where a hook put another response in its
    place.
    """


class UsageReported(_Event, frozen=True, kw_only=True, tag="usage"):
    """Of that response."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cache_write_1h_tokens: int
    """Part of `cache_write_tokens`."""
    web_searches: int
    """By the provider."""
    cost_usd: float | msgspec.UnsetType = msgspec.UNSET
    """Absent where the price is not known."""
    details: ResponseDetails | msgspec.UnsetType = msgspec.UNSET
    """The provider's request id, rate limits, service tier, and why its cache was missed, where it
    reports any of these.
    """


class Warned(_Event, frozen=True, kw_only=True, tag="warning"):
    text: str
    call_id: str | msgspec.UnsetType = msgspec.UNSET
    """Of the call that was not run, where the warning says why."""


class LimitWarning(_Event, frozen=True, kw_only=True, tag="limit_warning"):
    limit: str
    left: float


class InputAdded(_Event, frozen=True, kw_only=True, tag="input_added"):
    """Text that reached the running run: a person's steering, or the runtime's own word to the
    model.
    """

    text: str


class Compacted(_Event, frozen=True, kw_only=True, tag="compaction"):
    """The view of the conversation has shrunk."""

    receipt: object
    """What left it, as JSON."""


class ChildStart(_Event, frozen=True, kw_only=True, tag="child_start"):
    """A tool of this run started a run of another agent, whose events carry `parent_run_id`."""

    child_run_id: str
    agent: str


class ChildEnd(_Event, frozen=True, kw_only=True, tag="child_end"):
    child_run_id: str
    outcome: Outcome


class OutputReady(_Event, frozen=True, kw_only=True, tag="output"):
    value: object
    validated: bool


class ErrorRaised(_Event, frozen=True, kw_only=True, tag="error"):
    kind: str
    message: str
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    status: int | msgspec.UnsetType = msgspec.UNSET


class ErrorInfo(Value, frozen=True, kw_only=True):
    """An AgentError as data, secrets taken out."""

    kind: str
    message: str
    status: int | None = None
    request_id: str | None = None


class RunEnd(_Event, frozen=True, kw_only=True, tag="run_end"):
    """Last of all, whatever happened."""

    outcome: Outcome
    text: str
    """That of the last assistant message that has some."""
    output: object
    validated: bool
    usage: Usage
    """The run's sum."""
    turns: int
    tool_calls: int
    duration_s: float
    cost_usd: float | msgspec.UnsetType = msgspec.UNSET
    """Of the responses whose price was known; absent where it was known of none."""
    total: RunTotals
    """Sums over the run and every run that it started: the figures that limits count."""
    error: ErrorInfo | msgspec.UnsetType = msgspec.UNSET


Event: TypeAlias = (
    RunStart
    | TurnStart
    | TurnEnd
    | TextDelta
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolCallDelta
    | ToolCallAsked
    | ApprovalRequested
    | ApprovalResolved
    | ToolCallStart
    | ToolProgress
    | ToolCallEnd
    | MessageAdded
    | Retry
    | UsageReported
    | Warned
    | LimitWarning
    | InputAdded
    | Compacted
    | ChildStart
    | ChildEnd
    | OutputReady
    | ErrorRaised
    | RunEnd
)
DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta)
TOOL_EVENTS = (
    ToolCallAsked,
    ApprovalRequested,
    ApprovalResolved,
    ToolCallStart,
    ToolProgress,
    ToolCallEnd,
)
