"""The one driver of a run: how a run is created, appended to, taken over and released. Each is one
transaction that checks the fence. writer.py selects the writing thread, workers.py detects which
processes are alive. Entry points: `PostgresRun`, `begin`, `take_over`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from treadle.errors import AgentError
from treadle.journal.entries import Entry, RunStarted
from treadle.journal.postgres.appending import DriverMark, PendingEntries
from treadle.journal.postgres.workers import PostgresWorkers
from treadle.journal.postgres.writer import PostgresWriter
from treadle.journal.queue import QueuePlace
from treadle.journal.sessions import ViewMark
from treadle.journal.tables import queue_place
from treadle.journal.tables.beginning import NewRun, make_run
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.tables.driving import DriverView, add_late, finish, looked_over
from treadle.journal.tables.liveness import is_driven
from treadle.journal.tables.queue_place import LET_GO, TAKEN
from treadle.journal.tables.rows import bodies, check_id, find, insert, micros, read_stored, row_of
from treadle.journal.threads import run_in_thread

_RELEASE = f"""
update runs set owner = null, waiting = ?, {LET_GO}, ready_at_us = case when queue is null then 0 else now_us() end
where num = ? and fence = ? and owner = ? returning queue
"""
_PUT_DOWN = """
update runs set owner = null, sent_to = null where num = ? and fence = ? and owner = ? returning queue
"""
_TAKE = f"""
update runs set owner = ?, fence = ?, {TAKEN}, timeline = treadle.timeline(),
    failed_over = case when timeline is distinct from treadle.timeline() and timeline is not null then head else failed_over end
where num = ?
"""
_TAKEN = "select fence, head, coalesce(failed_over = head, false) from runs where num = ?"
"""Condition on the head at that time, because a driver that found another timeline may have ended
before recording that.
"""
_MINE = "select 1 from runs where num = ? and fence = ? and owner = ?"


class Home(Protocol):
    """Part of a journal that its runs use."""

    def let_go(self, num: int, fence: int, unwritten: Work[bool] | None = None, /) -> None:
        """Report that the run is no longer driven. `unwritten`: a release that the journal has not
        accepted yet; it returns whether the run waits in a queue.
        """
        ...

    def appended(self, run_id: str, /) -> None: ...

    def ready(self) -> None:
        """Report that a run is in its queue again."""
        ...


class _LeaseRanOut(AgentError):
    """The lease has expired. The run may still belong to this driver, and other calls may be in
    progress, so only the driver releases it.
    """


class PostgresRun:
    """Appends to one run until another driver takes it over."""

    def __init__(
        self,
        writer: PostgresWriter,
        workers: PostgresWorkers,
        seen: DriverView,
        mark: DriverMark,
        home: Home,
        *,
        failed_over: bool = False,
    ) -> None:
        self.run_id = mark.run_id
        self.num = mark.num
        self.fence = mark.fence
        self.failed_over = failed_over
        self._writer = writer
        self._workers = workers
        self._mark = mark
        self._home = home
        self._seen = seen
        self._over = False
        """True if the run was released, or is finished."""

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        if not entries:
            return self._mark.head + 1
        end, late, once = looked_over(self.run_id, entries)
        append = PendingEntries(
            self._mark, micros(entries[-1].at), [row_of(entry) for entry in entries]
        )
        self._seen.note(entries)
        try:
            if once:
                await self._be_sure()
            if end is not None:
                first = await self._write(
                    append, lambda db: finish(db, self._mark, entries, end, self._seen)
                )
            elif late:
                first = await self._write(
                    append, lambda db: add_late(db, self._mark, entries, wakes=wakes)
                )
            elif put_back is not None:
                first = await self._write(
                    append, lambda db: queue_place.put_back(db, self._mark, entries, put_back)
                )
            else:
                first = await self._writer.append(append)
            if once:
                await self._be_sure()
        except AgentError as e:
            self._seen.forget_said()
            if e.kind == "busy" and not isinstance(e, _LeaseRanOut):
                self._home.let_go(self.num, self.fence)
            raise
        self._home.appended(self.run_id)
        if end is not None or put_back is not None:
            self._over = True
            self._home.let_go(self.num, self.fence)
        if put_back is not None or wakes:
            self._home.ready()
        return first

    async def verify(self) -> None:
        try:
            await self._ask()
        except AgentError as e:
            if e.kind == "busy" and not isinstance(e, _LeaseRanOut):
                self._home.let_go(self.num, self.fence)
            raise

    async def _be_sure(self) -> None:
        """Verify that the run has not been taken over, and cannot be without force while the lease
        that was just read is valid. Raises AgentError(busy).

        No query is needed if the lease has been valid without a gap since the run was last
        verified.
        """
        mark = self._mark
        if not (
            self._workers.holds() and self._workers.lapses == mark.lapses and not mark.doubtful
        ):
            await self._ask()

    async def _ask(self) -> None:
        """Renew the lease and check the run's row in one transaction. Raises AgentError(busy)."""
        mark, lapses = self._mark, self._workers.lapses

        def work(db: Cursor) -> Callable[[], bool] | None:
            renewed = self._workers.renew(db)
            return (
                renewed
                if db.execute(_MINE, (mark.num, mark.fence, mark.owner)).fetchone() is not None
                else None
            )

        try:
            renewed = await self._writer.write(work, key=mark.num, stood=_redone)
        except AgentError as e:
            reason = (
                "the lease of this process has expired and cannot be renewed, so another process "
                f"may drive run {self.run_id}: its call does not begin ({e.message})"
            )
            raise _LeaseRanOut("busy", reason) from e
        if renewed is None:
            raise mark.not_held()
        mark.lapses, mark.doubtful = lapses + renewed(), False

    async def _write(self, append: PendingEntries, write: Callable[[Cursor], None]) -> int:
        mark = append.mark

        def work(db: Cursor) -> int:
            write(db)
            if db.changed != 1:
                raise mark.not_held()
            insert(db, mark.num, mark.head + 1, append.rows)
            return mark.head + 1

        def stood(db: Cursor) -> int | None:
            return mark.head + 1 if append.stands(db) else None

        return await self._writer.write(work, key=mark.num, stood=stood, adds=append)

    async def release(self, *, waiting: bool | None = False) -> None:
        if self._over:
            return
        self._over = True
        self._home.let_go(self.num, self.fence)
        work = self._released(waiting=waiting)
        try:
            if await self._writer.write(work, key=self.num, stood=_redone):
                self._home.ready()
        except AgentError:  # the run is free only once that is written, or the lease has expired
            self._home.let_go(self.num, self.fence, work)

    def _released(self, *, waiting: bool | None) -> Work[bool]:
        mine = (self._mark.num, self._mark.fence, self._mark.owner)

        def work(db: Cursor) -> bool:
            row = (
                db.execute(_PUT_DOWN, mine)
                if waiting is None
                else db.execute(_RELEASE, (int(waiting), int(waiting), *mine))
            ).fetchone()
            return row is not None and row[0] is not None

        return work


