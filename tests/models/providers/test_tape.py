"""Real traffic recorded once and replayed offline: equal where the requests are equal, and loud
where they are not.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given

from tests.strategies import values_of
from treadle import Agent, Limits, Runtime, Settings, tool
from treadle._internal.redaction import Redactor
from treadle.errors import AgentError
from treadle.messages.message import Message, ToolCall, ToolResult
from treadle.models.model import (
    Delta,
    ModelRequest,
    ModelResponse,
    ResponseEnd,
    TextDelta,
    ToolCallStart,
    ToolDefinition,
    complete,
)
from treadle.models.providers.scripted import ScriptedModel
from treadle.models.providers.tape import RecordingModel, TapeModel
from treadle.testing import collect
from treadle.types import StopReason, SystemBlock, Usage

KEY = "sk-ant-0123456789abcdef"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return tmp_path / "talk.tape"


def asking(text: str = "hi", **more: Any) -> ModelRequest:
    return ModelRequest(messages=[Message.user(text)], settings=Settings(max_tokens=100), **more)


async def failure(model: Any, request: ModelRequest) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await complete(model, request)
    return caught.value


async def recorded(
    tape: Path, *exchanges: tuple[ModelRequest, dict[str, Any]]
) -> list[ModelResponse | AgentError]:
    """What the recorded model said, exchange by exchange."""
    model = RecordingModel(
        ScriptedModel([entry for _, entry in exchanges], name="script:talk"), tape
    )
    return [await said(model, request) for request, _ in exchanges]


async def said(model: Any, request: ModelRequest) -> ModelResponse | AgentError:
    try:
        return await complete(model, request)
    except AgentError as error:
        return error


# ---------------------------------------------------------------- recorded and replayed


async def test_a_block_that_tells_of_the_day_is_not_compared(tape: Path) -> None:
    def on(day: str) -> ModelRequest:
        return asking(
            system=(
                SystemBlock(text="Be short."),
                SystemBlock(text=f"Today is {day}.", passing=True),
            )
        )

    await recorded(tape, (on("Friday"), {"text": "Hi."}))
    assert "Friday" not in tape.read_text()
    replayed = await said(TapeModel(tape), on("Saturday"))
    assert isinstance(replayed, ModelResponse)


async def test_a_tape_says_what_the_model_said(tape: Path) -> None:
    entry = {
        "reasoning": "Hm.",
        "text": "one two three four",
        "tool_calls": [{"name": "f", "arguments": {"a": 1}}],
    }
    exchanges = [(asking("a"), entry), (asking("b"), {"text": "two"})]
    live = await recorded(tape, *exchanges)
    played = TapeModel(tape)
    assert (played.name, played.refuses) == ("script:talk", frozenset())
    assert [await complete(played, request) for request, _ in exchanges] == live


async def test_an_error_is_played_like_it_came(tape: Path) -> None:
    error = {"kind": "rate_limit", "status": 429, "retry_after_s": 2.5}
    request = asking()
    (live,) = await recorded(tape, (request, {"text": "He", "error": error}))
    stream = TapeModel(tape).stream(request)
    assert await anext(stream) == TextDelta("He")
    with pytest.raises(AgentError) as caught:
        await anext(stream)
    assert isinstance(live, AgentError)
    for error in (live, caught.value):
        assert (error.kind, error.status, error.retry_after_s, error.request_id) == (
            "rate_limit",
            429,
            2.5,
            None,
        )
    assert caught.value.message == live.message


async def test_what_a_model_refuses_is_on_the_tape(tape: Path) -> None:
    class Picky(ScriptedModel):
        refuses = frozenset({"temperature", "effort"})  # type: ignore[assignment]

    model = RecordingModel(Picky([]), tape)
    assert model.refuses == {"temperature", "effort"}
    assert TapeModel(tape).refuses == {"temperature", "effort"}


@given(values_of(list[Delta]), values_of(str))
def test_any_delta_and_any_text_survives_the_tape(said: list[Delta], asked: str) -> None:
    import tempfile

    import anyio

    class Says(ScriptedModel):
        async def stream(self, request: ModelRequest):
            for delta in said:
                yield delta

    async def both(path: Path) -> list[Delta]:
        await collect(RecordingModel(Says([]), path).stream(asking(asked)))
        return await collect(TapeModel(path).stream(asking(asked)))

    with tempfile.TemporaryDirectory() as folder:
        assert anyio.run(both, Path(folder) / "talk.tape") == said


async def test_ids_and_times_are_not_compared(tape: Path) -> None:
    def request(call_id: str) -> ModelRequest:
        calls = Message.assistant(
            [ToolCall(id=call_id, name="f"), ToolCall(id=call_id + "b", name="f")]
        )
        results = Message.tool(
            [
                ToolResult(call_id=call_id, name="f", content="1"),
                ToolResult(call_id=call_id + "b", name="f", content="2"),
            ]
        )
        return ModelRequest(messages=[Message.user("hi"), calls, results])

    await recorded(tape, (request("call_1"), {"text": "ok"}))
    assert (await complete(TapeModel(tape), request("call_2"))).text == "ok"


async def test_a_call_whose_id_we_gave_can_be_replayed(tape: Path) -> None:
    """A model that gives none gets other ids at each run."""

    class Nameless(ScriptedModel):
        async def stream(self, request: ModelRequest):
            if len(request.messages) > 1:
                yield TextDelta("Done.")
            else:
                yield ToolCallStart("", "look")
            yield ResponseEnd(StopReason.COMPLETE, Usage())

    await conversation(RecordingModel(Nameless([]), tape))
    assert (await conversation(TapeModel(tape))).text == "Done."


@tool(effect="pure")
async def look(place: str = "here") -> str:
    """Look somewhere.

    Args:
        place: Where.
    """
    return f"it is warm {place}"


async def conversation(model: Any, **options: Any) -> Any:
    agent = Agent(
        name="guide",
        instructions="Be brief.",
        model=model,
        tools=[look],
        settings=Settings(max_tokens=50),
    )
    async with Runtime.open() as rt:
        return await rt.run(agent, "Where is it warm?", **options)


async def test_a_real_run_is_replayed_equal(tape: Path) -> None:
    script = [
        {
            "reasoning": "I should look.",
            "text": "Let me see.",
            "tool_calls": [{"name": "look", "arguments": {"place": "in Rome"}}, {"name": "look"}],
        },
        {"tool_calls": [{"name": "nope", "arguments": "{"}]},
        {"text": "In Rome.", "usage": {"input_tokens": 5, "output_tokens": 6}},
    ]
    live = await conversation(RecordingModel(ScriptedModel(script), tape))
    played = await conversation(TapeModel(tape))
    assert played.success
    assert (played.text, played.outcome, played.metrics.usage, played.metrics.turns) == (
        live.text,
        live.outcome,
        live.metrics.usage,
        live.metrics.turns,
    )
    assert [(message.role, message.parts) for message in played.messages] == [
        (message.role, message.parts) for message in live.messages
    ]


async def test_models_by_name_record_and_replay(tmp_path: Path, tape: Path) -> None:
    script = tmp_path / "talk.json"
    script.write_text(
        json.dumps([{"tool_calls": [{"name": "look", "arguments": {}}]}, {"text": "Here."}])
    )
    assert (await conversation(f"record:{tape}=script:{script}")).text == "Here."
    assert (await conversation(f"tape:{tape}")).text == "Here."


async def test_what_a_person_changes_is_a_difference(tape: Path) -> None:
    await conversation(RecordingModel(ScriptedModel([{"text": "Here."}]), tape))
    result = await conversation(
        TapeModel(tape), limits=Limits(turns=1), settings=Settings(temperature=0.5)
    )
    assert result.outcome == "error"
    assert '+  "temperature": 0.5' in str(result.error)


# ---------------------------------------------------------------- a request that differs


@pytest.mark.parametrize(
    ("other", "gone", "come"),
    [
        (asking("ho"), '"text": "hi"', '"text": "ho"'),
        (
            ModelRequest(messages=[Message.assistant("hi")], settings=Settings(max_tokens=100)),
            '"role": "user"',
            '"role": "assistant"',
        ),
        (
            ModelRequest(messages=[Message.user("hi")], settings=Settings(max_tokens=99)),
            '"max_tokens": 100',
            '"max_tokens": 99',
        ),
        (asking(system=(SystemBlock(text="Be brief."),)), None, '"text": "Be brief."'),
        (
            asking(tools=(ToolDefinition(name="f", description="d", parameters={}),)),
            None,
            '"name": "f"',
        ),
    ],
    ids=["text", "role", "settings", "system", "tools"],
)
async def test_a_difference_is_shown(
    tape: Path, other: ModelRequest, gone: str | None, come: str
) -> None:
    await recorded(tape, (asking("hi"), {"text": "ok"}))
    error = await failure(TapeModel(tape), other)
    assert error.kind == "agent"
    head, *lines = str(error).splitlines()
    assert head == f"request 1 differs from the tape {str(tape)!r} (- tape, + now):"
    assert any(line.startswith("+") and come in line for line in lines)
    assert gone is None or any(line.startswith("-") and gone in line for line in lines)


async def test_the_request_that_differs_is_named(tape: Path) -> None:
    await recorded(tape, (asking("a"), {"text": "1"}), (asking("b"), {"text": "2"}))
    played = TapeModel(tape)
    await complete(played, asking("a"))
    assert str(await failure(played, asking("c"))).startswith("request 2 differs")


async def test_a_large_difference_is_cut_where_it_can_still_be_read(tape: Path) -> None:
    await recorded(tape, (asking("x" * 5_000), {"text": "ok"}))
    other = ModelRequest(messages=[Message.user(f"line {n} " + "y" * 5_000) for n in range(200)])
    lines = str(await failure(TapeModel(tape), other)).splitlines()
    assert len(lines) <= 26
    assert all(len(line) <= 200 for line in lines[1:])
    assert lines[-1].startswith("… and ")
    assert lines[-1].endswith(" more lines")


async def test_a_used_up_tape_says_so(tape: Path) -> None:
    await recorded(tape, (asking(), {"text": "ok"}))
    played = TapeModel(tape)
    await complete(played, asking())
    error = await failure(played, asking())
    assert error.kind == "agent"
    assert "is exhausted after 1 exchange, and another response was requested" in str(error)
    assert str(tape) in str(error)


# ---------------------------------------------------------------- secrets


async def test_no_secret_is_written_and_the_tape_plays_all_the_same(tape: Path) -> None:
    clean = Redactor([KEY]).exact
    request = asking(f"my key is {KEY}", system=(SystemBlock(text=f'{{"key": "{KEY}"}}'),))
    error = {"kind": "auth", "status": 401}
    model = RecordingModel(
        ScriptedModel([{"text": f"It is {KEY}."}, {"error": error}], name=f"script:{KEY}"),
        tape,
        clean=clean,
    )
    await complete(model, request)
    await failure(model, request)
    assert KEY not in tape.read_text()
    assert "[redacted]" in tape.read_text()
    assert (await complete(TapeModel(tape, clean=clean), request)).text == "It is [redacted]."


# ---------------------------------------------------------------- bad tapes


def lines_of(tape: Path) -> list[str]:
    return tape.read_text().splitlines()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"{",
        b"[]",
        b"{}",
        b'{"treadle_tape": "one", "model": "m"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=range(8),
)
def test_what_is_no_tape_says_so(tape: Path, content: bytes) -> None:
    tape.write_bytes(content)
    with pytest.raises(AgentError, match="is not a tape") as caught:
        TapeModel(tape)
    assert caught.value.kind == "invalid"
    assert str(tape) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[: len(line) // 2],
        lambda line: "",
        lambda line: "5",
        lambda line: line.replace('"delta":"text"', '"delta":"song"'),
        lambda line: line.replace('"stop_reason":"complete"', '"stop_reason":"tired"'),
        lambda line: line.replace('"kind":"auth"', '"kind":"bad luck"'),
    ],
    ids=[
        "cut",
        "empty",
        "another value",
        "an unknown delta",
        "an unknown reason",
        "an unknown error",
    ],
)
async def test_a_broken_line_is_named_before_anything_is_played(tape: Path, change: Any) -> None:
    await recorded(
        tape, (asking("a"), {"text": "1"}), (asking("b"), {"text": "2", "error": {"kind": "auth"}})
    )
    head, first, second = lines_of(tape)
    broken = change(first) if change(first) != first else change(second)
    tape.write_text("\n".join([head, first, broken]) + "\n")
    with pytest.raises(
        AgentError, match=r"is broken at line 3: .*Record it again with record:FILE=MODEL"
    ) as caught:
        TapeModel(tape)
    assert caught.value.kind == "invalid"
    assert str(tape) in str(caught.value)


async def test_a_tape_of_a_newer_version_is_refused_clearly(tape: Path) -> None:
    await recorded(tape, (asking(), {"text": "ok"}))
    head, *rest = lines_of(tape)
    tape.write_text(
        "\n".join([head.replace('"treadle_tape":2', '"treadle_tape":3'), "another shape", *rest])
    )
    with pytest.raises(AgentError, match="recorded by a newer Treadle"):
        TapeModel(tape)


def test_a_tape_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.tape", tmp_path):
        with pytest.raises(AgentError, match="cannot read") as caught:
            TapeModel(path)
        assert caught.value.kind == "invalid"
        assert str(path) in str(caught.value)


def test_a_tape_that_cannot_be_written_is_named_before_anything_is_asked(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "folder.tape", tmp_path):
        with pytest.raises(AgentError, match="cannot be written") as caught:
            RecordingModel(ScriptedModel([]), path)
        assert caught.value.kind == "invalid"


async def test_a_tape_that_cannot_be_written_any_more_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "tapes"
    folder.mkdir()
    model = RecordingModel(ScriptedModel([{"text": "a"}]), folder / "talk.tape")
    (folder / "talk.tape").unlink()
    os.rmdir(folder)
    assert "cannot be written" in str(await failure(model, asking()))


async def test_recording_starts_the_tape_anew(tape: Path) -> None:
    await recorded(tape, (asking("old"), {"text": "old"}))
    await recorded(tape, (asking("new"), {"text": "new"}))
    assert len(lines_of(tape)) == 2
    assert (await complete(TapeModel(tape), asking("new"))).text == "new"


async def test_what_was_cut_short_is_not_on_the_tape(tape: Path) -> None:
    model = RecordingModel(ScriptedModel([{"text": "one two three four"}]), tape)
    stream = model.stream(asking())
    await anext(stream)
    await stream.aclose()
    assert len(lines_of(tape)) == 1
    assert (await complete(model, asking())).text == "one two three four"
    assert (await complete(TapeModel(tape), asking())).text == "one two three four"


async def test_a_tape_is_lines_of_json_with_a_head(tape: Path) -> None:
    await recorded(tape, (asking("a \u2028 b\r\n"), {"text": "1"}), (asking(), {}))
    head, *exchanges = map(json.loads, tape.read_bytes().splitlines())
    assert head == {"treadle_tape": 2, "model": "script:talk", "refuses": []}
    assert [set(exchange) for exchange in exchanges] == [{"request", "deltas"}] * 2
    assert msgspec.convert(exchanges[0]["deltas"], list[Delta])[0] == TextDelta("1")


# ---------------------------------------------------------------- what it weighs


async def test_a_tape_grows_with_the_conversation_and_not_with_its_square(tape: Path) -> None:
    messages: list[Message] = []
    model = RecordingModel(ScriptedModel([{"text": "ok"}] * 60), tape)
    sizes = list[int]()
    for number in range(60):
        messages = [*messages, Message.user(f"{number} " + "x" * 500)]
        await complete(
            model, ModelRequest(messages=messages, system=(SystemBlock(text="s" * 5000),))
        )
        sizes.append(tape.stat().st_size)
    grown = [later - earlier for earlier, later in itertools.pairwise(sizes)]
    assert max(grown) < 1200
    played = TapeModel(tape)
    for number in range(1, 61):
        assert (
            await complete(
                played,
                ModelRequest(messages=messages[:number], system=(SystemBlock(text="s" * 5000),)),
            )
        ).text == "ok"


async def test_a_request_that_differs_where_the_tape_kept_it_is_found(tape: Path) -> None:
    first, second = Message.user("first"), Message.user("second")
    await recorded(
        tape,
        (ModelRequest(messages=[first]), {"text": "a"}),
        (ModelRequest(messages=[first, second]), {"text": "b"}),
    )
    played = TapeModel(tape)
    assert (await complete(played, ModelRequest(messages=[first]))).text == "a"
    error = await failure(played, ModelRequest(messages=[Message.user("other"), second]))
    assert "other" in error.message


async def test_a_tape_of_whole_requests_is_read(tape: Path) -> None:
    lines = [{"treadle_tape": 1, "model": "script:talk"}]
    for texts in (["a"], ["a", "b"]):
        said = [{"role": "user", "parts": [{"type": "text", "text": text}]} for text in texts]
        request = {"system": [], "tools": [], "settings": {}, "messages": said}
        end = {"delta": "end", "stop_reason": "complete", "usage": msgspec.to_builtins(Usage())}
        lines.append({"request": request, "deltas": [{"delta": "text", "text": "ok"}, end]})
    tape.write_text("".join(json.dumps(line) + "\n" for line in lines))
    played = TapeModel(tape)
    assert (await complete(played, ModelRequest(messages=[Message.user("a")]))).text == "ok"
    assert (
        await complete(played, ModelRequest(messages=[Message.user("a"), Message.user("b")]))
    ).text == "ok"
