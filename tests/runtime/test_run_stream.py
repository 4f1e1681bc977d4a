"""A run as a stream: when it begins, what can be asked of it when, and how the block is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlayedModel,
    agent,
    asks,
    call,
    end,
    gives,
    kind_of,
    open_runtime,
    says,
    text,
)
from treadle import Agent
from treadle.errors import AgentError
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel, collect


async def test_events_come_while_the_run_goes_on() -> None:
    gate, kinds = Gate(), list[str]()
    async with open_runtime().stream(
        agent(PlayedModel([TextDelta("Once"), gate.stop, *text(" upon")])), "go"
    ) as run:
        async for event in run:
            kinds.append(kind_of(event))
            if kinds[-1] == "text_delta":
                gate.opened.set()
    assert kinds[-1] == "run_end"
    assert run.result.text == "Once upon"


async def test_a_stream_and_a_collected_run_come_to_the_same() -> None:
    rt, script = open_runtime(), [says("hi", reasoning="hm")]
    async with rt.stream(agent(script), "go") as run:
        await collect(run)
    result = await rt.run(agent(script), "go")
    assert (run.result.outcome, run.result.output, run.result.metrics) == (
        result.outcome,
        result.output,
        result.metrics,
    )


async def test_nothing_begins_before_the_block() -> None:
    model = ScriptedModel([says("hi")])
    stream = open_runtime().stream(agent(model), "go", session="s")
    for ask in (
        lambda: stream.run_id,
        lambda: stream.session_id,
        lambda: stream.result,
        stream.cancel,
    ):
        with pytest.raises(AgentError, match="has not started"):
            ask()
    assert model.requests == []
    async with stream:
        assert stream.run_id.startswith("run_")
        assert stream.session_id == "s"


async def test_what_is_wrong_is_said_when_the_block_is_entered() -> None:
    with pytest.raises(AgentError, match="empty"):
        async with open_runtime().stream(agent([]), " "):
            pass


async def test_the_result_is_there_after_the_end_and_not_before() -> None:
    gate = Gate()
    async with open_runtime().stream(agent(PlayedModel([gate.stop, *text("hi")])), "go") as run:
        await gate.reached.wait()
        with pytest.raises(AgentError, match="has not ended"):
            _ = run.result
        gate.opened.set()
        await collect(run)
        assert run.result.success, "also inside the block, once its events are read"


async def test_leaving_the_block_early_stops_the_run() -> None:
    model = PlayedModel([TextDelta("Once"), Gate().stop])
    async with open_runtime().stream(agent(model), "go") as run:
        async for event in run:
            if kind_of(event) == "text_delta":
                break
    assert (run.result.outcome, run.result.text) == ("cancelled", "Once")
    assert model.open == 0


async def test_leaving_the_block_after_the_end_changes_nothing() -> None:
    async with open_runtime().stream(agent([says("hi")]), "go") as run:
        await anyio.wait_all_tasks_blocked()
    assert run.result.outcome == "completed"


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
async def test_an_error_of_the_block_comes_out_as_it_is(error: type[BaseException]) -> None:
    stream = open_runtime().stream(agent(PlayedModel([Gate().stop])), "go")
    with pytest.raises(error):
        async with stream:
            raise error
    assert stream.result.outcome == "cancelled"


async def test_a_stream_is_one_run_and_is_entered_once() -> None:
    rt = open_runtime()
    stream = rt.stream(agent([says("hi"), says("ho")]), "go", session="s")
    async with stream:
        await collect(stream)
    with pytest.raises(AgentError, match="entered already"):
        await stream.__aenter__()
    assert not rt.is_busy("s")
    assert stream.result.output == "hi"


async def test_a_run_can_be_stopped_again_and_after_its_end() -> None:
    async with open_runtime().stream(agent([says("hi")]), "go") as run:
        await collect(run)
        run.cancel()
    run.cancel()
    assert run.result.outcome == "completed"


@pytest.mark.parametrize("kind", ["anyio", "asyncio"])
@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_deadline_around_a_stream_that_ends_its_run_is_raised(
    kind: str, steps: int
) -> None:
    """However few steps before the end it passes."""
    loop, over, raised = asyncio.get_running_loop(), False, False
    one = agent([asks(call("look", "c1")), says("done")], gives("look"))
    rt = open_runtime()
    stream = rt.stream(one, "go")

    def tick(left: int, passes: Callable[[], object]) -> None:
        if left == 1 and not over:
            passes()
        elif not over:
            loop.call_soon(tick, left - 1, passes)

    try:
        async with AsyncExitStack() as stack:
            if kind == "anyio":
                scope = stack.enter_context(anyio.fail_after(500))
                loop.call_soon(tick, steps, lambda: setattr(scope, "deadline", loop.time() - 1))
            else:
                timeout = await stack.enter_async_context(asyncio.timeout(500))
                loop.call_soon(tick, steps, lambda: timeout.reschedule(loop.time() - 1))
            async with stream:
                async for _ in stream:
                    pass
    except TimeoutError:
        raised = True
    over = True
    assert raised or stream.result.outcome == "completed"


@dataclass
class Spot:
    name: str
    days: int = 1


def spots(*texts: str, **fields: Any) -> Agent[Any, list[Spot]]:
    """One response for each text."""
    model = ScriptedModel([says(one) for one in texts])
    return Agent(name="tester", model=model, output=list[Spot], **fields)


async def test_the_output_is_read_as_it_grows() -> None:
    texts = ['{"result": [{"name": "qu', 'ay"}, {"name": "mill"', ', "days": 2', "}]}"]
    gates = [Gate() for _ in texts]
    played = [
        part for gate, one in zip(gates, texts, strict=True) for part in (gate.stop, TextDelta(one))
    ]
    model = PlayedModel([*played, end()])
    agent = Agent(name="tester", model=model, output=list[Spot])
    seen: list[list[Spot]] = []
    async with open_runtime().stream(agent, "go") as run:
        assert run.output_so_far is None
        gates[0].opened.set()
        async for value in run.output_stream():
            seen.append(value)
            for gate in gates[1 : 2 if len(seen) == 1 else 4]:
                gate.opened.set()
    assert seen == [
        [Spot("qu")],
        [Spot("quay"), Spot("mill")],
        [Spot("quay"), Spot("mill", 2)],
    ]
    assert run.result.unwrap() == run.output_so_far == seen[-1]


async def test_the_output_begins_again_when_it_is_corrected() -> None:
    agent = spots('{"result": [{"name": "quay", "days": "x"}]}', '{"result": [{"name": "mill"}]}')
    async with open_runtime().stream(agent, "go") as run:
        seen = [value async for value in run.output_stream()]
    assert seen == [[Spot("quay")], [Spot("mill")]]


async def test_an_output_that_is_not_valid_is_no_value_of_the_stream() -> None:
    async with open_runtime().stream(spots('{"result": [{}]}', retries=0), "go") as run:
        seen = [value async for value in run.output_stream()]
    assert (seen, run.result.outcome) == ([[]], "invalid_output")


async def test_the_output_of_a_call_comes_at_the_end_and_other_text_is_not_it() -> None:
    done = asks(
        call("complete", "a", output=[{"name": "quay"}]), text='{"result": [{"name": "no"}]}'
    )
    agent: Agent[Any, list[Spot]] = Agent(
        name="tester", model=ScriptedModel([done]), output=list[Spot], completion=True
    )
    async with open_runtime().stream(agent, "go") as run:
        assert [value async for value in run.output_stream()] == [[Spot("quay")]]
        assert run.output_so_far is None


async def test_the_output_of_an_agent_of_texts_is_its_text_so_far() -> None:
    agent = Agent(name="tester", model=PlayedModel([*map(TextDelta, ("a", "b", "c")), end()]))
    async with open_runtime().stream(agent, "go") as run:
        seen = [value async for value in run.output_stream()]
    assert seen[-1] == "abc"
    assert all("abc".startswith(value) for value in seen)
