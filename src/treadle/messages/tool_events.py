"""Events of tool calls and of the approvals they need. Entry points: `ToolCallEnd`."""

from __future__ import annotations

from typing import Literal

import msgspec

from treadle.messages.event import DeltaEvent, RunEvent
from treadle.types import Effect


class ToolCallDelta(DeltaEvent, frozen=True, kw_only=True, tag="tool_call_delta"):
    """Piece of the arguments of a call, while the model writes them.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        arguments: Fragment of JSON text; the first may be empty.
    """

    call_id: str
    name: str
    arguments: str


class ToolCallAsked(RunEvent, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call requested by the model. Execution, if any, begins with tool_call_start.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        arguments: A JSON object, or the model's text if it is not one.
    """

    call_id: str
    name: str
    arguments: dict[str, object] | str


class ApprovalRequested(RunEvent, frozen=True, kw_only=True, tag="approval_requested"):
    """A call needs the approval of a person.

    Attributes:
        call_id: Id of the call, which an answer refers to.
        name: Name of the tool.
        arguments: Arguments of the call; the model's text if it is not a JSON object.
        reason: Reason why the call needs an approval.
    """

    call_id: str
    name: str
    arguments: dict[str, object] | str
    reason: str


class ApprovalResolved(RunEvent, frozen=True, kw_only=True, tag="approval_resolved"):
    """A person, or a rule in their place, has decided about a call.

    Attributes:
        call_id: Id of the call.
        decision: The decision.
        by: Origin of the decision, such as `user` or `rule`.
    """

    call_id: str
    decision: Literal["allow", "deny"]
    by: str


class ToolCallStart(RunEvent, frozen=True, kw_only=True, tag="tool_call_start"):
    """The start of the call is journaled, and it runs now.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        effect: Effect of the tool.
    """

    call_id: str
    name: str
    effect: Effect


class ToolProgress(RunEvent, frozen=True, kw_only=True, tag="tool_progress"):
    """Progress of a call, as the tool reports it.

    Attributes:
        call_id: Id of the call.
        text: Text for people.
        done: Amount of work that is done.
        total: Amount of work in total.
    """

    call_id: str
    text: str
    done: float | msgspec.UnsetType = msgspec.UNSET
    total: float | msgspec.UnsetType = msgspec.UNSET


class ToolCallEnd(RunEvent, frozen=True, kw_only=True, tag="tool_call_end"):
    """Follows each tool_call_start.

    A call that is rejected before it starts has neither; a `warning` gives the reason.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        result: Text of the result, as the model reads it.
        is_error: True if the call failed.
        unknown: True if the effect of the call is unknown.
        duration_ms: Duration of the call in milliseconds.
        exit_code: Exit code of the command that the call ran; absent for other calls.
    """

    call_id: str
    name: str
    result: str
    is_error: bool
    unknown: bool
    duration_ms: float
    exit_code: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def failed(self) -> bool:
        """True for an error, and for a command with a nonzero exit code."""
        return self.is_error or bool(self.exit_code)
