"""What a front may rely on: every event of stream-json with its fields, and that it survives JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given, settings

from tests.strategies import examples_of, values_of
from treadle._internal.json_text import decode_json, encode_json
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.metrics import RunTotals
from treadle.types import Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)

SHARED = "type run_id session_id seq at id? parent_run_id?"
DELTA = "message_id attempt"
FIELDS = {
    "run_start": "agent model",
    "handoff": "agent before model",
    "turn_start": "turn",
    "turn_end": "turn",
    "text_delta": f"{DELTA} text",
    "reasoning_delta": f"{DELTA} text",
    "reasoning_start": DELTA,
    "reasoning_end": DELTA,
    "tool_call_delta": f"{DELTA} call_id name arguments",
    "tool_call": "call_id name arguments message_id",
    "approval_requested": "call_id name arguments reason",
    "approval_resolved": "call_id decision by",
    "tool_call_start": "call_id name effect message_id",
    "tool_progress": "call_id text done? total?",
    "tool_call_end": "call_id name result is_error unknown duration_ms refused exit_code? reason? message_id",
    "message": "message",
    "retry": "attempt wait_s kind",
    "usage": "input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens cache_write_1h_tokens web_searches cost_usd? details?",
    "warning": "text call_id?",
    "limit_warning": "limit left",
    "compaction": "receipt",
    "child_start": "child_run_id agent",
    "child_end": "child_run_id outcome",
    "input_added": "text",
    "output": "value validated",
    "error": "kind message request_id? status?",
    "run_end": "outcome text output validated usage cost_usd? turns tool_calls duration_s error? total",
}
"""The public promise, type by type; a field with a question mark may be absent."""

KINDS: dict[str, type[Any]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Event)}


def words(fields: str) -> tuple[set[str], set[str]]:
    """The fields that are always there, and all there can be."""
    every = fields.split()
    return {word for word in every if not word.endswith("?")}, {word.rstrip("?") for word in every}


def test_these_are_all_the_events_there_are() -> None:
    assert KINDS.keys() == FIELDS.keys(), "promise the fields of a new event in FIELDS"


@pytest.mark.parametrize("name", FIELDS)
def test_an_event_has_the_fields_that_were_promised(name: str) -> None:
    kind = KINDS[name]
    _, every = words(f"{SHARED} {FIELDS[name]}")
    assert {"type", *kind.__struct_encode_fields__} == every


@pytest.mark.parametrize("name", FIELDS)
def test_an_event_in_json_has_all_that_it_must_and_nothing_else_and_survives_it(name: str) -> None:
    always, every = words(f"{SHARED} {FIELDS[name]}")

    @settings(max_examples=30)
    @given(values_of(KINDS[name]))
    def holds(event: Event) -> None:
        data = encode_json(event)
        shown = json.loads(data)
        assert always <= shown.keys() <= every
        assert shown["type"] == name
        assert decode_json(data, Event) == event  # type: ignore[arg-type]
        assert KINDS[name].from_json(data) == event

    holds()


def test_a_run_without_a_session_says_null() -> None:
    event = events.TurnStart(run_id="r", session_id=None, seq=1, at=AT, turn=1)
    assert (
        event.to_json()
        == b'{"type":"turn_start","run_id":"r","session_id":null,"seq":1,"at":"2026-11-20T10:00:00Z","turn":1}'
    )


def test_what_is_default_is_said_all_the_same() -> None:
    """A reader looks for `is_error`, not for its absence."""
    event = events.ToolCallEnd(
        run_id="r",
        session_id=None,
        seq=1,
        at=AT,
        call_id="c",
        name="f",
        result="",
        is_error=False,
        unknown=False,
        duration_ms=0,
    )
    assert (
        json.loads(event.to_json()).items()
        >= {"result": "", "is_error": False, "unknown": False, "duration_ms": 0}.items()
    )


def test_the_end_says_its_usage_in_full_and_its_error_in_brief() -> None:
    error = events.ErrorInfo(kind="auth", message="no key", status=401)
    end = events.RunEnd(
        **{
            "run_id": "r",
            "session_id": "s",
            "seq": 9,
            "at": AT,
            "outcome": "error",
            "text": "",
            "output": None,
            "validated": False,
        },
        usage=Usage(input_tokens=1),
        turns=1,
        tool_calls=0,
        duration_s=0.5,
        total=RunTotals(),
        error=error,
    )
    shown = json.loads(end.to_json())
    assert shown["usage"] == {
        "input_tokens": 1,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "reasoning_tokens": 0,
    } | {
        "cache_write_1h_tokens": 0,
        "web_searches": 0,
    }
    assert shown["error"] == {"kind": "auth", "message": "no key", "status": 401}
    assert "cost_usd" not in shown


def test_lossy_events_are_the_deltas_and_those_of_calls_are_known_as_such() -> None:
    assert {str(kind.__struct_config__.tag) for kind in events.DELTAS} == {
        name for name in FIELDS if name.endswith("_delta")
    }
    assert {str(kind.__struct_config__.tag) for kind in events.TOOL_EVENTS} == {
        name
        for name in FIELDS
        if name.startswith(("tool_", "approval_")) and not name.endswith("_delta")
    }


def test_durable_events_carry_their_place_in_the_journal() -> None:
    (event,) = examples_of(events.TurnStart)
    assert "id" not in json.loads(
        events.TurnStart(run_id="r", session_id=None, seq=1, at=AT, turn=1).to_json()
    )
    assert (
        json.loads(
            events.TurnStart(run_id="r", session_id=None, seq=1, at=AT, turn=1, id="3.0").to_json()
        )["id"]
        == "3.0"
    )
    assert event == type(event).from_json(event.to_json())
