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


class TurnStart(RunEvent, frozen=True, kw_only=True, tag="turn_start"):
    """A turn begins: the next request is about to be sent.

    Attributes:
        turn: Turn number, from 1.
    """

    turn: int


class TurnEnd(RunEvent, frozen=True, kw_only=True, tag="turn_end"):
    """Emitted after the last result of a turn, or when the run ends within it.

    Attributes:
        turn: Number of the turn, from 1.
    """

    turn: int


class TextDelta(DeltaEvent, frozen=True, kw_only=True, tag="text_delta"):
    """Piece of the answer's text.

    Attributes:
        text: The text.
    """

    text: str


class ReasoningStart(DeltaEvent, frozen=True, kw_only=True, tag="reasoning_start"):
    """The model begins to reason."""


class ReasoningDelta(DeltaEvent, frozen=True, kw_only=True, tag="reasoning_delta"):
    """Piece of the model's readable reasoning.

    Attributes:
        text: The text.
    """

    text: str


class ReasoningEnd(DeltaEvent, frozen=True, kw_only=True, tag="reasoning_end"):
    """Follows every reasoning_start, even if the attempt is interrupted."""


class MessageAdded(RunEvent, frozen=True, kw_only=True, tag="message"):
    """An assistant message as stored, emitted after its append and before its tool_call_start.

    Attributes:
        message: The message.
    """

    message: Message


class Retry(RunEvent, frozen=True, kw_only=True, tag="retry"):
    """Attempt `attempt` failed and is void. Another one follows after `wait_s` seconds.

    Attributes:
        attempt: Number of the failed attempt, from 1.
        wait_s: Seconds until the next attempt.
        kind: Error kind; `lost` if the process died, `hook` if a hook replaced the response.
    """

    attempt: int
    wait_s: float
    kind: str


class UsageReported(RunEvent, frozen=True, kw_only=True, tag="usage"):
    """Usage of a response.

    Attributes:
        input_tokens: Input that is neither read from nor written to the cache.
        output_tokens: Output, reasoning included.
        cache_read_tokens: Input read from the provider's prompt cache.
        cache_write_tokens: Input written to the provider's prompt cache.
        reasoning_tokens: Part of the output that went into reasoning.
        cache_write_1h_tokens: Part of `cache_write_tokens` that is kept for an hour.
        web_searches: Number of web searches run by the provider.
        cost_usd: Cost in USD; absent if the price is not known.
        details: Request id, rate limits, service tier and cache miss reason, as far as the provider
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
    """Something a person should know, although the run continues.

    Attributes:
        call_id: Id of the call that was not run, if the warning gives the reason.

    Attributes:
        text: Text for people.
    """

    text: str
    call_id: str | msgspec.UnsetType = msgspec.UNSET


class LimitWarning(RunEvent, frozen=True, kw_only=True, tag="limit_warning"):
    """Most of a limit is used.

    Attributes:
        limit: Name of the limit, as in `Limits`.
        left: Amount that is left.
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
    """The visible part of the conversation was reduced.

    Attributes:
        receipt: Removed content, as JSON.
    """

    receipt: object


class ChildStart(RunEvent, frozen=True, kw_only=True, tag="child_start"):
    """A tool of this run started a run of another agent. Its events carry `parent_run_id`.

    Attributes:
        child_run_id: Id of the run that was started.
        agent: Name of its agent.
    """

    child_run_id: str
    agent: str


class ChildEnd(RunEvent, frozen=True, kw_only=True, tag="child_end"):
    """A run that this one started has ended.

    Attributes:
        child_run_id: Id of the run that ended.
        outcome: Reason why it ended.
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
    """An error ends the run.

    Attributes:
        kind: Category of the error.
        message: Description for a person.
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
        message: Description for a person.
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
        outcome: Reason why the run ended.
        text: Text of the last assistant message that has any.
        output: The typed output, or the text, as JSON data.
        validated: True if the output satisfies the requested type.
        usage: Total usage of the run.
        turns: Number of accepted responses.
        tool_calls: Number of calls executed.
        duration_s: Active time of the run in seconds.
        cost_usd: Cost of the responses with a known price; absent if there are none.
        total: Totals of the run and all runs it started. Limits count these.
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
"""Events that are pieces of a response; they have no id and are not stored."""
TOOL_EVENTS = (
    ToolCallAsked,
    ApprovalRequested,
    ApprovalResolved,
    ToolCallStart,
    ToolProgress,
    ToolCallEnd,
)
"""Events of tool calls."""
