"""Recovery of calls that a dead driver left open: repeats, probes or reports them as unknown.

A `once` call is repeated only if its probe or a user reports that it had no effect. Entry points:
`resume`, `recover`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from treadle.errors import AgentError
from treadle.events.feed import Feed
from treadle.events.hooks import RunBlocked
from treadle.journal.entries import (
    ApprovalAnswered,
    Entry,
    RunResumed,
    ToolFinished,
    ToolStarted,
)
from treadle.journal.journal import Append, RunWriter
from treadle.journal.run_state import RunState
from treadle.loop.answers import Answers, replace_arguments
from treadle.loop.call_values import HOOK, PERSON, HeldCall, Prepared, Ready, changed
from treadle.loop.cut_calls import ASK, FAILED_OVER, late_result, why_unknown
from treadle.loop.plan import Plan
from treadle.loop.repeated_calls import arrived, probed, repeated
from treadle.loop.toolbox import Toolbox
from treadle.messages.events import ToolCallStart, TurnStart
from treadle.messages.message import ToolCall, ToolResult
from treadle.tools.tool import DidNotHappen, Happened, failure
from treadle.types import OnUnknown, now

logger = logging.getLogger("treadle")


class _Given(NamedTuple):
    """A user's answers, and the default for calls without one."""

    allowed: bool
    """True if a user has allowed this call."""
    answers: Answers
    default: OnUnknown


async def resume(plan: Plan, writer: RunWriter, append: Append, feed: Feed) -> RunResumed:
    """Append the first entry of the driver that resumes a run, then publish the starts of its open
    turn and calls again, so that subscribers receive a start for every end.
    """
    entry = plan.resumed(writer.fence, failed_over=writer.failed_over)
    try:
        await append(entry)
    except BaseException:
        await writer.release(waiting=None)
        raise
    state = plan.state
    if state.turn:
        feed.say(TurnStart, {"turn": state.turn})
    for call in state.current.open_calls:
        if (started := state.current.starts.get(call.id)) is not None:
            feed.running_calls.add(call.id)
            fields = {"call_id": call.id, "name": call.name, "effect": started.effect}
            feed.say(ToolCallStart, {**fields, "message_id": state.current.message_id})
    return entry


async def recover(
    state: RunState,
    toolbox: Toolbox,
    answers: Answers,
    default: OnUnknown,
    *,
    keep: Callable[..., None],
    driven: bool = False,
) -> list[Prepared]:
    """Return the calls that stay open, in order. Raises AgentError(tool) if the run must fail.

    `keep`: receives each entry as soon as it is known, because the next probe may be slow.
    `driven`: True if the driver that requested the answers is alive, so that calls without an
    answer keep waiting.
    """
    still_open: list[Prepared] = []
    for call in state.current.open_calls:
        if (late := late_result(call, state)) is not None:
            keep(await arrived(toolbox, call, late))
            continue
        started = state.current.starts.get(call.id)
        said = _answer(call, state, answers)
        keep(*(_of_message(entry, state) for entry in said))
        if any(isinstance(entry, ToolFinished) for entry in said):
            continue
        allowed = bool(said) or call.id in state.approvals.allowed
        doubtful = state.current.may_have_happened(call.id)
        if driven and not said and (doubtful if started is None else not allowed):
            parallel = repeated(toolbox, call, 1).tool.parallel
            still_open.append(HeldCall(call=call, reason="", parallel=parallel, asked=True))
            continue
        said_by_model, call = call.arguments_json, as_run(call, state, answers)
        given = _Given(allowed, answers, default)
        if doubtful:
            found = await _after_failover(call, state, toolbox, given)
        elif started is None:
            found = _held_still(toolbox.prepare(call, allowed=allowed), state)
        else:
            found = await _go_on(call, started, state, toolbox, given)
        if isinstance(found, ToolFinished):
            keep(_of_message(found, state))
        else:
            edited = call.id in answers.arguments or call.id in state.approvals.edited
            still_open.append(
                changed(found, PERSON if edited else HOOK)
                if edited or call.arguments_json != said_by_model
                else found
            )
    return still_open


