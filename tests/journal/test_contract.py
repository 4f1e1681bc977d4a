"""What every journal keeps, wherever it keeps it: the contract that plug-ins can import, and the
entries that only our own strategies can make.
"""

from __future__ import annotations

from functools import cache
from typing import get_args

from tests.journal.runs import entries_of, finished, started
from tests.strategies import examples_of
from treadle.apps.testing.contracts.journals import *  # noqa: F403  every test of the contract
from treadle.journal.entries import Entry, RunFinished, RunStarted, ToolFinished, ToolStarted
from treadle.journal.journal import Journal


@cache
def nasty() -> list[Entry]:
    """Some entries of every kind that may stand inside a run, with what is hard to store; no call
    has two results, or starts twice.
    """
    found: dict[object, Entry] = {}
    for kind in get_args(Entry):
        for entry in examples_of(kind, 8):
            match entry:
                case RunStarted() | RunFinished():
                    continue
                case ToolFinished():
                    key: object = entry.result.call_id
                case ToolStarted():
                    key = (entry.call_id, entry.attempt)
                case _:
                    key = len(found)
            found.setdefault((kind, key), entry)
    return list(found.values())


FINISHED = finished()


async def test_every_kind_of_entry_is_read_as_it_was_written(journal: Journal) -> None:
    writer = await journal.begin(started())
    for first in range(0, len(nasty()), 7):
        await writer.append(nasty()[first : first + 7])
    assert await entries_of(journal, after=1) == nasty()


async def test_an_ended_run_reads_as_it_did_before_it_was_let_go(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([*nasty(), FINISHED])
    before = await journal.read("run_1")
    await writer.release()
    assert await journal.read("run_1") == before
    assert await journal.read("run_1", after=len(nasty())) == before[len(nasty()) :]
