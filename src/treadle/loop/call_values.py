"""Tool calls on the way to their results: ready to run, held for a person, deferred or refused.

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
"""Raise AgentError(busy) unless the run is still this driver's."""


class Ready(Struct, frozen=True, kw_only=True):
    """A call that may start, its arguments validated."""

    call: ToolCall
    tool: Tool[Any]
    arguments: Any
    attempt: int = 1
    started: bool = False
    """True if a driver that died has journaled its start; that entry covers this attempt too."""
    approved: bool = False
    """True if a person approved this very call."""
    changed: str = ""
    """Author of changed arguments, for the note to the model."""
    places: Mapping[str, str] = {}
    """Real locations of the call's paths at the time of the decision."""
    looks_only: bool = False
    """`Decision.looks_only`: the call needs no write access and no network."""
    stays_confined: bool = False
    """True if only the sandbox can hide a file that a rule covers: a person's approval does not
    take the call outside.
    """
    verify: Verify | None = None
    """Verifies ownership before a `once` call that had to wait for a thread."""


class RefusedCall(Struct, frozen=True, kw_only=True):
    """A call that never starts, with the result that gives the reason."""

    call: ToolCall
    finished: ToolFinished
    unapproved: bool = False
    """True if the call was refused for lack of an approver."""


class HeldCall(Struct, frozen=True, kw_only=True):
    """A call that waits for a person, and makes its run wait."""

    call: ToolCall
    reason: str
    parallel: bool = True
    asked: bool = False
    """True if the question is in the journal."""


class Deferred(Struct, frozen=True):
    """A started call whose result will come from outside; the run waits for it."""

    reason: str


Prepared: TypeAlias = Ready | RefusedCall | HeldCall
"""A call that is looked up, validated and decided."""


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
    """Mark a call with changed arguments, so that the model sees the change with its result."""
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
    """Return a result's text with a note on the changed arguments, for the model."""
    return f"[{whom} changed the arguments to {arguments_json}]\n{text}"
