"""The one driver of a run: how a run is created, appended to, taken over and released. Each is one
transaction that checks the fence. writer.py selects the writing thread, workers.py detects which
processes are alive. Entry points: `SqliteRun`, `begin`, `take_over`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from treadle.errors import AgentError
from treadle.journal.entries import Entry, RunStarted
from treadle.journal.notifier import QUEUE, run_topic
from treadle.journal.queue import QueuePlace
from treadle.journal.sessions import ViewMark
from treadle.journal.sqlite.workers import SqliteWorkers
from treadle.journal.sqlite.writer import SqliteWriter
from treadle.journal.tables import queue_place
from treadle.journal.tables.beginning import NewRun, make_run
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.tables.driving import DriverView, Hold, add_late, finish, looked_over
from treadle.journal.tables.liveness import is_driven
from treadle.journal.tables.queue_place import LET_GO, TAKEN
from treadle.journal.tables.rows import bodies, check_id, find, insert, micros, read_stored, row_of
from treadle.types import now

_ADVANCE = (
    "update runs set head = head + ?, updated_at_us = ? where num = ? and fence = ? and head = ? "
    "and owner = ?"
)
_ADVANCE_FIRST = _ADVANCE.replace("set ", "set waiting = 0, ")
"""Only now: if its driver stops before, a run that waited for a user still does."""
_RELEASE = (
    f"update runs set owner = null, waiting = ?, {LET_GO}, ready_at_us = ? where num = ? and "
    "fence = ? and owner = ?"
)
_PUT_DOWN = "update runs set owner = null, sent_to = null where num = ? and fence = ? and owner = ?"
_EXISTS = "select 1 from runs where id = ?"
_HEAD = "select head from runs where num = ? and fence = ?"
_MINE = "select 1 from runs where num = ? and fence = ? and owner = ?"


class LetGo(Protocol):
    """Callback for a run that is no longer driven."""

    def __call__(self, num: int, fence: int, unwritten: Work[None] | None = None, /) -> None:
        """Record the release. `unwritten`: the release, if the file has not accepted it yet."""
        ...


class SqliteRun:
    """Appends to one run until another driver takes it over."""

    def __init__(
        self,
        writer: SqliteWriter,
        started: RunStarted,
        hold: Hold,
        let_go: LetGo,
        *,
        begun: bool,
    ) -> None:
        """Create a driver of the run. `begun`: this object drives the run from its beginning, and
        so observes every entry. `let_go` is called when it ends.
        """
        self.run_id = started.run_id
        self.num = hold.num
        self.fence = hold.fence
        self.failed_over = False
        self._writer = writer
        self._hold = hold
        self._seen = DriverView(started, begun=begun)
        self._advance = _ADVANCE if begun else _ADVANCE_FIRST
        self._let_go = let_go
        self.topic = run_topic(started.run_id)
        self.tell: Callable[[str], None] = _nobody
        self._over = False
        """True if the run was released, or is finished."""

    async def append(
        self, entries: Sequence[Entry], *, put_back: QueuePlace | None = None, wakes: bool = False
    ) -> int:
        hold, seen = self._hold, self._seen
        if not entries:
            return hold.head + 1
        end, late, once = looked_over(self.run_id, entries)
        rows, before = [row_of(entry) for entry in entries], hold.head

        def work(db: Cursor) -> int:
            nonlocal before
            before = hold.head
            if end is not None:
                finish(db, hold, entries, end, seen)
            elif late:
                add_late(db, hold, entries, wakes=wakes)
            elif put_back is not None:
                queue_place.put_back(db, hold, entries, put_back)
            else:
                db.execute(
                    self._advance,
                    (len(rows), micros(entries[-1].at), hold.num, hold.fence, before, hold.owner),
                )
            if db.changed != 1:
                raise hold.not_held()
            insert(db, hold.num, before + 1, rows)
            hold.head += len(rows)
            return before + 1

        def undo() -> None:
            hold.head = before

        try:
            seen.note(entries)
            first = await self._writer.write(
                work, undo=undo, stands=self._stands, appends=True, once=once
            )
        except BaseException as e:
            seen.forget_said()
            if isinstance(e, AgentError) and e.kind == "busy":
                self._let_go(self.num, self.fence)
            raise
        self._advance = _ADVANCE
        self.tell(self.topic)
        if end is not None or put_back is not None:
            self._over = True
            self._let_go(self.num, self.fence)
        if put_back is not None or wakes:
            self.tell(QUEUE)
        return first

    def _stands(self, db: Cursor) -> bool:
        """Return True if the last append is in the file."""
        hold = self._hold
        return db.execute(_HEAD, (hold.num, hold.fence)).fetchone() == (hold.head,)

    async def verify(self) -> None:
        hold = self._hold

        def work(db: Cursor) -> bool:
            return db.execute(_MINE, (hold.num, hold.fence, hold.owner)).fetchone() is not None

        if not await self._writer.write(work):
            self._let_go(self.num, self.fence)
            raise hold.not_held()

    async def release(self, *, waiting: bool | None = False) -> None:
        if self._over:
            return
        self._over = True
        self._let_go(self.num, self.fence)
        mine, at = (self._hold.num, self._hold.fence, self._hold.owner), now()

        def work(db: Cursor) -> None:
            if waiting is None:
                db.execute(_PUT_DOWN, mine)
            else:
                db.execute(_RELEASE, (waiting, waiting, micros(at), *mine))

        try:
            await self._writer.write(work)
            self.tell(QUEUE)
        except AgentError:  # the run is free only once that is written, or this process has ended
            self._let_go(self.num, self.fence, work)


def _nobody(topic: str) -> None:
    """Ignore stop requests."""


# ---------------------------------------------------------------- acquiring a run


async def begin(
    writer: SqliteWriter,
    workers: SqliteWorkers,
    started: RunStarted,
    let_go: LetGo,
    *,
    found: ViewMark | None = None,
) -> SqliteRun:
    """Create the run with its first entry, and its session if it is missing. Raises as
    `Journal.begin`.
    """
    check_id(started.run_id)
    worker, row = workers.register(), row_of(started)

    def work(db: Cursor) -> int:
        num = make_run(db, NewRun(started, owner=worker), workers.of, found=found)
        insert(db, num, 1, (row,))
        return num

    def stands(db: Cursor) -> bool:
        return db.execute(_EXISTS, (started.run_id,)).fetchone() is not None

    num = await writer.write(work, stands=stands, appends=True)
    return SqliteRun(
        writer,
        started,
        Hold(started.run_id, num, fence=1, head=1, owner=worker),
        let_go,
        begun=True,
    )


async def take_over(
    writer: SqliteWriter, workers: SqliteWorkers, run_id: str, let_go: LetGo, *, force: bool
) -> SqliteRun:
    """Take a run without a driver, under a new fence. Raises AgentError(busy | invalid)."""
    worker = workers.register()

    def work(db: Cursor) -> SqliteRun:
        run = find(db, run_id)
        owner, fence, head, finished = cast(
            "tuple[str | None, int, int, int | None]",
            db.execute(
                "select owner, fence, head, finished from runs where num = ?", (run.num,)
            ).fetchone(),
        )
        if finished is not None:
            raise AgentError(
                "invalid",
                f"run {run_id} is finished: `treadle runs fork {run_id}` continues from it",
            )
        process = None if force else workers.process(owner)
        if process is not None:
            raise is_driven(run_id, process)
        db.execute(
            f"update runs set owner = ?, fence = fence + 1, {TAKEN} where num = ?",
            (worker, worker, run.num),
        )
        db.execute("delete from stops where run = ?", (run.num,))
        ((_, data),) = bodies(db, run.num, to=1)
        started = cast("RunStarted", read_stored(data, run.schema))
        return SqliteRun(
            writer,
            started,
            Hold(run_id, run.num, fence=fence + 1, head=head, owner=worker),
            let_go,
            begun=False,
        )

    return await writer.write(work)