def answered(state: RunState, answers: Answers) -> list[Entry]:
    """Return entries for the answers to open calls. The next driver's `recover` applies them."""
    said = [entry for call in state.current.open_calls for entry in _answer(call, state, answers)]
    return [_of_message(entry, state) for entry in said]


def _of_message(entry: Entry, state: RunState) -> Entry:
    """Return the entry with the id of the message that contains the call, if it is a result."""
    if not isinstance(entry, ToolFinished):
        return entry
    return structs.replace(entry, message_id=state.current.message_id)


def as_run(call: ToolCall, state: RunState, answers: Answers) -> ToolCall:
    """Return the call with the arguments of its start, or those that the user supplied or saw. Its
    message in the history is unchanged.
    """
    approvals, started = state.approvals, state.current.starts.get(call.id)
    if started is not None and call.id not in answers.arguments:
        # a call in `allowed` has not started since its approval
        newer = approvals.edited.get(call.id) if call.id in approvals.allowed else None
        return replace_arguments(call, newer or started.arguments_json)
    given = (
        answers.arguments.get(call.id)
        or approvals.edited.get(call.id)
        or approvals.shown.get(call.id)
    )
    return replace_arguments(call, given or call.arguments_json)


def settled(state: RunState, answers: Answers) -> set[str]:
    """Return the ids of calls whose arguments hooks may no longer change."""
    return {
        *answers.arguments,
        *state.current.starts,
        *state.approvals.edited,
        *state.approvals.shown,
    }


def _answer(call: ToolCall, state: RunState, answers: Answers) -> Sequence[Entry]:
    at, started = now(), state.current.starts.get(call.id)
    if call.id in answers.approve:
        return [
            ApprovalAnswered(
                at=at,
                call_id=call.id,
                decision="allow",
                by="user",
                arguments_json=answers.arguments.get(call.id),
            )
        ]
    if (text := answers.results.get(call.id)) is not None:
        result = ToolResult(call_id=call.id, name=call.name, content=text)
        found = ToolFinished(at=at, status="ok", result=result, started=started is not None)
        return [ApprovalAnswered(at=at, call_id=call.id, decision="allow", by="user"), found]
    if (reason := answers.deny.get(call.id)) is None:
        return []
    denied = ApprovalAnswered(at=at, call_id=call.id, decision="deny", by="user", reason=reason)
    if started is not None or state.current.may_have_happened(call.id):
        return [denied, _unknown(call, _why(call, state, answers), started=started is not None)]
    text = "Not run: the user declined" + (f": {reason}" if reason else ".")
    return [
        denied,
        ToolFinished(
            at=at, status="denied", result=failure(call.id, call.name, text), started=False
        ),
    ]


def _why(call: ToolCall, state: RunState, answers: Answers) -> str:
    """Explain an unknown outcome, with the user's reason if a deferred call was denied."""
    why, asked, reason = (
        why_unknown(call, state),
        state.approvals.asked.get(call.id),
        answers.deny.get(call.id),
    )
    return (
        f"{why} A person says: {reason}" if reason and asked is not None and asked.deferred else why
    )


def _held_still(prepared: Prepared, state: RunState) -> Prepared:
    """Mark a held call whose request for approval is in the journal, so that it is not repeated."""
    if isinstance(prepared, HeldCall) and prepared.call.id in state.approvals.asked:
        return HeldCall(
            call=prepared.call, reason=prepared.reason, parallel=prepared.parallel, asked=True
        )
    return prepared


async def _after_failover(
    call: ToolCall, state: RunState, toolbox: Toolbox, given: _Given
) -> Prepared | ToolFinished:
    """Recover a call without a journaled start that may have taken effect before a failover.

    If a user allowed it before the failover, approval is requested again.
    """
    allowed = given.allowed
    once = repeated(toolbox, call, 1)
    asked = call.id in state.approvals.asked
    if once.tool.effect != "once":
        return _held_still(toolbox.prepare(call, allowed=allowed), state)
    match await _probed(once, toolbox):
        case Happened(result=text):
            return _happened(call, text, started=False)
        case DidNotHappen():
            return _held_still(toolbox.prepare(call, allowed=allowed), state)
        case None:
            return _undecided(
                HeldCall(
                    call=call,
                    reason=FAILED_OVER,
                    parallel=once.tool.parallel,
                    asked=asked and state.current.doubtful[call.id] and not allowed,
                ),
                state,
                given.answers.on_unknown or ("wait" if asked or allowed else given.default),
                started=False,
            )


