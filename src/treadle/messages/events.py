"""Events of a run, in the order in which subscribers receive them.

Durable events are projections of journal entries and have an `id`. Deltas have none, and slow
subscribers may miss some. docs/command-line.md lists the events of `stream-json`. Entry points:
`Event`.

    run_start
      turn_start
        reasoning_start reasoning_delta* reasoning_end · text_delta* · tool_call_delta*
                                                      (of one attempt; `retry` voids them)
        usage message tool_call*
        tool_call_start tool_progress* tool_call_end  (per call; calls interleave)
        handoff?                                      (another agent continues)
      turn_end
    output? error? run_end                            (always, and last)
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from treadle.messages.event import DeltaEvent, RunEvent
from treadle.messages.message import Message
from treadle.messages.metrics import RunTotals
from treadle.messages.response_details import ResponseDetails
from treadle.messages.tool_events import ApprovalRequested as ApprovalRequested
from treadle.messages.tool_events import ApprovalResolved as ApprovalResolved
from treadle.messages.tool_events import ToolCallAsked as ToolCallAsked
from treadle.messages.tool_events import ToolCallDelta as ToolCallDelta
from treadle.messages.tool_events import ToolCallEnd as ToolCallEnd
from treadle.messages.tool_events import ToolCallStart as ToolCallStart
from treadle.messages.tool_events import ToolProgress as ToolProgress
from treadle.types import Outcome, Usage, Value


class RunStart(RunEvent, frozen=True, kw_only=True, tag="run_start"):
    """First event of a run.

    Attributes:
        agent: Name of the agent.
        model: Name of the model.
    """

    agent: str
    model: str


class HandedOver(RunEvent, frozen=True, kw_only=True, tag="handoff"):
    """Emitted when another agent takes the run over, before its first request.

    Attributes:
        agent: Name of the agent that continues the run.
        before: Name of the agent that handed over.
        model: Name of the next agent's model.
    """

    agent: str
    before: str
    model: str


class TurnStart(RunEvent, frozen=True, kw_only=True, tag="turn_start"):
    """Emitted before the request of a turn is sent.

    Attributes:
        turn: Number of the turn, from 1.
    """

    turn: int


class TurnEnd(RunEvent, frozen=True, kw_only=True, tag="turn_end"):
    """Emitted after the last result of a turn, or when the run ends during the turn.

    Attributes:
        turn: Number of the turn, from 1.
    """

    turn: int


class TextDelta(DeltaEvent, frozen=True, kw_only=True, tag="text_delta"):
    """Fragment of the response's text.

    Attributes:
        text: The fragment.
    """

    text: str


class ReasoningStart(DeltaEvent, frozen=True, kw_only=True, tag="reasoning_start"):
    """Emitted when the model begins to reason."""


class ReasoningDelta(DeltaEvent, frozen=True, kw_only=True, tag="reasoning_delta"):
    """Fragment of the model's readable reasoning.

    Attributes:
        text: The fragment.
    """

    text: str


class ReasoningEnd(DeltaEvent, frozen=True, kw_only=True, tag="reasoning_end"):
    """Emitted after every reasoning_start, even if the attempt is interrupted."""


class MessageAdded(RunEvent, frozen=True, kw_only=True, tag="message"):
    """Emitted after an assistant message is journaled, and before its tool calls start.

    Attributes:
        message: The message as stored.
    """

    message: Message


class Retry(RunEvent, frozen=True, kw_only=True, tag="retry"):
    """Emitted when an attempt failed. Discard its deltas; another attempt follows.

    Attributes:
        attempt: Number of the failed attempt, from 1.
        wait_s: Seconds until the next attempt.
        kind: Kind of the error; `lost` if the process died, `hook` if a hook replaced the response.
    """

    attempt: int
    wait_s: float
    kind: str


class UsageReported(RunEvent, frozen=True, kw_only=True, tag="usage"):
    """Usage of one response.

    Attributes:
        input_tokens: Input that is neither read from nor written to the cache.
        output_tokens: Output, including reasoning.
        cache_read_tokens: Input read from the provider's prompt cache.
        cache_write_tokens: Input written to the provider's prompt cache.
        reasoning_tokens: Part of the output that went into reasoning.
        cache_write_1h_tokens: Part of `cache_write_tokens` that is kept for an hour.
        web_searches: Number of web searches run by the provider.
        cost_usd: Cost in USD; absent if the price is unknown.
        details: Request id, rate limits, service tier and reason for a cache miss, if the provider
            reports them.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cache_write_1h_tokens: int
    web_searches: int
    cost_usd: float | msgspec.UnsetType = msgspec.UNSET
    details: ResponseDetails | msgspec.UnsetType = msgspec.UNSET


