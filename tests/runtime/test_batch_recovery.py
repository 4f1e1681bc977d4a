"""A batch whose process dies: the next one waits for the same batch, and nothing is paid twice."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import anyio
import pytest
from msgspec import structs

from tests.doubles import open_runtime
from tests.loop.test_recovery import resumed, vanished
from tests.models.providers.speech import Call
from tests.runtime.test_batch import POLICY, agent_on, entries_of, in_progress, look, runtime_of
from tests.stores import STORES, new_journal, postgres_server, postgres_template, store  # noqa: F401  fixtures
from tests.vendors.batches import WIRES, BatchServer, Held, batch_server
from treadle.cli.story import Note, Story
from treadle.journal.entries import Entry, ModelBatched, ModelRequested, ModelResponded, Record
from treadle.journal.importing import Importer, as_data
from treadle.testing import ScriptedModel
from treadle.types import Limits, Outcome

pytestmark = pytest.mark.usefixtures("store")


def reply(text: str) -> str | Call:
    return "Wet." if "rain" in text else Call("c1", "look", ('{"place":"Rome"}',))


async def finished(server: BatchServer, wire: str) -> Sequence[Entry]:
    async with runtime_of(server, wire, journal=new_journal()) as rt:
        one = agent_on(wire, tools=[look])
        limits = Limits(tokens=10_000)  # one lost response would leave the next one less
        (result,) = await rt.batch(one, ["Rome"], batch_id="b", policy=POLICY, limits=limits)
        assert result.text == "Wet."
        return await entries_of(rt, "b-0")


async def test_a_resume_after_any_entry_pays_for_no_request_twice(
    request: pytest.FixtureRequest,
) -> None:
    """Each cut is a death after that entry; what the vendor got by then, it has. Each store has
    another vendor's turn.
    """
    wire = WIRES[STORES.index(request.node.callspec.params["store"])]
    async with batch_server(reply=reply) as server:
        whole = await finished(server, wire)
        first, second = server.held
        cuts = [at for at, entry in enumerate(whole) if isinstance(entry, ModelBatched)]
        assert len(cuts) == 4
        for cut in range(1, len(whole)):
            if isinstance(whole[cut - 1], ModelRequested):
                continue  # what it reserved counts as spent, as for any other request
            # a request goes out between its two entries, here right after the first
            sent = sum(cut > at for at in cuts[::2])
            server.held = [first, second][:sent]
            rt = await vanished(whole[:cut])
            async with open_runtime(config=server.config(wire), journal=rt.journal) as rt:
                result, _ = await resumed(rt, "b-0", agent_on(wire, tools=[look]))
                entries = await entries_of(rt, "b-0")
            assert (result.text, result.metrics.cost_usd) == ("Wet.", 5.0)
            assert len(server.held) == 2, f"after entry {cut}"
            assert sum(isinstance(entry, ModelResponded) for entry in entries) == 2
            assert most_tokens(server.held[1]) == most_tokens(second), f"after entry {cut}"
        assert server.ordinary == []


def most_tokens(held: Held) -> list[str]:
    return re.findall(r'"max\w*okens": (\d+)', json.dumps([*held.requests.values()]))


async def test_an_intent_that_reached_no_provider_is_sent_again() -> None:
    async with batch_server() as server:
        async with runtime_of(server, journal=new_journal()) as rt:
            await rt.batch(agent_on("anthropic"), ["a"], batch_id="b", policy=POLICY)
            whole = await entries_of(rt, "b-0")
        others = server.held
        for held in others:  # of another program with the same key
            held.requests = {f"other-{n}": one for n, one in enumerate(held.requests.values())}
        rt = await vanished(whole[:3])
        async with open_runtime(config=server.config("anthropic"), journal=rt.journal) as rt:
            (result,) = await rt.batch(agent_on("anthropic"), ["a"], batch_id="b", policy=POLICY)
            batched = [one for one in await entries_of(rt, "b-0") if isinstance(one, ModelBatched)]
        assert result.text == "Echo: a"
        assert [len(held.requests) for held in server.held] == [1, 1]
        assert [bool(one.batch_id) for one in batched] == [False, False, True]
        assert len({one.custom_id for one in batched}) == 2


async def test_runs_of_one_batch_that_die_at_different_moments_wait_for_it_together() -> None:
    async with batch_server() as server:
        async with runtime_of(server, journal=new_journal()) as rt:
            await rt.batch(agent_on("anthropic"), ["a", "b", "c"], batch_id="b", policy=POLICY)
            whole = [await entries_of(rt, f"b-{n}") for n in range(3)]
        journal = new_journal()
        for entries, cut in zip(whole, (3, 4, 5), strict=True):
            await journal.add_run([entry.to_json() for entry in entries[:cut]])
        server.held[0].looks = 3
        async with runtime_of(server, journal=journal) as rt:
            results = await rt.batch(
                agent_on("anthropic"), ["a", "b", "c"], batch_id="b", policy=POLICY
            )
        assert [result.text for result in results] == ["Echo: a", "Echo: b", "Echo: c"]
        assert len(server.held) == 1


async def test_another_model_gives_the_request_up() -> None:
    async with batch_server() as server:
        async with runtime_of(server, journal=new_journal()) as rt:
            await rt.batch(agent_on("anthropic"), ["a"], batch_id="b", policy=POLICY)
            whole = await entries_of(rt, "b-0")
        rt = await vanished(whole[:4])
        async with open_runtime(config=server.config("anthropic"), journal=rt.journal) as rt:
            model = ScriptedModel([{"text": "Here."}])
            result = await rt.resume("b-0", agent_on("anthropic"), model=model)
        assert (result.text, result.outcome) == ("Here.", Outcome.COMPLETED)


async def test_an_imported_run_does_not_look_for_a_batch() -> None:
    async with batch_server() as server:
        async with runtime_of(server, journal=new_journal()) as rt:
            await rt.batch(agent_on("anthropic"), ["a"], batch_id="b", policy=POLICY)
            whole = await entries_of(rt, "b-0")
        story = Story.of([Record(seq=n, entry=entry) for n, entry in enumerate(whole, 1)])
        notes = [item.text for item in story.items if isinstance(item, Note)]
        assert [text.endswith(("to be submitted", "batch_1")) for text in notes] == [True, True]
        importer = Importer(
            mode="full", cwd="/", model="m", file_models=(), limits=Limits(), session_id="s"
        )
        entries = as_data(whole[:4], importer)
        assert [entry for entry in entries if isinstance(entry, ModelBatched)] == []
        assert structs.asdict(entries[0])["batch"] == ""


async def test_a_batch_that_another_run_waits_for_is_not_cancelled() -> None:
    async with batch_server(looks=2) as server, runtime_of(server) as rt:

        async def kill(_: anyio.CancelScope) -> None:
            await rt.kill("b-0")

        results = await in_progress(server, rt, kill)
        assert [held.fate for held in server.held] == [""]
        assert results[1].text == "Echo: b"
