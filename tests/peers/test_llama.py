"""Whole runs against a real llama.cpp server, on each wire that it speaks.

What its model says stands in tiny_model.py.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.peers.tiny_model import CONTEXT
from tests.peers.weather import guide
from tests.peers.wires import MODEL, configured
from treadle import Agent, Outcome, Runtime, Settings
from treadle.errors import ErrorKind
from treadle.messages.events import Event, ReasoningDelta, TextDelta
from treadle.messages.message import Message, ReasoningPart
from treadle.messages.validate import check_history
from treadle.models.model import ModelRequest
from treadle.testing import FakeClock

talker = Agent(name="talker", model=MODEL)


@pytest.fixture(params=["openai-chat", "openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
async def runtime(llama_url: str, wire: str, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with Runtime(
        config=configured(tmp_path / "home", wire, llama_url), clock=FakeClock()
    ) as opened:
        yield opened


async def test_an_answer_comes_as_it_is_made_with_the_tokens_that_the_server_counts(
    runtime: Runtime,
) -> None:
    heard: list[Event] = []
    result = await runtime.run(talker, "Say something", on_event=heard.append)
    assert result.unwrap() == "Hello from a tiny model."
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) == result.text
    assert sum(isinstance(event, TextDelta) for event in heard) > 1
    assert result.metrics.usage.total_input_tokens > 20
    assert result.metrics.usage.output_tokens == 5
    assert check_history(result.messages) == []


async def test_a_tool_is_called_with_the_arguments_that_the_model_wrote_and_answered(
    runtime: Runtime,
) -> None:
    asked: list[str] = []
    result = await runtime.run(guide(asked), "How is the weather?")
    assert (result.unwrap(), asked, result.turn_count) == (
        "It is 18C in Paris today.",
        ["Paris"],
        2,
    )
    assert check_history(result.messages) == []


async def test_two_calls_of_one_answer_both_run(runtime: Runtime) -> None:
    asked: list[str] = []
    result = await runtime.run(guide(asked), "Compare both cities")
    assert (result.unwrap(), sorted(asked)) == ("It is 18C in Paris today.", ["Oslo", "Rome"])
    assert check_history(result.messages) == []


async def test_thoughts_are_apart_from_the_answer(runtime: Runtime) -> None:
    heard: list[Event] = []
    result = await runtime.run(talker, "Think about it", on_event=heard.append)
    assert result.unwrap() == "A thought it was."
    assert (
        "".join(event.text for event in heard if isinstance(event, ReasoningDelta))
        == "Somebody asks for a thought."
    )
    assert [part.text for part in result.messages[-1].parts if isinstance(part, ReasoningPart)] == [
        "Somebody asks for a thought."
    ]


async def test_a_thought_before_a_call_is_kept_and_the_server_takes_the_history_with_it(
    runtime: Runtime,
) -> None:
    asked: list[str] = []
    result = await runtime.run(guide(asked), "Think and look")
    assert (result.unwrap(), asked) == ("It is 18C in Paris today.", ["Bergen"])
    thoughts = [
        part.text
        for message in result.messages
        for part in message.parts
        if isinstance(part, ReasoningPart)
    ]
    assert thoughts == ["Bergen is what they mean."]
    assert check_history(result.messages) == []


async def test_a_conversation_goes_on_over_several_runs(runtime: Runtime) -> None:
    session = runtime.session(agent=guide())
    first = await session.send("How is the weather?")
    second = await session.send("Think about it")
    assert (first.unwrap(), second.unwrap()) == ("It is 18C in Paris today.", "A thought it was.")
    assert check_history(second.messages) == []


async def test_an_answer_that_is_cut_by_max_tokens_ends_the_run_as_truncated(
    runtime: Runtime, wire: str
) -> None:
    if wire == "openai":
        pytest.skip("its Responses endpoint calls a cut answer completed, and gives no reason")
    result = await runtime.run(
        Agent(name="singer", model=MODEL, settings=Settings(max_tokens=9)), "Sing to me"
    )
    assert (result.outcome, result.text.strip()) == (Outcome.TRUNCATED, "la " * 8 + "la")


async def test_a_run_that_is_stopped_lets_go_of_the_server(runtime: Runtime) -> None:
    """It has one place for a request: the next one is answered because the song has stopped, long
    before its last word.
    """
    singer = Agent(name="singer", model=MODEL, settings=Settings(max_tokens=CONTEXT - 1000))
    async with runtime.stream(singer, "Sing to me") as run:
        async for event in run:
            if isinstance(event, TextDelta):
                run.cancel()
    assert run.result.outcome is Outcome.CANCELLED
    assert run.result.text.startswith("la ")
    with anyio.fail_after(5):
        assert (await runtime.run(talker, "Say something")).unwrap() == "Hello from a tiny model."


async def test_bytes_that_are_no_text_do_not_break_the_answer(runtime: Runtime) -> None:
    result = await runtime.run(talker, "Stutter, please")
    assert result.unwrap() == "€ then \N{REPLACEMENT CHARACTER} and on."


async def test_a_prompt_that_does_not_fit_ends_the_run_as_an_overflow(runtime: Runtime) -> None:
    result = await runtime.run(talker, "x" * (CONTEXT + 1))
    assert result.error is not None
    assert (result.outcome, result.error.kind, result.error.status) == (
        Outcome.CONTEXT_OVERFLOW,
        ErrorKind.CONTEXT_OVERFLOW,
        400,
    )


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
async def test_tokens_are_counted_before_they_are_sent_as_they_are_billed_after(
    runtime: Runtime,
) -> None:
    request = ModelRequest(
        messages=[Message.user("Say something")], settings=Settings(max_tokens=20)
    )
    counted = await runtime.models.get(MODEL, scope="count").count_tokens(request)
    result = await runtime.run(talker, "Say something")
    assert counted == result.metrics.usage.total_input_tokens


async def test_tools_that_may_not_be_used_are_not_used(runtime: Runtime, wire: str) -> None:
    """llama.cpp keeps the model's own words as text then; what counts is that nothing is run."""
    if wire == "anthropic":
        pytest.skip("its Anthropic endpoint does not look at tool_choice none")
    asked: list[str] = []
    result = await runtime.run(guide(asked, tool_choice="none"), "How is the weather?")
    assert (result.outcome, asked) == (Outcome.COMPLETED, [])


async def test_an_output_schema_is_enforced_by_the_server(runtime: Runtime, wire: str) -> None:
    """Left to itself, the model says {"verdict": "maybe"}."""
    if wire != "openai-chat":
        pytest.skip("only its Chat Completions look at a schema")
    schema = {
        "type": "object",
        "properties": {"verdict": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}},
        "required": ["verdict", "sure"],
        "additionalProperties": False,
    }
    free = await runtime.run(talker, "Judge this")
    held = await runtime.run(
        Agent(name="judge", model=MODEL, settings=Settings(output_schema=schema)), "Judge this"
    )
    assert json.loads(free.unwrap()) == {"verdict": "maybe"}
    answer = json.loads(held.unwrap())
    assert (answer["verdict"] in ("yes", "no"), answer["sure"] in (True, False), len(answer)) == (
        True,
        True,
        2,
    )