class Warned(RunEvent, frozen=True, kw_only=True, tag="warning"):
    """A warning for people. The run continues.

    Attributes:
        text: The warning.
        call_id: Id of the call that was not run, if the warning says why.
    """

    text: str
    call_id: str | msgspec.UnsetType = msgspec.UNSET


class LimitWarning(RunEvent, frozen=True, kw_only=True, tag="limit_warning"):
    """Emitted when most of a limit is used.

    Attributes:
        limit: Name of the limit, as in `Limits`.
        left: Remaining amount, in the limit's unit.
    """

    limit: str
    left: float


class InputAdded(RunEvent, frozen=True, kw_only=True, tag="input_added"):
    """Text added to an active run: steering by a person, or a message from the runtime to the
    model.

    Attributes:
        text: The text.
    """

    text: str


class Compacted(RunEvent, frozen=True, kw_only=True, tag="compaction"):
    """Emitted after a compaction, which reduces the conversation that the model sees.

    Attributes:
        receipt: Kind of the compaction and everything needed to repeat it, as JSON.
    """

    receipt: object


class ChildStart(RunEvent, frozen=True, kw_only=True, tag="child_start"):
    """Emitted when a tool of this run starts a child. The child's events have `parent_run_id`.

    Attributes:
        child_run_id: Id of the child.
        agent: Name of the child's agent.
    """

    child_run_id: str
    agent: str


class ChildEnd(RunEvent, frozen=True, kw_only=True, tag="child_end"):
    """Emitted when a child of this run ends.

    Attributes:
        child_run_id: Id of the child.
        outcome: Outcome of the child.
    """

    child_run_id: str
    outcome: Outcome


class OutputReady(RunEvent, frozen=True, kw_only=True, tag="output"):
    """The typed output of the run.

    Attributes:
        value: The output as JSON data.
        validated: True if the output satisfies the requested type.
    """

    value: object
    validated: bool


class ErrorRaised(RunEvent, frozen=True, kw_only=True, tag="error"):
    """The error that ends the run.

    Attributes:
        kind: Category of the error.
        message: Description for people.
        request_id: The provider's id of the request.
        status: HTTP status of the provider's response.
    """

    kind: str
    message: str
    request_id: str | msgspec.UnsetType = msgspec.UNSET
    status: int | msgspec.UnsetType = msgspec.UNSET


class ErrorInfo(Value, frozen=True, kw_only=True):
    """An AgentError as data, with secrets redacted.

    Attributes:
        kind: Category of the error.
        message: Description for people.
        status: HTTP status of the provider's response.
        request_id: The provider's id of the request.
    """

    kind: str
    message: str
    status: int | None = None
    request_id: str | None = None


class RunEnd(RunEvent, frozen=True, kw_only=True, tag="run_end"):
    """Last event of every run.

    Attributes:
        outcome: Outcome of the run.
        text: Text of the last assistant message that has any.
        output: The typed output as JSON data, or the text.
        validated: True if the output satisfies the requested type.
        usage: Total usage of the run.
        turns: Number of accepted responses.
        tool_calls: Number of calls executed.
        duration_s: Active time of the run in seconds.
        cost_usd: Cost in USD of the responses with a known price; absent if there are none.
        total: Totals of the run and its descendants. Limits apply to these.
        error: The error, if one ended the run.
    """

    outcome: Outcome
    text: str
    output: object
    validated: bool
    usage: Usage
    turns: int
    tool_calls: int
    duration_s: float
    cost_usd: float | msgspec.UnsetType = msgspec.UNSET
    total: RunTotals
    error: ErrorInfo | msgspec.UnsetType = msgspec.UNSET


Event: TypeAlias = (
    RunStart
    | HandedOver
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
"""Any event of a run."""
DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta)
"""Delta events. They have no id and are not stored."""
TOOL_EVENTS = (
    ToolCallAsked,
    ApprovalRequested,
    ApprovalResolved,
    ToolCallStart,
    ToolProgress,
    ToolCallEnd,
)
"""Events of tool calls."""
