"""Results of calls that a driver did not finish: cut off, unknown, or known only later.

Entry points: `cut_result`, `late_result`, `why_unknown`.
"""

from __future__ import annotations

from treadle.journal.entries import ToolFinished
from treadle.journal.run_state import RunState
from treadle.loop.call_values import HOOK, PERSON, changed_by
from treadle.messages.message import ToolCall, ToolResult
from treadle.tools.tool import failure
from treadle.types import now

NOT_KNOWN = "It may or may not have taken effect: check before you repeat it."
STOPPED = f"The process stopped while this call was running. {NOT_KNOWN}"
ASK = "the process stopped while this call was running, and it is not known whether it took effect"
"""Reason of a question after a crash. Compared with stored reasons, so it must not change."""

FAILED_OVER = (
    "the journal's database failed over to another server since this call was requested, so it may "
    "or may not have taken effect before"
)


def cut_result(call: ToolCall, why: str, state: RunState, *, called: bool) -> ToolFinished:
    """Return the result of an open call: `unknown` if it may have taken effect. `called`: the tool
    was called, or may have been.
    """
    if (late := late_result(call, state)) is not None:
        return late
    started = state.current.starts.get(call.id)
    text, unknown = f"Not run: {why}.", False
    if started is not None and called:
        unknown = started.effect == "once"
        text = (
            f"{why} while this call was running. {NOT_KNOWN}"
            if unknown
            else f"{why} before this call was done; it may be repeated."
        )
        if call.id in state.approvals.asked:
            text = why_unknown(call, state)
    if state.current.may_have_happened(call.id):
        text, unknown = why_unknown(call, state), True
    result = failure(call.id, call.name, text, unknown=unknown)
    return ToolFinished(
        at=now(),
        status="unknown" if unknown else "cancelled",
        result=result,
        started=started is not None,
        message_id=state.current.message_id,
    )


def late_result(call: ToolCall, state: RunState) -> ToolFinished | None:
    """Return the entry for the late result of an open call; None if there is none."""
    if (late := state.current.late.get(call.id)) is None or late.status is None:
        return None
    text, started = late.text, state.current.starts.get(call.id)
    if started is not None and started.arguments_json != call.arguments_json:
        is_edited = state.approvals.edited.get(call.id) == started.arguments_json
        text = changed_by(PERSON if is_edited else HOOK, started.arguments_json, text)
    result = ToolResult(
        call_id=call.id, name=call.name, content=text, is_error=late.status == "error"
    )
    return ToolFinished(
        at=now(), status=late.status, result=result, message_id=state.current.message_id
    )


def why_unknown(call: ToolCall, state: RunState) -> str:
    """Explain a call's unknown outcome to the model, including the reason shown to the user."""
    asked = state.approvals.asked.get(call.id)
    if state.current.may_have_happened(call.id):
        why = f"{FAILED_OVER[0].upper()}{FAILED_OVER[1:]}: check before you do it again."
    elif asked is not None and asked.deferred:
        why = (
            f"Its result was to come later ({asked.reason}), but the run no longer waits for it. "
            f"{NOT_KNOWN}"
        )
    else:
        why = STOPPED if asked is None or asked.reason == ASK else asked.reason
    return (
        changed_by(PERSON, state.approvals.edited[call.id], why)
        if call.id in state.approvals.edited
        else why
    )
