"""What was said stands in spans only where somebody asks for it, without secrets, and bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.doubles import (
    PlainTool,
    PlayedModel,
    agent,
    asks,
    call,
    end,
    gives,
    open_runtime,
    says,
    watch,
)
from tests.events.telemetry.traces import Watched, told
from treadle import ToolContext
from treadle.config import load
from treadle.events.telemetry import content, names
from treadle.events.telemetry.content import SpanContent
from treadle.events.telemetry.tracer import CAPTURE
from treadle.messages.message import MediaPart, Message, TextPart
from treadle.models.model import TextDelta, ToolDefinition

SAID = (
    names.INPUT_MESSAGES,
    names.OUTPUT_MESSAGES,
    names.SYSTEM_INSTRUCTIONS,
    names.TOOL_DEFINITIONS,
    names.TOOL_ARGUMENTS,
    names.TOOL_RESULT,
)
SCRIPT = [asks(call("look", "k1", at="the door")), says("A cat.")]


async def test_nothing_that_is_said_leaves_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CAPTURE, raising=False)
    watched = Watched()
    await watch(
        SCRIPT,
        gives("look", "fur"),
        runtime=open_runtime(tracer=watched.tracer),
        prompt="Who is there?",
    )
    assert not any(name in told(span) for span in watched.spans for name in SAID)
    everything = "".join(span.to_json() for span in watched.spans)
    assert not any(words in everything for words in ("Who is there?", "the door", "fur", "A cat."))


@pytest.mark.parametrize("how", ["option", "environment"])
async def test_where_it_is_wanted_everything_stands_there(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "environment":
        monkeypatch.setenv(CAPTURE, "true")
    watched = Watched(content=True if how == "option" else None)
    rt = open_runtime(tracer=watched.tracer)
    await rt.run(agent(SCRIPT, gives("look", "fur"), instructions="Look well."), "Who is there?")
    _, first, tool, second = watched.spans
    assert json.loads(told(first)[names.SYSTEM_INSTRUCTIONS]) == [
        {"type": "text", "content": "Look well."}
    ]
    assert json.loads(told(first)[names.INPUT_MESSAGES]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Who is there?"}]}
    ]
    assert [one["name"] for one in json.loads(told(first)[names.TOOL_DEFINITIONS])] == ["look"]
    asked = {"type": "tool_call", "id": "k1", "name": "look", "arguments": {"at": "the door"}}
    assert json.loads(told(first)[names.OUTPUT_MESSAGES]) == [
        {"role": "assistant", "parts": [asked], "finish_reason": "tool_call"}
    ]
    assert (told(tool)[names.TOOL_ARGUMENTS], told(tool)[names.TOOL_RESULT]) == (
        '{"at": "the door"}',
        "fur",
    )
    assert json.loads(told(second)[names.INPUT_MESSAGES])[1:] == [
        {"role": "assistant", "parts": [asked]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "k1", "response": "fur"}]},
    ]
    assert json.loads(told(second)[names.OUTPUT_MESSAGES])[0]["finish_reason"] == "stop"


async def test_an_option_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    watched = Watched(content=False)
    await watch([says("hi")], runtime=open_runtime(tracer=watched.tracer))
    assert not any(name in told(span) for span in watched.spans for name in SAID)


async def test_known_secrets_and_what_looks_like_one_are_taken_out() -> None:
    known, unknown = "a-very-secret-value", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    config = load({"ANTHROPIC_API_KEY": known}, files=False)
    watched = Watched(content=True)
    rt = open_runtime(tracer=watched.tracer, config=config)
    script = [asks(call("look", "k1", key=known)), says(f"{known} and {unknown}")]
    tool = gives("look", f"it is {unknown}")
    await rt.run(agent(script, tool, instructions=f"The key is {known}."), f"Use {known}.")
    everything = "".join(span.to_json() for span in watched.spans)
    assert known not in everything
    assert unknown not in everything
    assert "The key is [redacted]." in everything


def test_only_the_newest_messages_that_fit_are_told() -> None:
    made = SpanContent(str)
    messages = [Message.user(f"{i} " + "x" * 10_000) for i in range(20)]
    text, left_out = made.messages(messages)
    said = json.loads(text)
    assert len(text) <= content.MESSAGES_CHARS_MAX
    assert len(said) + left_out == 20
    assert said[-1]["parts"][0]["content"].startswith("19 ")


def test_also_a_tools_schema_is_cleaned_and_made_once() -> None:
    tools = (
        ToolDefinition(
            name="look", description="Looks.", parameters={"type": "object", "default": "a-secret"}
        ),
    )
    made = SpanContent(lambda text: text.replace("a-secret", "[redacted]"))
    assert json.loads(made.definitions(tools))[0]["parameters"]["default"] == "[redacted]"
    assert made.definitions(tools) is made.definitions(tools)


def test_a_long_text_is_cleaned_before_it_is_cut() -> None:
    secret = "s" * 100
    made = SpanContent(lambda text: text.replace(secret, "[redacted]"))
    cut = made.text("x" * (content.TEXT_CHARS_MAX - 50) + secret + "y" * 500)
    assert "sss" not in cut
    assert len(cut) == content.TEXT_CHARS_MAX + 1


def test_each_message_is_made_once() -> None:
    cleaned: list[str] = []

    def clean(text: str) -> str:
        cleaned.append(text)
        return text

    made, messages = SpanContent(clean), [Message.user("one"), Message.user("two")]
    for _ in range(3):
        made.messages(messages)
    assert cleaned == ["two", "one"]


async def test_what_was_made_for_a_run_is_forgotten_with_it() -> None:
    watched = Watched(content=True)
    made: list[SpanContent | None] = []

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        made.append(watched.tracer.content(ctx.run_id))
        return "ok"

    seen = await watch(
        [asks(call("look")), says("hi")],
        PlainTool(name="look", does=does),
        runtime=open_runtime(tracer=watched.tracer),
    )
    assert made[0] is not None
    assert watched.tracer.content(seen.result.run_id) is not made[0]


async def test_odd_parts_are_told_as_what_they_are() -> None:
    watched = Watched(content=True)
    rt = open_runtime(tracer=watched.tracer)
    prompt: Any = [
        TextPart(text="\ud800"),
        MediaPart(media_type="image/png", data="AAAA", name="cat.png"),
    ]
    result = await rt.run(agent(PlayedModel([TextDelta("ok"), end()])), prompt)
    assert result.success
    (said,) = json.loads(told(watched.named("chat model"))[names.INPUT_MESSAGES])
    assert said["parts"] == [
        {"type": "text", "content": "\\ud800"},
        {"type": "media", "mime_type": "image/png", "name": "cat.png", "uri": ""},
    ]
