"""A run that its provider compacts is killed at every boundary and resumed: each request of every
process is one that the vendor takes, and the journal holds no summary twice.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest

from tests.crash.compacted import SUMMARIES, Given, Parcels
from tests.crash.nursery import Nursery
from tests.vendors.rules import every
from treadle.journal.entries import Compaction
from treadle.journal.receipts import Summary, read_receipt
from treadle.journal.sqlite import SqliteJournal

ENOUGH = 200
"""Boundaries; a sweep that does not come to its end is none."""


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


async def crashed_at(number: int, nursery: Nursery, folder: Path, model: tuple[str, str]) -> bool:
    """Whether there is such a boundary: the process was killed there, and another went on."""
    server = Parcels([])
    async with server.listening():
        given = Given(
            journal=str(folder / f"{number}.db"), url=server.url, wire=model[0], model_id=model[1]
        )
        asked = msgspec.json.encode(given)

        def run(crash_at: int) -> tuple[bool, str]:
            ended = nursery.compacted(asked, crash_at=crash_at)
            return ended.killed, ended.said.strip()

        killed, said = await anyio.to_thread.run_sync(run, number)
        if killed:
            _, said = await anyio.to_thread.run_sync(run, 0)
    assert (said, server.refused) == ("completed Done.", [])
    assert await native_summaries(given.journal) == SUMMARIES
    assert len(server.summaries) in (SUMMARIES, SUMMARIES + killed)
    last = server.bodies[-1]
    assert len(list(every(last, "compaction"))) == 1
    assert list(every(last, "thinking" if model[0] == "anthropic" else "reasoning"))
    return killed


@pytest.mark.parametrize(
    ("model", "every_nth"),
    [(("anthropic", "claude-opus-5-5"), 1), (("openai", "gpt-6-astra"), 3)],
    ids=["claude", "gpt"],
)
async def test_a_run_that_its_provider_compacts_goes_on_wherever_it_is_killed(
    nursery: Nursery, tmp_path: Path, model: tuple[str, str], every_nth: int
) -> None:
    number = 0
    for number in range(1, ENOUGH, every_nth):
        if not await crashed_at(number, nursery, tmp_path, model):
            break
    assert 30 < number < ENOUGH
