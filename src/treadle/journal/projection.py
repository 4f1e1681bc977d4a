"""Events of entries: a pure function, independent of host and time.

Entry point: `events_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from treadle._internal.json_text import JsonText, decode_json
from treadle.journal.entries import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    Compaction,
    Entry,
    InputAdded,
    ModelRequested,
    ModelResponded,
    ModelSwitched,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.run_messages import FAILOVER, late_message
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.message import ToolCall
from treadle.messages.metrics import RunTotals


def shown_arguments(arguments_json: JsonText) -> dict[str, object] | str:
    """Return the arguments as an object, or as text if they are not an object."""
    try:
        return ToolCall(id="", name="", arguments_json=arguments_json).arguments
    except ValueError:
        return arguments_json


def total_of(entry: RunFinished) -> RunTotals:
    """Return the totals of the run's tree."""
    unpriced = sum(part.unpriced for part in entry.spending)
    own = RunTotals(
        turns=entry.turns,
        tool_calls=entry.tool_calls,
        usage=entry.usage,
        cost_usd=entry.cost_usd,
        unpriced=unpriced,
    )
    return entry.total or own


LOST = "lost"
"""Error kind of an attempt that ended with its process."""


def events_of(entry: Entry) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    """Yield the durable events of an entry, in order, as pairs of type and fields.

    Independent of host and time.
    """
    match entry:
        case RunStarted() | RunResumed():
            yield from _events_of_driver(entry)
        case ModelRequested():
            yield from _events_of_request(entry)
        case ModelSwitched():
            yield (
                events.Warned,
                {
                    "text": (
                        f"{entry.before} did not answer ({entry.why}): {entry.model} is asked "
                        "from here on"
                    )
                },
            )
        case AgentSwitched():
            fields = {"agent": entry.agent, "before": entry.before, "model": entry.model}
            yield events.HandedOver, fields
        case ModelResponded():
            yield from _events_of_response(entry)
        case ToolStarted():
            who = {"call_id": entry.call_id, "name": entry.name, "message_id": entry.message_id}
            yield events.ToolCallStart, {**who, "effect": entry.effect}
        case ToolFinished():
            yield from _events_of_result(entry)
        case InputAdded():
            yield events.InputAdded, {"text": entry.message.text}
        case ApprovalAsked() | ApprovalAnswered():
            yield _event_of_approval(entry)
        case ToolLate():
            yield events.InputAdded, {"text": late_message(entry).text}
        case Compaction():
            receipt = decode_json(entry.receipt.encode(), object)
            # Receipts of attempts at a summary change nothing.
            if not (isinstance(receipt, dict) and ("reserved" in receipt or "ended" in receipt)):
                yield events.Compacted, {"receipt": receipt}
        case RunFinished():
            yield from _events_of_end(entry)
        case _:
            return


def _events_of_result(entry: ToolFinished) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    result = entry.result
    who = {"call_id": result.call_id, "name": result.name}
    if not entry.started:
        how = {"ok": ", and has a result that was given", "unknown": " again"}
        text = f"{result.name} was not run{how.get(entry.status, '')}: {result.text}"
        yield events.Warned, {"text": text, "call_id": result.call_id}
    fields = {
        "result": result.text,
        "is_error": result.is_error,
        "unknown": result.unknown,
        "duration_ms": entry.duration_ms,
        "message_id": entry.message_id,
    }
    more = {} if result.exit_code is None else {"exit_code": result.exit_code}
    if not entry.started and not result.unknown:
        more = {"refused": True, "reason": result.text}
    yield events.ToolCallEnd, {**who, **fields, **more}


def _events_of_driver(
    entry: RunStarted | RunResumed,
) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    yield events.RunStart, {"agent": entry.agent, "model": entry.model}
    if isinstance(entry, RunResumed) and entry.failed_over:
        yield events.InputAdded, {"text": FAILOVER}


def _events_of_request(entry: ModelRequested) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    if entry.attempt > 1:
        kind = entry.failed.kind if entry.failed else LOST
        yield events.Retry, {"attempt": entry.attempt - 1, "wait_s": entry.wait_s, "kind": kind}
        return
    if entry.turn > 1:
        yield events.TurnEnd, {"turn": entry.turn - 1}
    yield events.TurnStart, {"turn": entry.turn}


def _event_of_approval(
    entry: ApprovalAsked | ApprovalAnswered,
) -> tuple[type[Event], Mapping[str, Any]]:
    if isinstance(entry, ApprovalAnswered):
        return events.ApprovalResolved, {
            "call_id": entry.call_id,
            "decision": entry.decision,
            "by": entry.by,
        }
    arguments = shown_arguments(entry.arguments_json)
    return events.ApprovalRequested, {
        "call_id": entry.call_id,
        "name": entry.name,
        "arguments": arguments,
        "reason": entry.reason,
    }


def _events_of_response(entry: ModelResponded) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    details = {} if entry.details is None else {"details": entry.details}
    yield (
        events.UsageReported,
        msgspec.structs.asdict(entry.usage) | _cost(entry.cost_usd) | details,
    )
    if entry.message.parts:
        yield events.MessageAdded, {"message": entry.message}
    for call in entry.message.tool_calls:
        yield (
            events.ToolCallAsked,
            {
                "message_id": entry.message.id,
                "call_id": call.id,
                "name": call.name,
                "arguments": shown_arguments(call.arguments_json),
            },
        )


def _events_of_end(entry: RunFinished) -> Iterator[tuple[type[Event], Mapping[str, Any]]]:
    if entry.open_turn is not None:
        yield events.TurnEnd, {"turn": entry.open_turn}
    output = decode_json(entry.output.encode(), object)
    if output is not None:
        yield events.OutputReady, {"value": output, "validated": entry.validated}
    error: dict[str, Any] = {}
    if (info := entry.error) is not None:
        error = {"error": info}
        known = {
            k: v
            for k, v in (("status", info.status), ("request_id", info.request_id))
            if v is not None
        }
        yield events.ErrorRaised, {"kind": info.kind, "message": info.message, **known}
    yield (
        events.RunEnd,
        {
            "outcome": entry.outcome,
            "text": entry.text,
            "output": output,
            "validated": entry.validated,
            "usage": entry.usage,
            "turns": entry.turns,
            "tool_calls": entry.tool_calls,
            "duration_s": entry.duration_s,
            **_cost(entry.cost_usd),
            "total": total_of(entry),
            **error,
        },
    )


def _cost(cost_usd: float | None) -> dict[str, float]:
    return {} if cost_usd is None else {"cost_usd": cost_usd}


def interrupted_call(entry: ToolStarted) -> tuple[type[Event], dict[str, Any]]:
    """Return the end of an interrupted call that a person allowed to run again, so that subscribers
    receive an end for every start.
    """
    return events.ToolCallEnd, {
        "call_id": entry.call_id,
        "name": entry.name,
        "result": "It was interrupted, and a person allowed it to run again.",
        "is_error": True,
        "unknown": entry.effect == "once",
        "duration_ms": 0.0,
        "message_id": entry.message_id,
    }
