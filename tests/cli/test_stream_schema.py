"""The JSON Schemas that ship with the package: they are of the events as they are, and what a run
prints fits them.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import given, settings

from tests.strategies import values_of, without_half_pairs
from treadle import Agent, Limits, Runtime, ToolContext, tool
from treadle._internal.json_text import encode_json
from treadle.cli.stream_schema import json_schema, stream_json_schema, write
from treadle.messages.events import Event, RunEnd
from treadle.testing import ScriptedModel, collect

STREAM = jsonschema_rs.Draft202012Validator(stream_json_schema(), validate_formats=True)
END = jsonschema_rs.Draft202012Validator(json_schema(), validate_formats=True)


def plain(event: Event) -> Any:
    return json.loads(without_half_pairs(encode_json(event)))


@pytest.mark.parametrize("name", ["stream-json", "json", "agent"])
def test_the_files_in_the_package_are_up_to_date(name: str, tmp_path: Path) -> None:
    """Where this fails: `make docs` writes them."""
    write(tmp_path)
    shipped = files("treadle.cli.stream_schema") / f"{name}.schema.json"
    assert shipped.read_text(encoding="utf-8") == (tmp_path / f"{name}.schema.json").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    "schema", [stream_json_schema(), json_schema()], ids=["stream-json", "json"]
)
def test_they_are_schemas(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema_rs.meta.validate(schema)


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_any_event_fits(kind: type[Event]) -> None:
    @settings(max_examples=20)
    @given(values_of(kind))
    def holds(event: Event) -> None:
        STREAM.validate(plain(event))

    holds()


@given(values_of(RunEnd))
def test_any_end_fits_both(event: RunEnd) -> None:
    END.validate(plain(event))
    STREAM.validate(plain(event))


@tool
async def look(ctx: ToolContext, place: str) -> str:
    """Look somewhere."""
    ctx.progress("looking", 1, 2)
    if place == "nowhere":
        raise RuntimeError("there is nothing")
    return "seen"


@tool(needs_approval=True)
async def leap() -> str:
    """Leap."""
    return "leapt"


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "words and calls": [
        {
            "reasoning": "Hm.",
            "text": "Let me see.",
            "tool_calls": [
                {"name": "look", "arguments": {"place": "here"}},
                {"name": "look", "arguments": "{"},
            ],
        },
        {
            "tool_calls": [
                {"name": "look", "arguments": {"place": "nowhere"}},
                {"name": "leap"},
                {"name": "nope"},
            ]
        },
        {"error": {"kind": "rate_limit", "status": 429, "retry_after_s": 0}},
        {"text": "Done."},
    ],
    "hard arguments": [
        {
            "tool_calls": [
                {"name": "look", "arguments": '{"place": [1e400, 123456789012345678901234567890]}'},
                {"name": "look", "arguments": "[" * 10_000},
            ]
        },
        {"text": "So."},
    ],
    "an error": [{"error": {"kind": "auth", "status": 401}}],
    "used up": [],
    "a limit": [{"tool_calls": [{"name": "look", "arguments": {"place": "here"}}]}] * 3,
}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_every_event_of_a_run_fits(name: str) -> None:
    agent = Agent(
        name="a", model=ScriptedModel(SCRIPTS[name]), tools=[look, leap], limits=Limits(turns=4)
    )
    async with Runtime.open() as rt, rt.stream(agent, "go") as run:
        seen = await collect(run)
    for event in seen:
        STREAM.validate(json.loads(encode_json(event)))
    assert isinstance(seen[-1], RunEnd)
    END.validate(json.loads(encode_json(seen[-1])))


@pytest.mark.parametrize(
    "change",
    [
        {"type": "surprise"},
        {"seq": "1"},
        {"turn": None},
        {"at": "yesterday"},
        {"run_id": None},
        {"session_id": 5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_no_event_does_not_fit(change: dict[str, Any]) -> None:
    event = {
        "type": "turn_start",
        "run_id": "r",
        "session_id": None,
        "seq": 1,
        "at": "2026-11-20T10:00:00Z",
        "turn": 1,
    }
    assert STREAM.is_valid(event)
    assert not STREAM.is_valid(event | change)
    for name in event:
        assert not STREAM.is_valid({key: value for key, value in event.items() if key != name})


def test_what_a_later_version_adds_fits_too() -> None:
    part = {"type": "text", "text": "hi", "mood": 1}
    message = {
        "id": "m",
        "role": "assistant",
        "parts": [part],
        "created_at": "2026-11-20T10:00:00Z",
        "mood": 1,
    }
    event = {
        "type": "message",
        "run_id": "r",
        "session_id": None,
        "seq": 1,
        "at": "2026-11-20T10:00:00Z",
        "message": message,
        "mood": 1,
    }
    assert STREAM.is_valid(event)
