"""The stores that executions run over. Entry: `Store`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.sqlite import SqliteJournal


async def _no_lease(is_second: bool) -> None:
    """Runs are taken over by force instead."""


def _nothing() -> None:
    """Nothing else is open."""


@dataclass
class Store:
    """The journals of both drivers, over one store."""

    journals: Sequence[Journal]
    needs_force: bool = True
    lapse: Callable[[bool], Awaitable[None]] = _no_lease
    """End the lease of the first or the second driver, for itself and for others."""
    renew: Callable[[bool], Awaitable[None]] = _no_lease
    answered: Callable[[bool], Awaitable[None]] = _no_lease
    """Called between the commit of an append and its answer, where a lease may end meanwhile."""

    close: Callable[[], None] = _nothing
    """Called once the journals are closed."""

    async def release(self, run_ids: Sequence[str]) -> None:
        """Free runs whose driver has gone without a release, as its death would."""
        for run_id in run_ids:
            if (await self.journals[0].info(run_id)).status == "running":
                writer = await self.journals[0].take_over(run_id, force=True)
                await writer.release()

    async def aclose(self) -> None:
        for journal in self.journals:
            await journal.aclose()
        self.close()


def memory() -> Store:
    journal = MemoryJournal()
    return Store([journal, journal])


def sqlite(folder: Path) -> Store:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "journal.db"
    return Store([SqliteJournal.open(file), SqliteJournal.open(file)])


LEASE_S = 3600
"""No lease is renewed by its thread, or ends, while a search lasts."""


def postgres(url: str) -> Store:
    """Drivers with leases; what an append committed may be answered late."""
    import psycopg

    journals = [open_journal(url, lease_s=LEASE_S) for _ in range(2)]
    workers = [journal._driven.workers for journal in journals]  # type: ignore[attr-defined]
    look = psycopg.connect(url, autocommit=True)

    async def lapse(is_second: bool) -> None:
        look.execute(
            "update treadle.workers set lease_until_us = treadle.now_us() - 1 where id = %s",
            (workers[is_second].me,),
        )
        workers[is_second]._until = 0.0

    async def renew(is_second: bool) -> None:
        if workers[is_second].me is not None:
            workers[is_second]._renew(look, workers[is_second].me)

    store = Store(journals, needs_force=False, lapse=lapse, renew=renew, close=look.close)
    for is_second, journal in enumerate(journals):
        _answer_late(store, bool(is_second), journal._writer)  # type: ignore[attr-defined]
    return store


def _answer_late(store: Store, is_second: bool, writer: Any) -> None:
    append = writer.append

    async def late(pending: object) -> int:
        first: int = await append(pending)
        await store.answered(is_second)
        return first

    writer.append = late
