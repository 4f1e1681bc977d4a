"""Odd responses: cut, paused, refused, empty, malformed, repeated.

Each has a continuation, and the history stays valid.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import PlayedModel, Step, asks, call, end, gives, says, text, watch, wishes
from treadle.loop.inbox import NO_ANSWER
from treadle.messages import events
from treadle.messages.message import ProviderPart
from treadle.models.model import (
    ArgumentsDelta,
    ModelNotice,
    PartEnd,
    ReasoningDelta,
    Restart,
    TextDelta,
    ToolCallStart,
    WholePart,
)
from treadle.testing import ScriptedModel
from treadle.types import Limits, StopReason

# ---------------------------------------------------------------- max_tokens


async def test_a_call_that_max_tokens_cut_is_not_run_and_the_run_goes_on() -> None:
    cut: list[Step] = [ToolCallStart("c1", "write"), ArgumentsDelta('{"text": "once upon')]
    model = PlayedModel([*cut, end(StopReason.MAX_TOKENS)], text("I will do it in steps."))
    seen = await watch(model, gives("write"))
    assert seen.outcome == "completed"
    assert "cut by its limit on output tokens" in seen.results[0]
    assert seen.result.metrics.tool_calls == 0


async def test_of_several_calls_only_the_last_was_cut_and_the_others_are_run() -> None:
    model = PlayedModel(
        wishes(
            ("c1", "look", "{}"),
            ("c2", "look", "{}"),
            ("c3", "look", "{}"),
            stop=StopReason.MAX_TOKENS,
        ),
        text("done"),
    )
    seen = await watch(model, gives("look"))
    assert seen.results[:2] == ["ok", "ok"]
    assert "Not run" in seen.results[2]
    assert seen.outcome == "completed"


# ---------------------------------------------------------------- pause, refusal, overflow


async def test_a_pause_is_sent_back_as_it_is_and_the_run_goes_on() -> None:
    search: list[Step] = [
        TextDelta("Let me search."),
        WholePart(ProviderPart(provider="anthropic", data='{"type": "server_tool_use"}')),
    ]
    model = PlayedModel([*search, end(StopReason.PAUSE)], text("Found it."))
    seen = await watch(model)
    assert seen.outcome == "completed"
    assert [m.role for m in model.histories[1]] == ["user", "assistant"]
    assert model.histories[1][-1].parts[-1] == ProviderPart(
        provider="anthropic", data='{"type": "server_tool_use"}'
    )
    assert seen.result.turn_count == 2


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [(StopReason.REFUSAL, "refused"), (StopReason.CONTEXT_OVERFLOW, "context_overflow")],
)
async def test_the_calls_of_a_response_that_ends_the_run_are_closed_and_not_run(
    stop: StopReason, outcome: str
) -> None:
    seen = await watch(
        PlayedModel(wishes(("c1", "look", "{}"), ("c2", "look", "{}"), stop=stop)), gives("look")
    )
    assert seen.outcome == outcome
    assert len(seen.results) == 2
    assert all(stop.value in result for result in seen.results)
    assert seen.result.metrics.tool_calls == 0


# ---------------------------------------------------------------- empty


@pytest.mark.parametrize(
    "empty",
    [
        [end()],
        [TextDelta(" \n"), end()],
        [end(StopReason.TOOL_USE)],
        [ReasoningDelta("Hm."), end()],
    ],
)
async def test_an_empty_response_is_asked_for_once_more(empty: list[Step]) -> None:
    model = PlayedModel(empty, text("Here I am."))
    seen = await watch(model)
    assert (seen.outcome, seen.result.output) == ("completed", "Here I am.")
    assert "Your last response was empty" in model.histories[1][-1].text
    assert len(seen.of(events.InputAdded)) == 1


async def test_a_second_empty_response_in_a_row_completes_the_run() -> None:
    seen = await watch(PlayedModel([end()], [end()]))
    assert (seen.outcome, seen.result.output, seen.result.turn_count) == ("completed", "", 2)
    assert [warning.text for warning in seen.of(events.Warned)] == [NO_ANSWER]


async def test_an_empty_response_after_work_is_asked_for_again() -> None:
    seen = await watch(
        PlayedModel([end()], wishes(("c1", "look", "{}")), [end()], text("At last.")), gives("look")
    )
    assert (seen.outcome, seen.result.output) == ("completed", "At last.")


async def test_a_message_without_parts_is_not_in_the_history() -> None:
    seen = await watch(PlayedModel([end()], text("Hi.")))
    assert [m.role for m in seen.result.messages] == ["user", "user", "assistant"]


# ---------------------------------------------------------------- malformed, unknown, repeated


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"a": }', "nonsense", '"text"'])
async def test_malformed_arguments_go_back_to_the_model_and_stay_as_they_were(
    arguments: str,
) -> None:
    from treadle.tools.function import tool

    @tool(effect="pure")
    async def look(at: int = 0) -> str:
        """Looks."""
        return "seen"

    seen = await watch(PlayedModel(wishes(("c1", "look", arguments)), text("I see.")), look)
    assert seen.outcome == "completed"
    assert seen.result.messages[1].tool_calls[0].arguments_json == arguments
    assert seen.result.messages[2].tool_results[0].is_error
    assert [event.arguments for event in seen.of(events.ToolCallAsked)] == [arguments]
    assert "tool_call_start" not in seen.kinds


async def test_an_unknown_tool_is_answered_with_those_that_there_are() -> None:
    seen = await watch([asks(call("loook", "c1")), says("Sorry.")], gives("look"), gives("listen"))
    assert "'look'" in seen.results[0]
    assert "listen" in seen.results[0]
    assert [event.text for event in seen.of(events.Warned)] == [
        f"loook was not run: {seen.results[0]}"
    ]
    assert "tool.finished:c1:error" in seen.entries


async def test_two_calls_of_one_response_with_the_same_id_get_ids_of_their_own() -> None:
    seen = await watch(
        PlayedModel(wishes(("c", "look", '{"n": 1}'), ("c", "look", '{"n": 2}')), text("done")),
        gives("look"),
    )
    assert [c.id for c in seen.result.messages[1].tool_calls] == ["c", "c_2"]
    assert {event.call_id for event in seen.of(events.ToolCallDelta)} == {"c", "c_2"}
    assert [event.call_id for event in seen.of(events.ToolCallAsked)] == ["c", "c_2"]


async def test_a_call_that_repeats_the_id_of_an_earlier_turn_gets_one_of_its_own() -> None:
    seen = await watch(
        PlayedModel(*(wishes(("c", "look", f'{{"n": {n}}}')) for n in range(3)), text("done")),
        gives("look"),
    )
    assert [c.id for m in seen.result.messages for c in m.tool_calls] == ["c", "c_2", "c_3"]
    assert [event.call_id for event in seen.of(events.ToolCallEnd)] == ["c", "c_2", "c_3"]


async def test_calls_without_an_id_get_one() -> None:
    seen = await watch(
        PlayedModel(wishes(("", "look", "{}"), ("", "look", '{"a": 1}')), text("done")),
        gives("look"),
    )
    assert all(c.id.startswith("call_") for c in seen.result.messages[1].tool_calls)


async def test_equal_calls_in_one_turn_are_each_run() -> None:
    ran: list[int] = []
    counter = gives("count")

    async def does(ctx: Any, arguments: Any) -> str:
        ran.append(1)
        return str(len(ran))

    counter.does = does
    seen = await watch([asks(call("count"), call("count")), says("done")], counter)
    assert seen.results == ["1", "2"]


async def test_a_response_of_calls_and_text_keeps_both() -> None:
    seen = await watch([asks(call("look"), text="Let me look."), says("done")], gives("look"))
    assert seen.result.messages[1].text == "Let me look."


# ---------------------------------------------------------------- inside one stream


async def test_what_came_before_the_provider_began_anew_is_void() -> None:
    steps: list[Step] = [
        ReasoningDelta("Wro"),
        TextDelta("Wrong"),
        Restart(),
        ToolCallStart("c1", "look"),
        ArgumentsDelta("{}"),
        PartEnd(),
        Restart(),
    ]
    seen = await watch(PlayedModel([*steps, TextDelta("Right"), end()]), gives("look"))
    assert (seen.outcome, seen.result.text) == ("completed", "Right")
    assert seen.result.messages[-1].tool_calls == ()
    assert seen.result.metrics.retries == 0
    assert [event.attempt for event in seen.of(events.Retry)] == [1, 2]
    assert seen.of(events.TextDelta)[-1].attempt == 3


async def test_a_notice_of_the_model_is_a_warning_for_the_person() -> None:
    seen = await watch(PlayedModel([ModelNotice("temperature was left out"), *text("Hi.")]))
    assert [event.text for event in seen.of(events.Warned)] == ["temperature was left out"]
    assert seen.result.text == "Hi."


async def test_two_blocks_of_reasoning_are_two_pairs_of_events() -> None:
    seen = await watch(
        PlayedModel([ReasoningDelta("a"), PartEnd(), ReasoningDelta("b"), PartEnd(), *text("c")])
    )
    assert seen.kinds.count("reasoning_start") == seen.kinds.count("reasoning_end") == 2


async def test_an_empty_last_word_after_the_call_limit_ends_with_the_limit() -> None:
    model = ScriptedModel([asks(call("look"), call("look")), says("")])
    assert (await watch(model, gives("look"), limits=Limits(tool_calls=1))).outcome == "call_limit"


async def test_a_model_that_yields_something_else_ends_the_run_with_an_error_that_names_it() -> (
    None
):
    hello: Any = "Hello"
    seen = await watch(PlayedModel([hello]))
    assert seen.result.error is not None
    assert seen.result.error.message.startswith(
        "the model yielded str, which is not a delta: yield TextDelta(text)"
    )