def _redone(db: Cursor) -> None:
    """Release the run in the database. Idempotent."""


# ---------------------------------------------------------------- acquiring a run


async def begin(
    writer: PostgresWriter,
    workers: PostgresWorkers,
    started: RunStarted,
    home: Home,
    *,
    found: ViewMark | None = None,
) -> PostgresRun:
    """Create the run with its first entry, and its session if it is missing. Raises as
    `Journal.begin`.
    """
    check_id(started.run_id)
    worker, row = await _me(workers), row_of(started)
    mark = DriverMark(started.run_id, 0, fence=1, head=0, owner=worker, lapses=workers.lapses)
    first = PendingEntries(mark, 0, (row,))

    def work(db: Cursor) -> int:
        num = make_run(db, NewRun(started, owner=worker), workers.of, found=found)
        insert(db, num, 1, (row,))
        return num

    def stood(db: Cursor) -> int | None:
        found = db.execute(
            "select num from runs where id = ? and owner = ? and fence = 1 and head = 1",
            (started.run_id, worker),
        ).fetchone()
        if found is None:
            return None
        mark.num = cast("int", found[0])
        return mark.num if first.stands(db) else None

    mark.num = await writer.write(work, key=f"begin {started.run_id}", stood=stood, adds=first)
    return PostgresRun(writer, workers, DriverView(started, begun=True), mark, home)


async def take_over(
    writer: PostgresWriter, workers: PostgresWorkers, run_id: str, home: Home, *, force: bool
) -> PostgresRun:
    """Take a run without a driver, under a new fence. Raises AgentError(busy | invalid)."""
    worker, fence_next = await _me(workers), 0
    lapses = workers.lapses

    def work(db: Cursor) -> PostgresRun:
        nonlocal fence_next
        run = find(db, run_id)
        owner, fence, finished = _locked(db, run.num)
        if finished is not None:
            raise AgentError(
                "invalid",
                f"run {run_id} is finished: `treadle runs fork {run_id}` continues from it",
            )
        # otherwise a worker whose lease just expired could renew it and begin a call between the
        # check and the commit
        workers.hold_still(db, owner)
        process = None if force else workers.of(db, owner)
        if process is not None:
            raise is_driven(run_id, process)
        fence_next = fence + 1
        db.execute(_TAKE, (worker, fence_next, worker, run.num))
        db.execute("delete from stops where run = ?", (run.num,))
        return taken(db)

    def taken(db: Cursor) -> PostgresRun:
        run = find(db, run_id)
        fence, head, failed_over = cast(
            "tuple[int, int, bool]", db.execute(_TAKEN, (run.num,)).fetchone()
        )
        ((_, data),) = bodies(db, run.num, to=1)
        started = cast("RunStarted", read_stored(data, run.schema))
        mark = DriverMark(run_id, run.num, fence=fence, head=head, owner=worker, lapses=lapses)
        seen = DriverView(started, begun=False)
        return PostgresRun(writer, workers, seen, mark, home, failed_over=failed_over)

    def stood(db: Cursor) -> PostgresRun | None:
        """Check that the run is free. Other tasks of this process wait for this one."""
        mine = db.execute(
            "select 1 from runs where id = ? and owner = ? and fence = ?",
            (run_id, worker, fence_next),
        ).fetchone()
        return None if mine is None else taken(db)

    return await writer.write(work, key=f"take over {run_id}", stood=stood)


async def _me(workers: PostgresWorkers) -> str:
    return workers.me or await run_in_thread(workers.register)


def _locked(db: Cursor, num: int) -> tuple[str | None, int, int | None]:
    """Lock the row of a run, and return its owner, fence and end."""
    statement = "select owner, fence, finished from runs where num = ? for update"
    found = db.execute(statement, (num,)).fetchone()
    return cast("tuple[str | None, int, int | None]", found)
