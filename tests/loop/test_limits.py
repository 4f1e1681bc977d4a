"""Limits: on turns, calls, tokens and seconds.

Each is an end like any other, with everything so far.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.doubles import (
    USED,
    PlainTool,
    PlayedModel,
    agent,
    asks,
    call,
    gives,
    open_runtime,
    says,
    skip,
    text,
    watch,
)
from treadle import ToolContext
from treadle._internal.clock import Clock
from treadle.config.sections import Price
from treadle.config.values import Config
from treadle.errors import AgentError, ErrorKind
from treadle.journal.entries import ToolFinished
from treadle.messages import events
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.types import Limits, Settings

LOOKS: list[dict[str, Any]] = [asks(call("look", at=i)) for i in range(200)]


def used(tokens_in: int, tokens_out: int) -> dict[str, int]:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out}


# ---------------------------------------------------------------- turns


async def test_a_limit_on_turns_is_the_number_of_times_the_model_is_asked() -> None:
    model = ScriptedModel(LOOKS)
    seen = await watch(model, gives("look"), limits=Limits(turns=4))
    assert seen.outcome == "turn_limit"
    assert (len(model.requests), seen.result.turn_count, seen.result.metrics.tool_calls) == (
        4,
        4,
        3,
    )
    assert "last turn" in seen.results[-1]


async def test_in_the_last_turn_the_model_is_told_and_must_not_call_tools_that_are_still_there() -> (
    None
):
    model = ScriptedModel([asks(call("look")), says("It is warm.")])
    seen = await watch(model, gives("look"), limits=Limits(turns=2))
    assert seen.outcome == "completed"
    assert seen.result.output == "It is warm."
    first, last = model.requests
    assert (first.settings.tool_choice, last.settings.tool_choice) == (None, "none")
    assert last.tools == first.tools
    assert "last turn" in last.messages[-1].text
    assert [(event.limit, event.left) for event in seen.of(events.LimitWarning)] == [("turns", 1)]
    assert [event.text for event in seen.of(events.InputAdded)] == [last.messages[-1].text]


async def test_a_last_turn_without_tools_sets_no_tool_choice() -> None:
    model = PlayedModel(text(" "), text("Hi."))
    seen = await watch(model, limits=Limits(turns=2))
    assert seen.outcome == "completed"
    assert model.requests[1].settings.tool_choice is None


async def test_a_run_of_one_turn_is_not_warned_and_may_not_run_what_it_calls() -> None:
    model = ScriptedModel([asks(call("look"), text="Let me see.")])
    seen = await watch(model, gives("look"), limits=Limits(turns=1))
    assert seen.outcome == "turn_limit"
    assert seen.result.text == "Let me see."
    assert len(model.requests[0].messages) == 1
    assert model.requests[0].settings.tool_choice is None
    assert not seen.of(events.LimitWarning)
    assert seen.result.metrics.tool_calls == 0
    assert (await watch([says("hi")], limits=Limits(turns=1))).outcome == "completed"


@pytest.mark.parametrize("limits", [Limits(turns=1), Limits(turns=2), Limits(tool_calls=1)])
async def test_a_call_that_a_limit_kept_from_running_says_in_the_journal_which(
    limits: Limits,
) -> None:
    seen = await watch(
        [asks(call("look", at=1), call("look", at=2)), asks(call("look", at=3))],
        gives("look"),
        limits=limits,
    )
    *_, last = [record.entry for record in seen.records if isinstance(record.entry, ToolFinished)]
    assert last.cut_by == seen.outcome == ("call_limit" if limits.tool_calls else "turn_limit")


async def test_a_last_turn_full_of_the_same_call_ends_at_its_limit_and_not_as_looping() -> None:
    seen = await watch(
        [asks(call("look")), asks(*(call("look", at=1) for _ in range(9)))],
        gives("look"),
        limits=Limits(turns=2),
    )
    assert seen.outcome == "turn_limit"


async def test_without_limits_a_run_ends_after_a_hundred_turns() -> None:
    seen = await watch(LOOKS, gives("look"))
    assert (seen.outcome, seen.result.turn_count) == ("turn_limit", 100)
    with pytest.raises(AgentError) as caught:
        seen.result.unwrap()
    assert caught.value.kind is ErrorKind.LIMIT


async def test_an_empty_or_paused_last_turn_is_the_end_all_the_same() -> None:
    for stop in ("complete", "pause"):
        seen = await watch(
            [asks(call("look")), {"stop": stop, "usage": USED}],
            gives("look"),
            limits=Limits(turns=2),
        )
        assert seen.outcome == "turn_limit"


# ---------------------------------------------------------------- calls


async def test_a_batch_beyond_the_limit_on_calls_is_cut_in_the_order_of_the_calls() -> None:
    ran: list[int] = []

    async def does(ctx: ToolContext[None], arguments: dict[str, int]) -> str:
        ran.append(arguments["at"])
        return "seen"

    model = ScriptedModel(
        [asks(*(call("look", f"c{i}", at=i) for i in range(5))), says("Three of five.")]
    )
    seen = await watch(model, PlainTool(name="look", does=does), limits=Limits(tool_calls=3))
    assert ran == [0, 1, 2]
    assert seen.results[:3] == ["seen"] * 3
    assert all("limit of 3 tool calls" in result for result in seen.results[3:])
    assert seen.outcome == "call_limit"
    assert seen.result.text == "Three of five."
    assert seen.result.metrics.tool_calls == 3
    assert model.requests[1].settings.tool_choice == "none"
    assert [(event.limit, event.left) for event in seen.of(events.LimitWarning)] == [
        ("tool_calls", 0)
    ]


async def test_a_limit_on_calls_that_is_exactly_used_up_and_cuts_nothing_completes() -> None:
    model = ScriptedModel([asks(call("look", at=1), call("look", at=2)), says("Both seen.")])
    seen = await watch(model, gives("look"), limits=Limits(tool_calls=2))
    assert seen.outcome == "completed"
    assert model.requests[1].settings.tool_choice == "none"


async def test_a_call_after_the_limit_on_calls_ends_the_run() -> None:
    seen = await watch(
        [asks(call("look")), asks(call("look"), text="But I must.")],
        gives("look"),
        limits=Limits(tool_calls=1),
    )
    assert seen.outcome == "call_limit"
    assert seen.result.text == "But I must."
    assert seen.result.metrics.tool_calls == 1


async def test_calls_that_cannot_run_do_not_count_against_the_limit() -> None:
    calls = [call("nope"), call("look", at=1), call("nope"), call("look", at=2)]
    seen = await watch([asks(*calls), says("done")], gives("look"), limits=Limits(tool_calls=2))
    assert (seen.outcome, seen.result.metrics.tool_calls) == ("completed", 2)
    assert seen.results[1] == seen.results[3] == "ok"


async def test_a_call_limit_that_cut_something_names_the_end_also_in_the_last_of_the_turns() -> (
    None
):
    seen = await watch(
        [asks(call("look"), call("look")), says("One of two.")],
        gives("look"),
        limits=Limits(tool_calls=1, turns=2),
    )
    assert seen.outcome == "call_limit"


# ---------------------------------------------------------------- tokens


async def test_no_request_asks_for_more_output_than_the_run_has_left() -> None:
    model = ScriptedModel(
        [asks(call("look", at=i), usage=used(100 * (i + 1), 20)) for i in range(20)]
    )
    seen = await watch(model, gives("look"), limits=Limits(tokens=2000))
    assert seen.outcome == "token_limit"
    spent = 0
    for i, request in enumerate(model.requests):
        assert request.settings.max_tokens is not None
        assert spent + request.settings.max_tokens <= 2000 - (100 * i + 20 if i else 0)
        spent += 100 * (i + 1) + 20
    assert seen.result.metrics.usage.total_tokens <= 2000


async def test_a_run_whose_input_does_not_fit_is_not_started() -> None:
    model = ScriptedModel([says("never")])
    seen = await watch(model, prompt="word " * 1000, limits=Limits(tokens=500))
    assert (seen.outcome, seen.result.turn_count) == ("token_limit", 0)
    assert model.requests == []
    assert seen.kinds == ["run_start", "run_end"]


@pytest.mark.parametrize("where", ["instructions", "tools", "steering"])
async def test_everything_that_goes_into_a_request_counts_as_its_input(where: str) -> None:
    long = "word " * 500
    model = ScriptedModel(
        [asks(call("look"), usage=used(20, 20)), says("never")]
        if where == "steering"
        else [says("never")]
    )
    tool = gives("look" if where != "tools" else "look" + "k" * 2500)
    rt = open_runtime()
    async with rt.stream(
        agent(model, tool, instructions=long if where == "instructions" else ""),
        "go",
        limits=Limits(tokens=500),
    ) as stream:
        async for event in stream:
            if where == "steering" and isinstance(event, events.ToolCallStart):
                stream.steer(long)
    assert stream.result.outcome == "token_limit"
    assert len(model.requests) == (where == "steering")


async def test_steering_that_no_longer_fits_is_in_the_history_all_the_same() -> None:
    long = "word " * 500

    def steer(stream: Any, event: events.Event) -> None:
        if isinstance(event, events.ToolCallStart):
            stream.steer(long)

    seen = await watch(
        [asks(call("look"), usage=used(20, 20))],
        gives("look"),
        limits=Limits(tokens=500),
        while_running=steer,
    )
    assert seen.outcome == "token_limit"
    assert seen.result.messages[-1].text == long
    assert [event.text for event in seen.of(events.InputAdded)] == [long]


async def test_an_answer_cut_because_the_run_had_no_more_tokens_is_token_limit_and_not_truncated() -> (
    None
):
    seen = await watch([says("Once upon", stop="max_tokens")], limits=Limits(tokens=300))
    assert seen.outcome == "token_limit"
    seen = await watch(
        [says("Once upon", stop="max_tokens")],
        limits=Limits(tokens=300),
        settings=Settings(max_tokens=50),
    )
    assert seen.outcome == "truncated"


async def test_cached_input_counts_too() -> None:
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_read_tokens": 400,
        "cache_write_tokens": 400,
    }
    seen = await watch(
        [asks(call("look"), usage=usage), says("never")], gives("look"), limits=Limits(tokens=1000)
    )
    assert (seen.outcome, seen.result.turn_count) == ("token_limit", 1)


async def test_text_that_utf8_cannot_hold_can_be_counted() -> None:
    assert (
        await watch([says("hi")], prompt="\ud83d", limits=Limits(tokens=1000))
    ).outcome == "completed"


# ---------------------------------------------------------------- seconds


async def test_a_timeout_ends_the_run_at_once_inside_a_tool() -> None:
    async def late(ctx: ToolContext[Any], arguments: Any) -> str:
        skip(6)
        await anyio.sleep_forever()
        return "never"

    gate = PlainTool(name="gate", does=late)
    seen = await watch([asks(call("gate", "c1"))], gate, limits=Limits(seconds=5))
    assert seen.outcome == "timeout"
    assert "tool.finished:c1:unknown" in seen.entries
    assert "The run timed out while this call was running" in seen.results[0]
    with pytest.raises(AgentError) as caught:
        seen.result.unwrap()
    assert caught.value.kind is ErrorKind.TIMEOUT


async def test_a_timeout_ends_the_run_at_once_inside_a_stream_and_keeps_its_text() -> None:
    async def late() -> None:
        skip(6)
        await anyio.sleep_forever()

    model = PlayedModel([TextDelta("Once upon"), late])
    seen = await watch(model, limits=Limits(seconds=5))
    assert (seen.outcome, seen.result.text) == ("timeout", "Once upon")
    assert model.open == 0


async def test_a_timeout_ends_the_run_at_once_inside_a_backoff() -> None:
    class Waits(Clock):
        async def sleep(self, seconds: float) -> None:
            skip(6)
            await anyio.sleep(seconds)

    seen = await watch(
        [{"error": {"kind": "rate_limit", "status": 429, "retry_after_s": 500}}],
        runtime=open_runtime(clock=Waits()),
        limits=Limits(seconds=5),
    )
    assert seen.outcome == "timeout"
    assert seen.kinds[-3:] == ["retry", "turn_end", "run_end"]


async def test_a_tool_is_told_the_earlier_of_its_own_deadline_and_the_runs() -> None:
    deadlines: list[float | None] = []

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        deadlines.append(ctx.deadline)
        return "ok"

    begun = anyio.current_time()
    free, own = PlainTool(name="free", does=does), PlainTool(name="own", does=does, timeout_s=50)
    for seconds in (None, 40.0, 4000.0):
        await watch(
            [asks(call("free")), asks(call("own")), says("done")],
            free,
            own,
            limits=Limits(seconds=seconds),
        )
    left = [
        None if deadline is None else round((deadline - begun) / 10) * 10 for deadline in deadlines
    ]
    assert left == [None, 50, 40, 40, 4000, 50]


# ---------------------------------------------------------------- which limits


async def test_the_limits_of_the_call_go_over_the_agents_field_by_field() -> None:
    rt = open_runtime()
    result = await rt.run(
        agent(LOOKS, gives("look"), limits=Limits(turns=50, tool_calls=2)),
        "go",
        limits=Limits(turns=9),
    )
    assert (result.outcome, result.turn_count, result.metrics.tool_calls) == ("call_limit", 3, 2)
    result = await rt.run(
        agent(LOOKS, gives("look"), limits=Limits(turns=50, tool_calls=2)),
        "go",
        limits=Limits(tool_calls=9, turns=3),
    )
    assert (result.outcome, result.turn_count) == ("turn_limit", 3)


# ---------------------------------------------------------------- providers that do not tell


NOTHING_TOLD = {"input_tokens": 0, "output_tokens": 0}


async def test_what_a_provider_does_not_tell_counts_as_what_it_was_asked_and_said() -> None:
    async with open_runtime() as rt:
        result = await rt.run(
            agent(
                [asks(call("look", at=f"{i}" + "x" * 300), usage=NOTHING_TOLD) for i in range(50)],
                gives("look", "y" * 300),
            ),
            "go",
            limits=Limits(tokens=5_000),
        )
    assert result.outcome == "token_limit"
    assert 2 < result.turn_count < 15
    assert result.metrics.usage.total_tokens == 0, "what was not told is not made up"


async def test_money_is_counted_so_too() -> None:
    config = Config(prices={"script:inline": Price(input=1000, output=1000)})
    async with open_runtime(config=config) as rt:
        result = await rt.run(
            agent(
                [asks(call("look", at=f"{i}" + "x" * 300), usage=NOTHING_TOLD) for i in range(50)],
                gives("look", "y" * 300),
            ),
            "go",
            limits=Limits(cost_usd=5),
        )
    assert result.outcome == "cost_limit"
    assert 2 < result.turn_count < 15
