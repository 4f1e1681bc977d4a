"""Events of tool calls and of the approvals they need. Entry points: `ToolCallEnd`."""

from __future__ import annotations

from typing import Literal

import msgspec

from treadle.messages.event import DeltaEvent, RunEvent
from treadle.types import Effect


class ToolCallDelta(DeltaEvent, frozen=True, kw_only=True, tag="tool_call_delta"):
    """Fragment of a call's arguments, while the model writes them.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        arguments: Fragment of JSON text; the first may be empty.
    """

    call_id: str
    name: str
    arguments: str


class ToolCallAsked(RunEvent, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call that the model requests. If it is executed, a tool_call_start follows.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        arguments: Arguments of the call; the model's text if it is not a JSON object.
        message_id: Id of the message that contains the call.
    """

    call_id: str
    name: str
    arguments: dict[str, object] | str
    message_id: str = ""


class ApprovalRequested(RunEvent, frozen=True, kw_only=True, tag="approval_requested"):
    """Emitted when a call needs a person's approval.

    Attributes:
        call_id: Id of the call, to quote in the answer.
        name: Name of the tool.
        arguments: Arguments of the call; the model's text if it is not a JSON object.
        reason: Why the call needs approval.
    """

    call_id: str
    name: str
    arguments: dict[str, object] | str
    reason: str


class ApprovalResolved(RunEvent, frozen=True, kw_only=True, tag="approval_resolved"):
    """Emitted when an approval is decided, by a person or by a rule.

    Attributes:
        call_id: Id of the call.
        decision: `allow` or `deny`.
        by: Author of the decision, such as `user` or `rule`.
    """

    call_id: str
    decision: Literal["allow", "deny"]
    by: str


class ToolCallStart(RunEvent, frozen=True, kw_only=True, tag="tool_call_start"):
    """Emitted when a call starts, after its start is journaled.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        effect: Effect of the tool.
        message_id: Id of the message that contains the call.
    """

    call_id: str
    name: str
    effect: Effect
    message_id: str = ""


class ToolProgress(RunEvent, frozen=True, kw_only=True, tag="tool_progress"):
    """Progress of a call, reported by its tool.

    Attributes:
        call_id: Id of the call.
        text: Description for people.
        done: Work done so far, in any unit.
        total: Total work, in the same unit.
    """

    call_id: str
    text: str
    done: float | msgspec.UnsetType = msgspec.UNSET
    total: float | msgspec.UnsetType = msgspec.UNSET


class ToolCallEnd(RunEvent, frozen=True, kw_only=True, tag="tool_call_end"):
    """End of a call: after its tool_call_start, or of a call that was not run.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        result: Text of the result, as the model reads it.
        is_error: True if the call failed.
        unknown: True if it is unknown whether the call took effect.
        duration_ms: Duration of the call in milliseconds.
        refused: True if the call was not run: denied, invalid, beyond a limit, or given a result.
        exit_code: Exit code of the command that the call ran; absent for other calls.
        reason: Why the call was refused; absent for other calls.
        message_id: Id of the message that contains the call.
    """

    call_id: str
    name: str
    result: str
    is_error: bool
    unknown: bool
    duration_ms: float
    refused: bool = False
    exit_code: int | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    message_id: str = ""

    @property
    def failed(self) -> bool:
        """True for an error, and for a command with a nonzero exit code."""
        return self.is_error or bool(self.exit_code)
