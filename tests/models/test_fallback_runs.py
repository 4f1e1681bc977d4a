"""Runs whose model is several: what the journal, the events, the bill and a later process know of
the switch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import open_runtime
from tests.models.providers.loopback import document, serving
from treadle import Agent, AgentError, FallbackModel, Limits, Outcome, Runtime, tool
from treadle.config import Config
from treadle.config.endpoint import Provider
from treadle.config.sections import Fallback, Price
from treadle.journal.entries import ModelRequested, ModelSwitched
from treadle.messages.events import Retry, TextDelta, Warned
from treadle.models.model import Model
from treadle.models.providers.anthropic import AnthropicModel, connect
from treadle.testing import ScriptedModel
from treadle.types import Usage

BUSY = {"error": {"kind": "rate_limit", "status": 429}}
LOOK = {"tool_calls": [{"name": "look", "arguments": {}}]}


@tool(effect="pure")
def look() -> str:
    """Looks."""
    return "nothing new"


def scripted(name: str, *entries: dict[str, Any]) -> ScriptedModel:
    return ScriptedModel(entries, name=name)


def agent(model: Model | str) -> Agent:
    return Agent(name="one", model=model, tools=[look])


async def test_the_switch_is_in_the_journal_and_told_and_kept_for_the_rest_of_the_run() -> None:
    first, second = scripted("a:1", BUSY), scripted("b:2", LOOK, {"text": "done"})
    async with Runtime.open("memory:") as rt:
        async with rt.stream(agent(FallbackModel(first, second)), "go") as run:
            events = [event async for event in run]
        result = run.result
        entries = [record.entry for record in await rt.journal.read(result.run_id)]
    assert (result.text, result.metrics.turns, result.metrics.invocations) == ("done", 2, 3)
    (switched,) = [entry for entry in entries if isinstance(entry, ModelSwitched)]
    assert (switched.before, switched.model) == ("a:1", "b:2")
    again = entries[entries.index(switched) + 1]
    assert isinstance(again, ModelRequested)
    assert again.failed is not None
    assert (again.attempt, again.failed.kind, again.failed.status, again.wait_s) == (
        2,
        "rate_limit",
        429,
        0.0,
    )
    assert [event.kind for event in events if isinstance(event, Retry)] == ["rate_limit"]
    (warned,) = [event.text for event in events if isinstance(event, Warned)]
    assert warned.startswith("a:1 did not answer (rate_limit: ")
    assert warned.endswith("b:2 is asked from here on")
    assert {event.attempt for event in events if isinstance(event, TextDelta)} == {1}, (
        "the second turn asks the second model at once"
    )


async def test_every_attempt_has_a_number_of_its_own_whoever_is_asked() -> None:
    first, second, third = (
        scripted("a:1", BUSY),
        scripted("b:2", BUSY),
        scripted("c:3", LOOK, {"text": "done"}),
    )
    async with Runtime.open("memory:") as rt:
        result = await rt.run(agent(FallbackModel(first, second, third)), "go")
        asked = [
            record.entry
            for record in await rt.journal.read(result.run_id)
            if isinstance(record.entry, ModelRequested)
        ]
    assert [(entry.turn, entry.attempt) for entry in asked] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert result.metrics.retries == 0 or result.metrics.invocations == 4


async def test_where_all_fail_the_retries_go_round_and_the_run_says_how_it_ended() -> None:
    async with open_runtime() as rt:
        result = await rt.run(
            agent(FallbackModel(scripted("a:1", *[BUSY] * 5), scripted("b:2", *[BUSY] * 5))), "go"
        )
        state = await rt.journal.load(result.run_id)
    assert result.outcome is Outcome.ERROR
    assert result.error is not None
    assert result.error.kind == "rate_limit"
    assert state.spending.used_up == {"a:1": 4, "b:2": 4}


async def test_a_refused_answer_is_paid_for() -> None:
    prices = {"a:1": Price(input=1_000_000, output=0), "b:2": Price(input=0, output=1_000_000)}
    first = scripted("a:1", {"stop": "refusal", "usage": {"input_tokens": 3, "output_tokens": 9}})
    second = scripted("b:2", {"text": "gladly", "usage": {"input_tokens": 4, "output_tokens": 2}})
    async with Runtime(config=Config(prices=prices)) as rt:
        result = await rt.run(agent(FallbackModel(first, second)), "go")
        state = await rt.journal.load(result.run_id)
    assert result.text == "gladly"
    assert result.metrics.usage == Usage(input_tokens=7, output_tokens=11)
    assert result.metrics.cost_usd == 5
    assert {model: spent.cost_usd for (_, model), spent in state.spending.by_day.items()} == {
        "a:1": 3,
        "b:2": 2,
    }


async def test_a_limit_on_money_needs_the_price_of_each_and_counts_with_the_dearest() -> None:
    first, second = scripted("a:1", BUSY), scripted("b:2", {"text": "dear"})
    async with Runtime(config=Config(prices={"a:1": Price(input=0, output=0)})) as rt:
        with pytest.raises(AgentError, match="the price of 'b:2' is not known"):
            await rt.run(agent(FallbackModel(first, second)), "go", limits=Limits(cost_usd=1))
    async with Runtime(
        config=Config(prices={"a:1": Price(input=0, output=0), "b:2": Price(input=0, output=1000)})
    ) as rt:
        result = await rt.run(agent(FallbackModel(first, second)), "go", limits=Limits(cost_usd=1))
        entries = [record.entry for record in await rt.journal.read(result.run_id)]
    assert [entry.max_tokens for entry in entries if isinstance(entry, ModelRequested)] == [
        1000,
        1000,
    ]


async def test_a_run_that_another_process_takes_over_goes_on_with_the_one_that_answered(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    @tool(effect="once", needs_approval=True)
    def pay() -> str:
        """Pays."""
        return "paid"

    def payer() -> Agent:
        return Agent(
            name="one",
            model=FallbackModel(
                scripted("a:1", BUSY, {"text": "first"}), scripted("b:2", asked, {"text": "second"})
            ),
            tools=[pay],
        )

    asked = {"tool_calls": [{"name": "pay", "arguments": {}, "id": "call_1"}]}
    async with Runtime.open(url) as rt:
        held = await rt.run(payer(), "go", on_ask="wait")
        assert held.outcome is Outcome.APPROVAL_NEEDED
    async with Runtime.open(url) as rt:
        done = await rt.resume(held.run_id, agent=payer(), approve="call_1")
    assert (done.outcome, done.text) == (Outcome.COMPLETED, "second")


async def test_the_configuration_names_who_is_asked_in_the_place_of_any_model() -> None:
    overloaded = document(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        status=529,
    )
    answer = {
        "id": "m",
        "model": "y",
        "content": [{"type": "text", "text": "here"}],
        "stop_reason": "end_turn",
        "usage": {"output_tokens": 1},
    }
    async with (
        serving(overloaded) as full,
        serving(document({"type": "message", **answer})) as free,
    ):
        providers = {
            name: Provider(type="anthropic", base_url=server.url)
            for name, server in (("full", full), ("free", free))
        }
        async with open_runtime(
            config=Config(providers=providers, fallback=Fallback(models=("full:x", "free:y")))
        ) as rt:
            result = await rt.run(agent("full:x"), "go")
            info = await rt.journal.info(result.run_id)
    assert (result.text, info.model, len(full.seen)) == ("here", "full:x", 1)


async def test_who_plays_a_file_wants_that_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([BUSY]))
    async with open_runtime(config=Config(fallback=Fallback(models=("anthropic:x",)))) as rt:
        result = await rt.run(agent(f"script:{tmp_path / 'a.json'}"), "go")
    assert result.outcome is Outcome.ERROR


async def test_names_of_files_can_stand_in_a_fallback_too(tmp_path: Path) -> None:
    for name, entries in {"a": [BUSY], "b": [{"text": "from b"}]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(entries))
    async with open_runtime() as rt:
        result = await rt.run(
            agent(FallbackModel(*(f"script:{tmp_path / name}.json" for name in ("a", "b")))), "go"
        )
    assert result.text == "from b"


async def test_names_that_mean_nothing_are_refused_before_the_run() -> None:
    async with Runtime.open("memory:") as rt:
        with pytest.raises(AgentError, match="unknown provider 'nobody'"):
            await rt.run(agent(FallbackModel("nobody:x", "script:a.json")), "go")


async def test_a_model_that_was_made_by_hand_costs_what_it_costs_where_it_is_reached() -> None:
    answer = {
        "id": "m",
        "content": [{"type": "text", "text": "here"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 1},
    }
    async with serving(document({"type": "message", **answer})) as server:
        connection = connect(base_url=server.url)
        model = AnthropicModel("claude-opus-5-5", connection=connection)
        assert model.base_url == server.url
        async with open_runtime() as rt:
            result = await rt.run(agent(model), "go")
        await connection.aclose()
    assert (result.text, result.metrics.cost_usd) == ("here", None)
