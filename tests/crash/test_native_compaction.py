"""A run that its provider compacts is killed at every boundary and resumed: each request of every
process is one that the vendor takes, and the journal holds no summary twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.crash.compacted import SUMMARIES, Given, Parcels
from tests.crash.nursery import NOWHERE, Ended, Nursery, Stops
from tests.vendors.rules import every
from treadle.journal.entries import Compaction
from treadle.journal.receipts import Summary, read_receipt
from treadle.journal.sqlite import SqliteJournal

ENOUGH = 200
"""Boundaries; a sweep that does not come to its end is none."""
REMEMBERED = ("bodies", "bills", "refused", "summaries", "issued", "seen")


async def native_summaries(journal: str) -> int:
    opened = SqliteJournal.open(journal)
    try:
        (run,) = await opened.runs()
        receipts = [
            read_receipt(record.entry.receipt)
            for record in await opened.read(run.run_id)
            if isinstance(record.entry, Compaction)
        ]
    finally:
        await opened.aclose()
    return sum(isinstance(one, Summary) and one.native for one in receipts)


def state_of(server: Parcels) -> dict[str, object]:
    """What the vendor remembers."""
    caches = server._caches.items()  # pyright: ignore[reportPrivateUsage]
    lists = {name: getattr(server, name).copy() for name in REMEMBERED}
    answers = server._answers  # pyright: ignore[reportPrivateUsage]
    return {**lists, "_answers": answers, "_caches": {at: one.copy() for at, one in caches}}


@pytest.mark.parametrize(
    ("model", "every_nth"),
    [(("anthropic", "claude-opus-5-5"), 1), (("openai", "gpt-6-astra"), 3)],
    ids=["claude", "gpt"],
)
async def test_a_run_that_its_provider_compacts_goes_on_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path, model: tuple[str, str], every_nth: int
) -> None:
    server, story = Parcels([]), tmp_path / "story"
    story.mkdir()
    copies: dict[int, dict[str, object]] = {}
    numbers = range(1, ENOUGH, every_nth)

    def copy(number: int, ended: Ended) -> None:
        shutil.copytree(story, tmp_path / f"{number}", copy_function=shutil.copyfile)
        copies[number] = state_of(server)

    def run(folder: Path, stops: Stops) -> str:
        given = Given(journal=f"{folder}/runs.db", url=server.url, wire=model[0], model_id=model[1])
        asked = msgspec.json.encode(given).decode()
        return nursery.call("tests.crash.compacted", asked, stops=stops).said.strip()

    async with server.listening():
        said = await anyio.to_thread.run_sync(run, story, Stops(numbers, copy))
        assert len(server.summaries) == SUMMARIES
        await check(said, server, story, model)
        assert 30 < len(copies) * every_nth < ENOUGH
        for number, state in copies.items():
            vars(server).update(state)
            folder = tmp_path / f"{number}"
            said = await anyio.to_thread.run_sync(run, folder, NOWHERE)
            await check(said, server, folder, model)


async def check(said: str, server: Parcels, folder: Path, model: tuple[str, str]) -> None:
    """The run has come to its end, perhaps after a kill."""
    assert (said, server.refused) == ("completed Done.", [])
    assert await native_summaries(f"{folder}/runs.db") == SUMMARIES
    assert len(server.summaries) in (SUMMARIES, SUMMARIES + 1)
    last = server.bodies[-1]
    assert len(list(every(last, "compaction"))) == 1
    assert list(every(last, "thinking" if model[0] == "anthropic" else "reasoning"))
