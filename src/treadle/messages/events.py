"""Events of a run, in the order in which subscribers receive them. docs/command-line.md lists those
of `stream-json`.

Durable events are projections of journal entries (journal.py) and carry `id`; deltas are lossy and
do not. hub.py delivers them. Entry points: `Event`.

    run_start
      turn_start
        reasoning_start reasoning_delta* reasoning_end · text_delta* · tool_call_delta*
                                                      (of one attempt; `retry` voids them)
        usage message tool_call*
        tool_call_start tool_progress* tool_call_end  (per call; calls interleave)
      turn_end
    output? error? run_end                            (always, and last)
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
    """Increases by one with each event of the run in this process."""
    at: Time
    id: str | msgspec.UnsetType = msgspec.UNSET
    """`ENTRY.K`: the journal sequence number, and the event's index within that entry. Only on
    durable events.
    """
    parent_run_id: str | msgspec.UnsetType = msgspec.UNSET


class RunStart(_Event, frozen=True, kw_only=True, tag="run_start"):
    """First event of a run."""

    agent: str
    model: str


class TurnStart(_Event, frozen=True, kw_only=True, tag="turn_start"):
    turn: int
    """Turn number, from 1."""


class TurnEnd(_Event, frozen=True, kw_only=True, tag="turn_end"):
    """Emitted after the last result of a turn, or when the run ends within it."""

    turn: int


class _Delta(_Event, frozen=True, kw_only=True):
    message_id: str
    attempt: int
    """Attempt number, from 1. `retry`, or `run_end` without the message, voids an attempt's
    deltas.
    """


class TextDelta(_Delta, frozen=True, kw_only=True, tag="text_delta"):
    text: str


class ReasoningStart(_Delta, frozen=True, kw_only=True, tag="reasoning_start"):
    pass


class ReasoningDelta(_Delta, frozen=True, kw_only=True, tag="reasoning_delta"):
    text: str


class ReasoningEnd(_Delta, frozen=True, kw_only=True, tag="reasoning_end"):
    """Follows every reasoning_start, even if the attempt is interrupted."""


class ToolCallDelta(_Delta, frozen=True, kw_only=True, tag="tool_call_delta"):
    call_id: str
    name: str
    arguments: str
    """Fragment of JSON text; the first may be empty."""


class ToolCallAsked(_Event, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call requested by the model. Execution, if any, begins with tool_call_start."""

    call_id: str
    name: str
    arguments: dict[str, object] | str
    """A JSON object, or the model's text if it is not one."""


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
    """The start of the call is journaled, and it runs now."""

    call_id: str
    name: str
    effect: Effect


class ToolProgress(_Event, frozen=True, kw_only=True, tag="tool_progress"):
    call_id: str
    text: str
    done: float | msgspec.UnsetType = msgspec.UNSET
    total: float | msgspec.UnsetType = msgspec.UNSET


class ToolCallEnd(_Event, frozen=True, kw_only=True, tag="tool_call_end"):
    """Follows each tool_call_start.

    A call that is rejected before it starts has neither; a `warning` gives the reason.
    """

    call_id: str
    name: str
    result: str
    is_error: bool
    unknown: bool
    duration_ms: float
    exit_code: int | msgspec.UnsetType = msgspec.UNSET
    """Exit code of the command that the call ran; absent for other calls."""

    @property
    def failed(self) -> bool:
        """True for an error, and for a command with a nonzero exit code."""
        return self.is_error or bool(self.exit_code)


class MessageAdded(_Event, frozen=True, kw_only=True, tag="message"):
    """An assistant message as stored, emitted after its append and before its tool_call_start."""

    message: Message


class Retry(_Event, frozen=True, kw_only=True, tag="retry"):
    """Attempt `attempt` failed and is void. Another one follows after `wait_s` seconds."""

    attempt: int
    wait_s: float
    kind: str
    """Error kind; `lost` if the process died, `hook` if a hook replaced the response."""


class UsageReported(_Event, frozen=True, kw_only=True, tag="usage"):
    """Usage of a response."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cache_write_1h_tokens: int
    """Part of `cache_write_tokens` that is kept for an hour."""
    web_searches: int
    """Number of web searches run by the provider."""
    cost_usd: float | msgspec.UnsetType = msgspec.UNSET
    """Cost in USD; absent if the price is not known."""
    details: ResponseDetails | msgspec.UnsetType = msgspec.UNSET
    """Request id, rate limits, service tier and cache miss reason, as far as the provider reports
    them.
    """


class Warned(_Event, frozen=True, kw_only=True, tag="warning"):
    text: str
    call_id: str | msgspec.UnsetType = msgspec.UNSET
    """Id of the call that was not run, if the warning gives the reason."""


class LimitWarning(_Event, frozen=True, kw_only=True, tag="limit_warning"):
    limit: str
    left: float


class InputAdded(_Event, frozen=True, kw_only=True, tag="input_added"):
    """Text added to an active run: steering by a person, or a message from the runtime to the
    model.
    """

    text: str


class Compacted(_Event, frozen=True, kw_only=True, tag="compaction"):
    """The visible part of the conversation was reduced."""

    receipt: object
    """Removed content, as JSON."""


class ChildStart(_Event, frozen=True, kw_only=True, tag="child_start"):
    """A tool of this run started a run of another agent. Its events carry `parent_run_id`."""

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
    """An AgentError as data, with secrets redacted."""

    kind: str
    message: str
    status: int | None = None
    request_id: str | None = None


class RunEnd(_Event, frozen=True, kw_only=True, tag="run_end"):
    """Last event of every run."""

    outcome: Outcome
    text: str
    """Text of the last assistant message that has any."""
    output: object
    validated: bool
    usage: Usage
    """Total usage of the run."""
    turns: int
    tool_calls: int
    duration_s: float
    cost_usd: float | msgspec.UnsetType = msgspec.UNSET
    """Cost of the responses with a known price; absent if there are none."""
    total: RunTotals
    """Totals of the run and all runs it started. Limits count these."""
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
