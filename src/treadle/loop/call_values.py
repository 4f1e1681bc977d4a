"""States of a tool call before its result: ready to run, held for approval, deferred or refused.

Entry points: `Ready`, `HeldCall`, `RefusedCall`, `Deferred`, `refused`, `changed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from treadle.journal.entries import ToolFinished
from treadle.messages.message import JsonText, ToolCall, ToolResult
from treadle.tools.tool import Tool, failure
from treadle.types import Outcome, now

PERSON, HOOK = "a person", "a hook"

Verify: TypeAlias = Callable[[], Awaitable[None]]
"""Function that raises AgentError(busy) if another driver has taken over the run."""


class Ready(Struct, frozen=True, kw_only=True):
    """A call that may start, with validated arguments."""

    call: ToolCall
    tool: Tool[Any]
    arguments: Any
    attempt: int = 1
    started: bool = False
    """True if a dead driver has journaled the call's start, which also covers this attempt."""
    approved: bool = False
    """True if the user approved this call."""
    changed: str = ""
    """Author of changed arguments, for a note to the model: `PERSON`, `HOOK` or empty."""
    places: Mapping[str, str] = {}
    """Real locations of the call's paths when it was decided."""
    looks_only: bool = False
    """`Decision.looks_only`: the call needs no write access and no network."""
    stays_confined: bool = False
    """True if only the sandbox can enforce a rule on files; the call then stays in it even after
    approval.
    """
    verify: Verify | None = None
    """Verifies the driver before a `once` call that had to wait for a thread."""


class RefusedCall(Struct, frozen=True, kw_only=True):
    """A call that does not start, with the reason as its result."""

    call: ToolCall
    finished: ToolFinished
    unapproved: bool = False
    """True if the call was refused because there is no approver."""


class HeldCall(Struct, frozen=True, kw_only=True):
    """A call that waits for approval, and with it the run."""

    call: ToolCall
    reason: str
    parallel: bool = True
    asked: bool = False
    """True if the request for approval is already journaled."""


class Deferred(Struct, frozen=True):
    """A started call whose result will come from outside. The run waits for it."""

    reason: str


Prepared: TypeAlias = Ready | RefusedCall | HeldCall
"""A call after lookup, validation and decision."""


def refused(
    call: ToolCall,
    text: str,
    *,
    status: Literal["ok", "error", "denied"] = "error",
    unapproved: bool = False,
    cut_by: Outcome | None = None,
) -> RefusedCall:
    result = (
        ToolResult(call_id=call.id, name=call.name, content=text)
        if status == "ok"
        else failure(call.id, call.name, text)
    )
    finished = ToolFinished(at=now(), status=status, result=result, started=False, cut_by=cut_by)
    return RefusedCall(call=call, finished=finished, unapproved=unapproved)


def changed(prepared: Prepared, whom: str) -> Prepared:
    """Mark a call whose arguments `whom` changed, so that its result includes a note."""
    match prepared:
        case Ready():
            return structs.replace(prepared, changed=whom)
        case RefusedCall(call=call, finished=finished):
            result = structs.replace(
                finished.result, content=changed_by(whom, call.arguments_json, finished.result.text)
            )
            return structs.replace(prepared, finished=structs.replace(finished, result=result))
        case HeldCall():
            return prepared


def changed_by(whom: str, arguments_json: JsonText, text: str) -> str:
    """Append a note on the changed arguments to the text of a result."""
    return f"[{whom} changed the arguments to {arguments_json}]\n{text}"
