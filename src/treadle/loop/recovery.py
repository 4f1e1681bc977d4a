"""Open calls of a dead driver: run again, probed, or reported as unknown; never silently repeated.

The loop decides how the run continues. Entry point: `recover`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from msgspec import structs

from treadle.errors import AgentError
from treadle.journal.entries import ApprovalAnswered, Entry, ToolFinished, ToolStarted
from treadle.journal.run_state import RunState
from treadle.loop.calls import ASK, HOOK, PERSON, HeldCall, Ready, RefusedCall, changed, why_unknown
from treadle.messages.message import JsonText, ToolCall, ToolResult
from treadle.tools.tool import DidNotHappen, Happened, failure
from treadle.types import OnUnknown, now

logger = logging.getLogger("treadle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers of a person to open calls, by call id, given with a resume."""

    on_unknown: OnUnknown | None = None
    """Replaces the run's own setting; None keeps it, and open questions stay open."""
    approve: frozenset[str] = frozenset()
    """Run it (again: the person knows that it did not happen)."""
    deny: Mapping[str, str] = field(default_factory=dict[str, str])
    """Reasons for refusals, for the model. A refused call that had started gets an unknown outcome.
    """
    results: Mapping[str, str] = field(default_factory=dict[str, str])
    """Results that a person found out."""
    arguments: Mapping[str, JsonText] = field(default_factory=dict[str, JsonText])
    """Arguments that replace those of an approved call."""

    def __bool__(self) -> bool:
        return bool(self.calls)

    @property
    def calls(self) -> set[str]:
        """Ids of the calls that have an answer."""
        return {*self.approve, *self.deny, *self.results}

    def only(self, calls: Collection[str]) -> Answers:
        """Return the answers to these calls."""
        deny, results = (
            {call_id: text for call_id, text in said.items() if call_id in calls}
            for said in (self.deny, self.results)
        )
        return replace(self, approve=self.approve.intersection(calls), deny=deny, results=results)

    def check(self, state: RunState, *, below: Sequence[str] = ()) -> None:
        """Raises AgentError(invalid) for an answer to a call that is not open.

        `below`: calls that are, in runs that this one started.
        """
        still_open = [*(call.id for call in state.current.open_calls), *below]
        if strange := [
            call_id
            for call_id in (*self.approve, *self.deny, *self.results)
            if call_id not in still_open
        ]:
            there_are = f"open are: {', '.join(still_open)}" if still_open else "none is open"
            raise AgentError(
                "invalid", f"no call {strange[0]!r} of this run waits for an answer; {there_are}"
            )


class Preparer(Protocol):
    """Looks up, validates and decides a call (toolbox.py)."""

    def prepare(
        self, call: ToolCall, *, allowed: bool = False
    ) -> Ready | RefusedCall | HeldCall: ...

    def repeat(self, call: ToolCall, attempt: int) -> Ready:
        """A call that had started, for its probe; `prepare` decides whether it may run again."""
        ...

    async def probe(self, ready: Ready) -> Happened | DidNotHappen | None: ...


async def recover(
    state: RunState,
    toolbox: Preparer,
    answers: Answers,
    default: OnUnknown,
    *,
    driven: bool = False,
) -> tuple[list[Entry], list[Ready | RefusedCall | HeldCall]]:
    """Return entries to append first, and the calls that are still open then, in their order.
    Raises AgentError(tool) if the run must fail.

    `driven`: the driver is alive and has received answers; calls without one keep waiting.
    """
    entries: list[Entry] = []
    still_open: list[Ready | RefusedCall | HeldCall] = []
    for call in state.current.open_calls:
        started = state.current.starts.get(call.id)
        said = _answer(call, started, answers, _why(call, state, answers))
        entries.extend(said)
        if any(isinstance(entry, ToolFinished) for entry in said):
            continue
        allowed = bool(said) or call.id in state.approvals.allowed
        if driven and not allowed and started is not None:
            still_open.append(
                HeldCall(
                    call=call, reason="", parallel=toolbox.repeat(call, 1).tool.parallel, asked=True
                )
            )
            continue
        said_by_model, call = call.arguments_json, as_run(call, state, answers)
        if started is None:
            found = _held_still(toolbox.prepare(call, allowed=allowed), state)
        else:
            found = await _go_on(
                call, started, state, toolbox, allowed=allowed, answers=answers, default=default
            )
        if isinstance(found, ToolFinished):
            entries.append(found)
        else:
            edited = call.id in answers.arguments or call.id in state.approvals.edited
            still_open.append(
                changed(found, PERSON if edited else HOOK)
                if edited or call.arguments_json != said_by_model
                else found
            )
    return entries, still_open


def answered(state: RunState, answers: Answers) -> list[Entry]:
    """Return entries for the answers to open calls, for the next driver: `recover` then reads the
    journal.
    """
    return [
        entry
        for call in state.current.open_calls
        for entry in _answer(
            call, state.current.starts.get(call.id), answers, _why(call, state, answers)
        )
    ]


