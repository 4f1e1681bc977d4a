"""Responses that their limit on output tokens cut: the next one may be longer, once."""

from __future__ import annotations

from typing import Any

from tests.doubles import (
    PlayedModel,
    agent,
    asks,
    call,
    end,
    gives,
    open_runtime,
    says,
    text,
    watch,
    wishes,
)
from treadle import Settings
from treadle.config.model_profile import Abilities
from treadle.models.model import ReasoningDelta
from treadle.testing import ScriptedModel
from treadle.types import StopReason, Usage

LARGE = Abilities(context_tokens=1_000_000, output_tokens=128_000)
THOUGHT = [ReasoningDelta("Let me think"), end(StopReason.MAX_TOKENS)]


def large(model: Any) -> Any:
    model.abilities = LARGE
    return model


def asked_for(model: Any) -> list[int | None]:
    return [request.settings.max_tokens for request in model.requests]


async def test_a_call_that_was_cut_is_made_again_with_more_room() -> None:
    model = large(
        ScriptedModel(
            [asks(call("write", "c1"), stop="max_tokens"), asks(call("write", "c2")), says("done")]
        )
    )
    seen = await watch(model, gives("write"))
    assert (seen.outcome, asked_for(model)) == ("completed", [32_000, 128_000, 128_000])
    assert seen.results == [
        "Not run: the response was cut by its limit on output tokens inside this call. The limit is higher now: make it again.",
        "ok",
    ]


async def test_a_model_that_was_cut_while_thinking_goes_on_once() -> None:
    model = large(PlayedModel(THOUGHT, text("Done.")))
    seen = await watch(model)
    assert (seen.outcome, seen.result.text, asked_for(model)) == (
        "completed",
        "Done.",
        [32_000, 128_000],
    )
    assert (
        "cut by its limit on output tokens while you were thinking" in seen.result.messages[2].text
    )
    twice = await watch(large(PlayedModel(THOUGHT, THOUGHT, text("never"))))
    assert (twice.outcome, twice.result.turn_count) == ("truncated", 2)


async def test_a_limit_that_was_asked_for_is_kept() -> None:
    model = large(PlayedModel(THOUGHT, text("never")))
    result = await open_runtime().run(agent(model), "go", settings=Settings(max_tokens=100))
    assert (result.outcome, asked_for(model)) == ("truncated", [100])


def test_the_default_follows_from_what_the_model_gives() -> None:
    assert LARGE.output() == 32_000
    assert Abilities(context_tokens=200_000, output_tokens=16_384).output() == 16_384
    assert Abilities(context_tokens=65_536, output_tokens=65_536).output() == 16_384
    assert Abilities(context_tokens=16_000, output_tokens=16_000).output() == 8192
    assert Abilities().output() == 8192
    assert LARGE.output(200_000) == 128_000


async def test_usage_that_a_provider_sums_over_its_own_tools_does_not_fill_the_window() -> None:
    searched = Usage(input_tokens=404_500, output_tokens=500)
    for size in (60_000, 0):
        model = PlayedModel(
            [
                *wishes(("c1", "look", "{}"))[:-1],
                end(StopReason.TOOL_USE, usage=searched, context_tokens=size),
            ],
            text("Found."),
        )
        model.abilities = Abilities(context_tokens=200_000)  # type: ignore[attr-defined]
        seen = await watch(model, gives("look"))
        assert (seen.outcome, len(model.requests), seen.result.metrics.usage.input_tokens) == (
            "completed",
            2,
            404_510,
        )
