"""A model that says what a script tells it: every word of an entry, and what is wrong with a bad
one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given

from tests.strategies import nasty_text
from treadle import Agent, Runtime
from treadle.errors import AgentError, ErrorKind
from treadle.messages.message import Message, ReasoningPart, TextPart, ToolCall
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
    complete,
)
from treadle.models.providers.scripted import ScriptedModel, ScriptEntry
from treadle.testing import ScriptedModel as RememberingModel
from treadle.testing import collect
from treadle.types import StopReason, Usage

REQUEST = ModelRequest(messages=[Message.user("hi")])


async def answer(*entries: dict[str, Any]) -> ModelResponse:
    return await complete(ScriptedModel(list(entries)), REQUEST)


async def deltas(*entries: dict[str, Any]) -> list[Delta]:
    return await collect(ScriptedModel(list(entries)).stream(REQUEST))


async def failure(model: ScriptedModel) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await complete(model, REQUEST)
    return caught.value


# ---------------------------------------------------------------- what an entry says


async def test_an_empty_entry_is_an_empty_answer() -> None:
    (end,) = await deltas({})
    assert isinstance(end, ResponseEnd)
    assert (end.stop_reason, end.raw_stop_reason, end.model) == (
        StopReason.COMPLETE,
        "complete",
        "script",
    )
    assert end.id.startswith("resp_")


async def test_reasoning_comes_before_text_and_text_before_calls() -> None:
    response = await answer({"tool_calls": [{"name": "f"}], "text": "Hello.", "reasoning": "Hm."})
    assert [type(part) for part in response.parts] == [ReasoningPart, TextPart, ToolCall]
    assert response.text == "Hello."


async def test_a_text_comes_in_pieces_of_a_few_words() -> None:
    said = [
        delta.text
        for delta in await deltas({"text": "one two three four five"})
        if isinstance(delta, TextDelta)
    ]
    assert said == ["one two three ", "four five"]
    thought = [
        delta.text
        for delta in await deltas({"reasoning": "one two three four"})
        if isinstance(delta, ReasoningDelta)
    ]
    assert thought == ["one two three ", "four"]


@given(nasty_text)
def test_the_pieces_joined_are_the_text(text: str) -> None:
    assert anyio.run(answer, {"text": text}).text == text


async def test_calls_have_their_names_arguments_and_ids() -> None:
    entry = {
        "tool_calls": [
            {"name": "f", "arguments": {"city": "Zürich", "n": [1, None]}, "id": "c1"},
            {"name": "g"},
        ]
    }
    first, second = (await answer(entry)).tool_calls
    assert first == ToolCall(id="c1", name="f", arguments_json='{"city": "Zürich", "n": [1, null]}')
    assert second.arguments == {}
    assert second.id.startswith("call_")


@pytest.mark.parametrize("text", ['{"city": "Rome"', "[]", "not JSON", '{"n": 1e400}', "{"])
async def test_arguments_given_as_text_are_sent_as_they_are(text: str) -> None:
    (call,) = (await answer({"tool_calls": [{"name": "f", "arguments": text}]})).tool_calls
    assert call.arguments_json == text


@pytest.mark.parametrize(
    ("arguments", "text"), [(None, "null"), ([1], "[1]"), (5, "5"), (True, "true"), ("", "{}")]
)
async def test_arguments_may_be_wrong_on_purpose(arguments: Any, text: str) -> None:
    (call,) = (await answer({"tool_calls": [{"name": "f", "arguments": arguments}]})).tool_calls
    assert call.arguments_json == text


async def test_arguments_come_in_two_pieces() -> None:
    seen = await deltas({"tool_calls": [{"name": "f", "arguments": {"a": 1}}]})
    assert isinstance(seen[0], ToolCallStart)
    assert [delta.text for delta in seen if isinstance(delta, ArgumentsDelta)] == ['{"a"', ": 1}"]


async def test_calls_end_a_response_with_tool_use() -> None:
    assert (await answer({"tool_calls": [{"name": "f"}]})).stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("stop", StopReason)
async def test_every_stop_reason_can_be_said(stop: StopReason) -> None:
    response = await answer({"tool_calls": [{"name": "f"}], "stop": stop.value})
    assert (response.stop_reason, response.raw_stop_reason) == (stop, stop.value)


async def test_usage_is_what_the_entry_says() -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_tokens": 3,
        "cache_write_tokens": 4,
        "reasoning_tokens": 5,
    }
    assert (await answer({"usage": usage})).usage == Usage(**usage)
    assert (await answer({"usage": {"output_tokens": 7}})).usage == Usage(output_tokens=7)


async def test_usage_is_estimated_where_the_entry_says_none() -> None:
    small, large = (
        await answer({"text": "x"}),
        await answer({"text": "x" * 400, "reasoning": "y" * 400, "tool_calls": [{"name": "f"}]}),
    )
    assert small.usage.input_tokens > 0
    assert small.usage.output_tokens > 0
    assert large.usage.output_tokens > 200
    assert large.usage.reasoning_tokens == 100
    longer = await complete(ScriptedModel([{}]), ModelRequest(messages=[Message.user("x" * 4_000)]))
    assert longer.usage.input_tokens > 1_000


async def test_a_delay_is_before_each_delta() -> None:
    assert (await answer({"text": "a b c d", "delay_ms": 0.001})).text == "a b c d"


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("kind", ErrorKind)
async def test_every_error_can_be_given(kind: ErrorKind) -> None:
    error = await failure(
        ScriptedModel(
            [{"error": {"kind": kind.value, "status": 418, "retry_after_s": 1.5}}], name="script:x"
        )
    )
    assert (error.kind, error.status, error.retry_after_s) == (kind, 418, 1.5)
    assert str(error) == f"script:x: its entry 1 is an error of the kind {kind.value}"


async def test_an_error_comes_after_what_was_said() -> None:
    stream = ScriptedModel([{"text": "He", "error": {"kind": "network"}}]).stream(REQUEST)
    assert await anext(stream) == TextDelta("He")
    with pytest.raises(AgentError, match="network"):
        await anext(stream)


# ---------------------------------------------------------------- the place in the script


async def test_entries_are_used_in_order_whatever_is_asked() -> None:
    model = ScriptedModel([{"text": "a"}, {"error": {"kind": "network"}}, {"text": "b"}])
    assert (await complete(model, REQUEST)).text == "a"
    assert (await failure(model)).kind == "network"
    assert (await complete(model, ModelRequest(messages=[]))).text == "b"
    assert model.place == 3


@pytest.mark.parametrize(("count", "words"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries")])
async def test_a_used_up_script_says_so(count: int, words: str) -> None:
    model = ScriptedModel([{}] * count, name="script:talk.json")
    for _ in range(count):
        await complete(model, REQUEST)
    for _ in range(2):
        error = await failure(model)
        assert error.kind == "agent"
        assert (
            str(error)
            == f"script:talk.json is exhausted: it has {words}, and another response was requested. Add an entry to it"
        )


async def test_a_script_can_begin_in_the_middle() -> None:
    assert (
        await complete(ScriptedModel([{"text": "a"}, {"text": "b"}], place=1), REQUEST)
    ).text == "b"


@pytest.mark.parametrize("kind", [ScriptedModel, RememberingModel], ids=["provider", "double"])
async def test_an_entry_that_was_cut_short_is_not_used_up(kind: type[ScriptedModel]) -> None:
    """It gave neither a response nor an error: the next one that asks gets it again."""
    model = kind([{"text": "one two three four"}, {"text": "b"}])
    stream = model.stream(REQUEST)
    assert await anext(stream) == TextDelta("one two three ")
    await stream.aclose()
    assert (await complete(model, REQUEST)).text == "one two three four"
    assert (await complete(model, REQUEST)).text == "b"


async def test_a_cancelled_entry_is_not_used_up() -> None:
    model = ScriptedModel([{"text": "slow", "delay_ms": 60_000}, {"text": "b"}])
    with anyio.move_on_after(0):
        await complete(model, REQUEST)
    assert model.place == 0


async def test_two_that_ask_at_once_get_two_entries() -> None:
    model, said = (
        ScriptedModel([{"text": "a", "delay_ms": 0.001}, {"text": "b", "delay_ms": 0.001}]),
        list[str](),
    )

    async def ask() -> None:
        said.append((await complete(model, REQUEST)).text)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            group.start_soon(ask)
    assert sorted(said) == ["a", "b"]
    assert model.place == 2


# ---------------------------------------------------------------- bad scripts


@pytest.mark.parametrize(
    ("entry", "match"),
    [
        ({"txt": "hi"}, "unknown field `txt`"),
        ({"text": 5}, r"Expected `str`, got `int` - at `\$\.text`"),
        ({"text": None}, r"\$\.text"),
        ({"tool_calls": {"name": "f"}}, r"\$\.tool_calls"),
        (
            {"tool_calls": [{"arguments": {}}]},
            r"missing required field `name` - at `\$\.tool_calls\[0\]`",
        ),
        (
            {"tool_calls": [{"name": "f", "args": {}}]},
            r"unknown field `args` - at `\$\.tool_calls\[0\]`",
        ),
        ({"stop": "tired"}, r"'tired' - at `\$\.stop`"),
        ({"delay_ms": "5"}, r"\$\.delay_ms"),
        ({"usage": {"input": 5}}, r"unknown field `input` - at `\$\.usage`"),
        ({"usage": {"input_tokens": 1.5}}, r"\$\.usage\.input_tokens"),
        *(
            ({"usage": {name: -1}}, rf">= 0 - at `\$\.usage\.{name}`")
            for name in Usage.__struct_fields__
        ),
        ({"error": "network"}, r"\$\.error"),
        ({"error": {"kind": "bad luck"}}, r"'bad luck' - at `\$\.error\.kind`"),
        ({"error": {}}, r"missing required field `kind` - at `\$\.error`"),
        ("hello", "Expected `object`, got `str`"),
        (None, "Expected `object`, got `null`"),
    ],
)
def test_a_wrong_entry_says_what_and_where(entry: Any, match: str) -> None:
    with pytest.raises(
        AgentError, match=f"script:x: entry 2 is not a script entry: .*{match}"
    ) as caught:
        ScriptedModel([{}, entry], name="script:x")
    assert caught.value.kind == "invalid"


def test_entries_may_be_values() -> None:
    assert ScriptedModel([ScriptEntry(text="hi")]).name == "script:inline"
    assert ScriptedModel([]).refuses == frozenset()


async def test_a_script_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"text": "hi"}]))
    model = ScriptedModel.from_file(path)
    assert model.name == f"script:{path}"
    assert (await complete(model, REQUEST)).text == "hi"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is not JSON"),
        (b"[{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"text": "hi"}', "must be a JSON list of entries, not dict"),
        (b"5", "must be a JSON list of entries, not int"),
        (b'[{"text": "hi"}, {"txt": "ho"}]', "entry 2 is not a script entry"),
    ],
    ids=range(7),
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path: Path, content: bytes, match: str) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(content)
    with pytest.raises(AgentError, match=match) as caught:
        ScriptedModel.from_file(path)
    assert caught.value.kind == "invalid"
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(AgentError, match="cannot read") as caught:
            ScriptedModel.from_file(path)
        assert caught.value.kind == "invalid"
        assert str(path) in str(caught.value)


# ---------------------------------------------------------------- as a double


async def test_a_double_remembers_what_it_was_asked_and_how_it_was_then() -> None:
    model = RememberingModel([{"tool_calls": [{"name": "nope"}]}, {"text": "Done."}])
    async with Runtime.open() as rt:
        await rt.run(Agent(name="a", instructions="Be brief.", model=model), "go")
    first, second = model.requests
    assert [message.role for message in first.messages] == ["user"]
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert first.system[0].text == "Be brief."


@pytest.mark.parametrize("delay", [-1, float("nan")])
def test_a_delay_that_is_none_is_refused(delay: float):
    with pytest.raises(AgentError, match="entry 1 is not a script entry"):
        ScriptedModel([{"text": "x", "delay_ms": delay}])
