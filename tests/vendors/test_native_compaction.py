"""Compaction by the provider: its summary goes back as the vendor demands, thinking after it stays
valid, and a run goes on without it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.models.providers.loopback import Answer, document
from tests.models.providers.speech import Text
from tests.vendors.rules import Json, every
from tests.vendors.server import SPEECHES, Reply, Vendor, call, think, vendor
from treadle import Agent, Limits, Outcome, Runtime, Settings, tool
from treadle.config import Config, Price
from treadle.config.model_profile import Abilities
from treadle.config.sections import Models
from treadle.journal.entries import Compaction
from treadle.journal.receipts import Cleared, Receipt, Summary, read_receipt
from treadle.messages.events import Compacted, Warned
from treadle.models.providers.known_models import known

CLAUDE, GPT = ("anthropic", "claude-opus-5-5"), ("openai", "gpt-6-astra")
WORDS = "It was a summary of the parcels."
ROOM = Settings(max_tokens=1_000, thinking=True, compact_at_tokens=9_000)


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at a parcel."""
    return f"{at}: " + "seen\n" * 1_300


@pytest.fixture(params=[CLAUDE, GPT], ids=["claude", "gpt"])
async def server(request: pytest.FixtureRequest) -> AsyncGenerator[tuple[Vendor, str, str]]:
    async with vendor() as made:
        yield (made, *request.param)
        assert made.script == [], "more was to be said"


def agent(server: Vendor, wire: str, model_id: str, **other: Any) -> Agent[None, str]:
    abilities = Abilities(context_tokens=30_000).over(known(wire, None, model_id))
    model = server.model(wire, model_id, abilities, own_host=True)
    given = {
        "name": "clerk",
        "instructions": "Look.",
        "tools": [look],
        "settings": ROOM,
        "limits": Limits(turns=30),
    }
    return Agent(**{**given, "model": model, **other})


def looks(*places: str) -> Reply:
    return [think(), *[call("look", at=place) for place in places]]


LOOKS = [looks(f"a{i}", f"b{i}") for i in range(3)]


def end(server: Vendor) -> list[Json]:
    body = server.bodies[-1]
    return body["messages"] if "messages" in body else body["input"]


def unmarked(sent: list[Json]) -> list[Json]:
    """What is sent, without breakpoints of the cache."""
    return json.loads(json.dumps(sent).replace(', "cache_control": {"type": "ephemeral"}', ""))


def thoughts(body: Json) -> int:
    kind = "thinking" if "messages" in body else "reasoning"
    return sum(1 for _ in every(body.get("messages", body.get("input")), kind))


async def receipts(runtime: Runtime, run_id: str) -> list[Receipt]:
    records = await runtime.journal.read(run_id)
    return [
        read_receipt(record.entry.receipt)
        for record in records
        if isinstance(record.entry, Compaction)
    ]


async def test_a_run_is_compacted_by_its_provider_and_keeps_the_thinking_of_what_stays(
    server: tuple[Vendor, str, str],
) -> None:
    made, wire, model_id = server
    made.script += [*LOOKS, WORDS, looks("z"), [think(), "Done."]]
    async with Runtime.open() as runtime:
        result = await runtime.run(agent(*server), "Go.")
        found = await receipts(runtime, result.run_id)
    assert (result.text, result.error, made.refused) == ("Done.", None, [])
    (summary,) = [one for one in found if isinstance(one, Summary)]
    assert (summary.native, summary.dropped, summary.spent.model) == (True, 5, f"{wire}:{model_id}")
    assert summary.spent.usage.output_tokens == 300
    assert summary.tokens_after < summary.tokens_before
    (asked,) = made.summaries
    if wire == "anthropic":
        assert end(made)[0]["content"][0]["content"] == WORDS
        assert end(made)[1]["role"] == "assistant", "a cut before an answer"
    else:
        assert [item.get("type") for item in end(made)[:2]] == ["message", "compaction"]
    assert thoughts(made.bodies[-1]) == 2, "that of the turn that stayed, and the next one's"
    assert asked["model"] == model_id


async def test_claude_reads_the_messages_that_it_summarises_from_its_cache() -> None:
    async with vendor(*LOOKS, WORDS, "Done.") as made, Runtime.open() as runtime:
        result = await runtime.run(agent(made, *CLAUDE), "Go.")
    assert (result.text, made.refused) == ("Done.", [])
    at = made.bodies.index(made.summaries[0])
    assert made.bills[at].marked > 0.9 * made.bills[at - 1].marked


async def test_sessions_and_forks_see_the_same(server: tuple[Vendor, str, str]) -> None:
    made, *_ = server
    made.script += [*LOOKS, WORDS, looks("z"), "One.", "Two.", "Three.", "Four."]
    async with Runtime.open() as runtime:
        session = runtime.session("s", agent=agent(*server))
        first = await session.send("Go.")
        before = unmarked(end(made))
        await session.send("And?")
        assert unmarked(end(made))[: len(before)] == before
        other = agent(*server, instructions="Look twice.")
        assert (await runtime.session("s", agent=other).send("And?")).error is None
        forked = await runtime.fork(first.run_id, turn=4, agent=agent(*server))
    assert (forked.error, made.refused, len(made.summaries)) == (None, [], 1)