async def _go_on(
    call: ToolCall,
    started: ToolStarted,
    state: RunState,
    toolbox: Toolbox,
    given: _Given,
) -> Ready | HeldCall | ToolFinished:
    """Recover a call that has started and may have taken effect."""
    allowed, answers = given.allowed, given.answers
    again = repeated(toolbox, call, started.attempt + max(state.resumed, 1))
    # check both effects, because the tool's declaration may have changed
    if allowed or "once" not in (started.effect, again.tool.effect):
        return _run_again(again, state, toolbox, allowed=allowed)
    asked = state.approvals.asked.get(call.id)
    on_unknown = answers.on_unknown or ("wait" if asked else given.default)
    # after a timeout the call may still be running, so DidNotHappen is not final
    if asked is None or (answers.on_unknown is None and (asked.deferred or asked.reason == ASK)):
        match await _probed(again, toolbox):
            case Happened(result=text):
                return _happened(call, text)
            case DidNotHappen() if asked is None or not asked.deferred:
                return _run_again(again, state, toolbox)
            case _:
                pass
    held = HeldCall(call=call, reason=ASK, parallel=again.tool.parallel, asked=asked is not None)
    return _undecided(held, state, on_unknown)


def _undecided(
    held: HeldCall, state: RunState, on_unknown: OnUnknown, *, started: bool = True
) -> HeldCall | ToolFinished:
    """Hold the call, report it as unknown or raise AgentError(tool), as `on_unknown` requires."""
    call = held.call
    if on_unknown == "fail":
        when = (
            "was running when the process stopped"
            if started
            else "was requested before the journal's database failed over"
        )
        raise AgentError(
            "tool",
            f"{call.name} (call {call.id}) {when}, and it is unknown whether it took effect",
        )
    if on_unknown == "wait":
        return held
    return _unknown(call, why_unknown(call, state), started=started)


def _run_again(
    again: Ready, state: RunState, toolbox: Toolbox, *, allowed: bool = False
) -> Ready | HeldCall | ToolFinished:
    """Decide a started call again, because rules and files may have changed.

    A call that a user allowed gets a new start.
    """
    prepared = _held_still(toolbox.prepare(again.call, allowed=allowed), state)
    if isinstance(prepared, Ready):
        return structs.replace(prepared, attempt=again.attempt, started=not allowed)
    if isinstance(prepared, HeldCall):
        return prepared
    call, harmless = again.call, again.tool.effect == "pure"
    text = (
        "It had started when the process stopped, and was not run again. "
        f"{prepared.finished.result.text}"
    )
    return ToolFinished(
        at=now(),
        status="error" if harmless else "unknown",
        result=failure(call.id, call.name, text, unknown=not harmless),
    )


async def _probed(ready: Ready, toolbox: Toolbox) -> Happened | DidNotHappen | None:
    try:
        return await probed(toolbox, ready)
    except RunBlocked:
        raise
    except Exception as e:  # noqa: BLE001  user code; a failed probe leaves the outcome unknown
        logger.warning(
            "the probe of %s (call %s) failed, so its call is unknown: %s: %s",
            ready.call.name,
            ready.call.id,
            type(e).__name__,
            e,
        )
        return None


def _happened(call: ToolCall, text: str, *, started: bool = True) -> ToolFinished:
    result = ToolResult(call_id=call.id, name=call.name, content=text)
    return ToolFinished(at=now(), status="ok", result=result, started=started)


def _unknown(call: ToolCall, why: str, *, started: bool = True) -> ToolFinished:
    return ToolFinished(
        at=now(),
        status="unknown",
        result=failure(call.id, call.name, why, unknown=True),
        started=started,
    )


def missing_tool(state: RunState, tools: Mapping[str, Any]) -> str | None:
    """Return the name of an open call's tool that is not in `tools`; None if all are."""
    return next((call.name for call in state.current.open_calls if call.name not in tools), None)