def as_run(call: ToolCall, state: RunState, answers: Answers) -> ToolCall:
    """Return the call with the arguments that it has started with, or that a person gave it or was
    shown; the message that asked for it stays unchanged.
    """
    if (
        call.id not in answers.arguments
        and (started := state.current.starts.get(call.id)) is not None
    ):
        return replace_arguments(call, started.arguments_json)
    given = (
        answers.arguments.get(call.id)
        or state.approvals.edited.get(call.id)
        or state.approvals.shown.get(call.id)
    )
    return replace_arguments(call, given or call.arguments_json)


def settled(state: RunState, answers: Answers) -> set[str]:
    """Ids of calls whose arguments stand: no hook changes them any more."""
    return {
        *answers.arguments,
        *state.current.starts,
        *state.approvals.edited,
        *state.approvals.shown,
    }


def _answer(
    call: ToolCall, started: ToolStarted | None, answers: Answers, why: str
) -> Sequence[Entry]:
    at = now()
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
    if started is not None:
        return [denied, _unknown(call, why)]
    text = "Not run: a person said no" + (f": {reason}" if reason else ".")
    return [
        denied,
        ToolFinished(
            at=at, status="denied", result=failure(call.id, call.name, text), started=False
        ),
    ]


def _why(call: ToolCall, state: RunState, answers: Answers) -> str:
    """Explain an unknown outcome, with a person's reason if no result will come."""
    why, asked, reason = (
        why_unknown(call, state),
        state.approvals.asked.get(call.id),
        answers.deny.get(call.id),
    )
    return (
        f"{why} A person says: {reason}" if reason and asked is not None and asked.deferred else why
    )


def _held_still(
    prepared: Ready | RefusedCall | HeldCall, state: RunState
) -> Ready | RefusedCall | HeldCall:
    """A question that stands in the journal is not asked again."""
    if isinstance(prepared, HeldCall) and prepared.call.id in state.approvals.asked:
        return HeldCall(
            call=prepared.call, reason=prepared.reason, parallel=prepared.parallel, asked=True
        )
    return prepared


async def _go_on(
    call: ToolCall,
    started: ToolStarted,
    state: RunState,
    toolbox: Preparer,
    *,
    allowed: bool,
    answers: Answers,
    default: OnUnknown,
) -> Ready | HeldCall | ToolFinished:
    """Continue with a call that had started and may have happened."""
    again = toolbox.repeat(call, started.attempt + max(state.resumed, 1))
    if allowed or started.effect != "once":
        return _run_again(again, state, toolbox, allowed=allowed)
    asked = state.approvals.asked.get(call.id)
    on_unknown = answers.on_unknown or ("wait" if asked else default)
    # after a timeout the call may still run unseen: an effect that a probe does not find yet may
    # happen later
    if asked is None or (answers.on_unknown is None and (asked.deferred or asked.reason == ASK)):
        match await _probed(again, toolbox):
            case Happened(result=text):
                return ToolFinished(
                    at=now(),
                    status="ok",
                    result=ToolResult(call_id=call.id, name=call.name, content=text),
                )
            case DidNotHappen() if asked is None or not asked.deferred:
                return _run_again(again, state, toolbox)
            case _:
                pass
    if on_unknown == "fail":
        raise AgentError(
            "tool",
            (
                f"{call.name} (call {call.id}) was running when the process stopped, and nobody "
                "knows whether it took effect"
            ),
        )
    if on_unknown == "wait":
        return HeldCall(
            call=call, reason=ASK, parallel=again.tool.parallel, asked=asked is not None
        )
    return _unknown(call, why_unknown(call, state))


def _run_again(
    again: Ready, state: RunState, toolbox: Preparer, *, allowed: bool = False
) -> Ready | HeldCall | ToolFinished:
    """Decide again, by the current rules and files: the meaning of its paths may have changed since
    it started.

    With a person's approval it gets a start of its own.
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


async def _probed(ready: Ready, toolbox: Preparer) -> Happened | DidNotHappen | None:
    try:
        return await toolbox.probe(ready)
    except Exception as e:  # noqa: BLE001  a probe is anybody's code: one that fails cannot tell
        logger.warning(
            "the probe of %s (call %s) failed, so its call is unknown: %s: %s",
            ready.call.name,
            ready.call.id,
            type(e).__name__,
            e,
        )
        return None


def _unknown(call: ToolCall, why: str) -> ToolFinished:
    return ToolFinished(
        at=now(), status="unknown", result=failure(call.id, call.name, why, unknown=True)
    )


def replace_arguments(call: ToolCall, arguments_json: JsonText) -> ToolCall:
    """The call as it is run; the message that asked for it stays."""
    return (
        call
        if call.arguments_json == arguments_json
        else structs.replace(call, arguments_json=arguments_json)
    )


def missing_tool(state: RunState, tools: Mapping[str, Any]) -> str | None:
    """The tool of an open call that is not there any more."""
    return next((call.name for call in state.current.open_calls if call.name not in tools), None)