async def test_a_conversation_is_compacted_again(server: tuple[Vendor, str, str]) -> None:
    made, *_ = server
    more = [looks(f"c{i}", f"d{i}") for i in range(2)]
    made.script += [*LOOKS, WORDS, *more, "Again.", "Done."]
    async with Runtime.open() as runtime:
        result = await runtime.run(agent(*server), "Go.")
    assert (result.text, result.error, made.refused) == ("Done.", None, [])
    assert len(made.summaries) == 2
    assert json.dumps(end(made)).count('"compaction"') == 1


def overloaded(wire: str) -> Answer:
    return document(SPEECHES[wire].error(400, "this is not offered here"), status=400)


@pytest.mark.parametrize("reply", ["", "refused"])
async def test_a_run_goes_on_with_our_own_summary_where_the_provider_makes_none(
    server: tuple[Vendor, str, str], reply: str
) -> None:
    made, wire, model_id = server
    made.script += [*LOOKS, overloaded(wire) if reply else reply]
    made.script += [looks("z"), "Done."]
    async with (
        Runtime.open() as runtime,
        runtime.stream(agent(*server), "Go.") as run,
    ):
        told = [event async for event in run if isinstance(event, Warned | Compacted)]
        found = await receipts(runtime, run.result.run_id)
    assert (run.result.text, run.result.error) == ("Done.", None)
    assert next(event.text for event in told if isinstance(event, Warned)).startswith(
        f"{wire}:{model_id} did not compact the conversation, so it is summarised here: "
    )
    assert not any(isinstance(one, Summary) and one.native for one in found)
    failed = [one for one in found if isinstance(one, Cleared) and one.failed]
    assert len(failed) == 1
    assert (failed[0].spent is None) == bool(reply), "what it took counts"


async def test_the_setting_turns_it_off(server: tuple[Vendor, str, str]) -> None:
    made, *_ = server
    made.script += [*LOOKS, "Done."]
    off = Settings(native_compaction=False).over(ROOM)
    async with Runtime.open() as runtime:
        result = await runtime.run(agent(*server, settings=off), "Go.")
    assert (result.text, made.summaries, made.refused) == ("Done.", [], [])


async def test_a_gateway_is_not_asked() -> None:
    async with vendor(*LOOKS, "Done.") as made, Runtime.open() as runtime:
        abilities = Abilities(context_tokens=30_000).over(known("anthropic", None, CLAUDE[1]))
        model = made.model(*CLAUDE, abilities)
        result = await runtime.run(agent(made, *CLAUDE, model=model), "Go.")
    assert (result.text, made.summaries, made.refused) == ("Done.", [], [])


async def test_another_provider_reads_the_text(server: tuple[Vendor, str, str]) -> None:
    made, wire, _ = server
    made.script += [*LOOKS, WORDS, "One.", "Two.", "Three."]
    other = CLAUDE if wire == "openai" else GPT
    async with Runtime.open() as runtime:
        await runtime.session("s", agent=agent(*server)).send("Go.")
        for model in (other, ("gemini", "gemini-3.8-flash")):
            result = await runtime.session("s", agent=agent(made, *model)).send("And?")
            assert (result.error, made.refused) == (None, [])
            sent = json.dumps(made.bodies[-1])
            assert (WORDS if wire == "anthropic" else "excerpts of it") in sent
            assert "compaction" not in sent
            assert "compacted-" not in sent


async def test_a_summary_that_its_provider_no_longer_takes_goes_back_as_text(
    server: tuple[Vendor, str, str],
) -> None:
    made, *_ = server
    made.script += [*LOOKS, WORDS, "One.", looks("z"), [think(), "Two."], "Three."]
    async with Runtime.open() as runtime:
        await runtime.session("s", agent=agent(*server)).send("Go.")
        for name in [name for name in made.issued if name.startswith(("summary-", "compacted-"))]:
            del made.issued[name]
        for prompt in ("And?", "And now?"):
            async with runtime.session("s", agent=agent(*server)).stream(prompt) as run:
                told = [event.text async for event in run if isinstance(event, Warned)]
            assert run.result.error is None
            assert any("its own summary" in text for text in told)
    assert "compaction" not in json.dumps(
        made.bodies[-1]["messages" if "messages" in made.bodies[-1] else "input"]
    )


@pytest.mark.parametrize("limits", [Limits(cost_usd=1.0), Limits(tokens=200_000)])
async def test_what_it_takes_counts_within_the_budget(
    server: tuple[Vendor, str, str], limits: Limits
) -> None:
    made, wire, model_id = server
    made.script += [*LOOKS, WORDS, "Done."]
    price = Price(input=1, output=10)
    config = Config(prices={f"{wire}:{model_id}": price}, models=Models(small="script:none.json"))
    async with Runtime.open("memory:", config=config) as runtime:
        result = await runtime.run(agent(*server, limits=limits), "Go.")
        found = await receipts(runtime, result.run_id)
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Done.")
    reserved = [one for one in found if isinstance(one, Cleared) and one.reserved is not None]
    assert len(reserved) == 1
    (summary,) = [one for one in found if isinstance(one, Summary)]
    assert summary.spent.cost_usd is not None
    assert summary.spent.cost_usd > 0
    usage = result.metrics.usage
    assert usage.output_tokens >= 300


async def test_where_the_budget_has_no_room_for_it_the_run_goes_on_without(
    server: tuple[Vendor, str, str],
) -> None:
    made, *_ = server
    made.script += [*LOOKS, Text(("Done.",))]
    async with Runtime.open() as runtime:
        result = await runtime.run(agent(*server, limits=Limits(tokens=30_000)), "Go.")
    assert (result.text, made.summaries) == ("Done.", [])
