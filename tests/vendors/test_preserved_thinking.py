"""Thinking that depends on all that stands before it: a run never ends because Treadle changed
something there.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.providers.speech import Text
from tests.vendors.rules import every
from tests.vendors.server import Reply, Vendor, call, think, vendor
from treadle import Agent, Limits, Outcome, Runtime, Settings, tool
from treadle.config.model_profile import Abilities
from treadle.messages.events import Warned
from treadle.models.providers.known_models import known

BINDS = known("anthropic", None, "claude-opus-5-5")


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at a thing."""
    return f"{at}: " + "seen " * 400


@tool(effect="pure")
async def feel(at: str) -> str:
    """Feel a thing."""
    return at


def look_at(at: str) -> Reply:
    return [think(), call("look", at=at)]


def says(text: str) -> Reply:
    return [think(), Text((text,))]


DONE = says("done")


def thoughts(server: Vendor) -> list[int]:
    """Blocks of thinking in each request that was answered."""
    return [sum(1 for _ in every(body["messages"], "thinking")) for body in server.bodies]


def agent(server: Vendor, abilities: Abilities = BINDS, **other: Any) -> Agent[None, str]:
    model = server.model("anthropic", "claude-opus-5-5", abilities)
    return Agent(**{"name": "a", "instructions": "Look.", "model": model, "tools": [look], **other})


async def test_a_run_and_its_session_keep_their_thinking() -> None:
    async with (
        vendor(look_at("x"), look_at("y"), DONE, look_at("z"), DONE, DONE) as server,
        Runtime.open() as runtime,
    ):
        session = runtime.session(agent=agent(server))
        for prompt in ("one", "two", "three"):
            assert (await session.send(prompt)).outcome is Outcome.COMPLETED
    assert (thoughts(server), len(server.refused)) == ([0, 1, 2, 3, 4, 5], 0)


async def test_the_thinking_of_earlier_runs_is_left_out_for_a_model_that_does_not_read_it() -> None:
    older = Abilities(preserved_thinking=True, earlier_thinking=False)
    async with vendor(look_at("x"), DONE, look_at("z"), DONE) as server, Runtime.open() as runtime:
        session = runtime.session(agent=agent(server, older))
        for prompt in ("one", "two"):
            assert (await session.send(prompt)).outcome is Outcome.COMPLETED
    assert (thoughts(server), len(server.refused)) == ([0, 1, 0, 1], 0)


@pytest.mark.parametrize("changed", [{"instructions": "Look twice."}, {"tools": [look, feel]}])
async def test_a_session_goes_on_with_another_agent_and_without_the_thinking_that_no_longer_fits(
    changed: dict[str, Any],
) -> None:
    async with (
        vendor(look_at("x"), DONE, look_at("y"), DONE, DONE) as server,
        Runtime.open() as runtime,
    ):
        assert (
            await runtime.session("s", agent=agent(server)).send("one")
        ).outcome is Outcome.COMPLETED
        other = runtime.session("s", agent=agent(server, **changed))
        assert (await other.send("two")).outcome is Outcome.COMPLETED
        assert (await other.send("three")).outcome is Outcome.COMPLETED
    assert (thoughts(server), len(server.refused)) == ([0, 1, 0, 1, 2], 0)


async def test_a_fork_with_another_agent_completes() -> None:
    async with (
        vendor(look_at("x"), look_at("y"), DONE, says("forked"), says("forked")) as server,
        Runtime.open() as runtime,
    ):
        first = await runtime.run(agent(server), "one")
        assert (
            await runtime.fork(first.run_id, turn=2, agent=agent(server, instructions="Be brief."))
        ).outcome is Outcome.COMPLETED
        assert (
            await runtime.fork(first.run_id, turn=2, agent=agent(server))
        ).outcome is Outcome.COMPLETED
    assert (thoughts(server), len(server.refused)) == ([0, 1, 2, 0, 2], 0)


async def test_a_run_whose_results_are_cleared_completes() -> None:
    small = Abilities(context_tokens=3_000, preserved_thinking=True, earlier_thinking=True)
    script = [look_at(f"x{i}") for i in range(12)]
    async with vendor(*script, DONE) as server, Runtime.open() as runtime:
        result = await runtime.run(
            agent(server, small, limits=Limits(turns=20)), "one", settings=Settings(max_tokens=200)
        )
    assert result.outcome is Outcome.COMPLETED, result.error
    assert server.refused == []


async def test_a_run_goes_on_where_the_provider_refuses_thinking_that_should_fit() -> None:
    unknown = Abilities(earlier_thinking=True)
    async with (
        vendor(look_at("x"), DONE, look_at("y"), look_at("z"), DONE) as server,
        Runtime.open() as runtime,
    ):
        assert (
            await runtime.session("s", agent=agent(server, unknown)).send("one")
        ).outcome is Outcome.COMPLETED
        async with runtime.session("s", agent=agent(server, unknown, instructions="Else.")).stream(
            "two"
        ) as run:
            warnings = [event.text async for event in run if isinstance(event, Warned)]
            result = run.result
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "done")
    assert (thoughts(server), len(server.refused)) == ([0, 1, 0, 1, 2], 1)
    assert warnings == [
        "the provider rejected the model's earlier thinking as that of another conversation: it is left out from here on"
    ]
