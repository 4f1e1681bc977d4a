"""A journal as one driver sees it: each of its operations waits for its turn. Entry:
`GatedJournal`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from tests.crash.interleavings.steps import Driver, Stage
from treadle.journal.entries import Entry, Record, RunStarted
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.queue import QueuePlace
from treadle.journal.run_state import RunState
from treadle.journal.sessions import SessionView, ViewMark

Acknowledged = Callable[[str, int, Sequence[Entry]], None]
"""Called with the run, the sequence of the first entry and the entries of an append that
returned.
"""


class GatedJournal:
    """What is not an operation of two drivers is the journal's own."""

    def __init__(
        self,
        journal: Journal,
        stage: Stage,
        driver: Driver,
        *,
        acknowledged: Acknowledged,
        needs_force: bool,
    ) -> None:
        """`needs_force`: this store has no leases, so a run whose driver has lapsed is taken over
        by force.
        """
        self._journal, self._stage, self._driver = journal, stage, driver
        self._acknowledged, self._needs_force = acknowledged, needs_force

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        writer = await self._do("begin", partial(self._journal.begin, started, found=found))
        self._acknowledged(started.run_id, 1, [started])
        return self._held(writer)

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        async def take() -> RunWriter:
            held_by = [one for one in self._stage.drivers.values() if one.holds]
            lapsed = bool(held_by) and all(one.has_lapsed for one in held_by)
            return await self._journal.take_over(
                run_id, force=force or (lapsed and self._needs_force)
            )

        return self._held(await self._do("take over", take, reads=True))

    def _held(self, writer: RunWriter) -> RunWriter:
        for driver in self._stage.drivers.values():
            driver.holds = driver is self._driver
        return GatedWriter(writer, self._do, self._driver, self._acknowledged)

    async def load(self, run_id: str) -> RunState:
        return await self._do("load", partial(self._journal.load, run_id), reads=True)

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        return await self._do("read", partial(self._journal.read, run_id, after=after), reads=True)

    async def view(self, session_id: str) -> SessionView:
        return await self._do("view", partial(self._journal.view, session_id), reads=True)

    async def aclose(self, *, keep_runs: bool = False) -> None:
        """Many executions share a journal."""

    async def _do(
        self, label: str, does: Callable[[], Awaitable[Any]], *, reads: bool = False
    ) -> Any:
        return await self._stage.operation(self._driver, label, does, reads=reads)


class GatedWriter:
    """Driver of one run."""

    def __init__(
        self,
        writer: RunWriter,
        do: Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]],
        driver: Driver,
        acknowledged: Acknowledged,
    ) -> None:
        self._writer, self._do, self._driver = writer, do, driver
        self._acknowledged = acknowledged

    @property
    def run_id(self) -> str:
        return self._writer.run_id

    @property
    def fence(self) -> int:
        return self._writer.fence

    @property
    def failed_over(self) -> bool:
        return self._writer.failed_over

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        append = partial(self._writer.append, entries, put_back=put_back, wakes=wakes)
        first = await self._do("append", append)
        self._acknowledged(self.run_id, first, entries)
        return first

    async def verify(self) -> None:
        await self._do("verify", self._writer.verify)

    async def release(self, *, waiting: bool | None = False) -> None:
        await self._do("release", partial(self._writer.release, waiting=waiting))
