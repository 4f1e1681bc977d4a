"""The journal in a SQLite file. Entry point: `SqliteJournal.open`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, get_args

import anyio
import apsw

from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.forks import abandon_in_children
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.memory.notifier import JournalWatch, LocalNotifier
from treadle.journal.notifier import QUEUE
from treadle.journal.queue import RunQueue
from treadle.journal.sessions import ViewMark
from treadle.journal.sqlite import driving
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.encrypting import opened
from treadle.journal.sqlite.failures import translated
from treadle.journal.sqlite.guard import Guard
from treadle.journal.sqlite.places import prepare
from treadle.journal.sqlite.readers import SqliteReaders
from treadle.journal.sqlite.schema import connect
from treadle.journal.sqlite.workers import SqliteWorkers
from treadle.journal.sqlite.writer import SqliteWriter
from treadle.journal.tables import search
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.tables.journal import TableJournal
from treadle.journal.tables.queue import TableQueue
from treadle.journal.tables.sealing import Seal
from treadle.journal.tables.stopping import HeldRuns, wish
from treadle.journal.threads import run_in_thread

_RUN = "run:"
_READY = """
select count(*), max(num) from (
    select num from runs where finished is null and queue is not null and waiting = 0 and parked is null and sent_to is null order by num desc limit 1000
)
"""


class SqliteWatch:
    """Separate connection that detects every commit of another one, including those of this
    process.
    """

    def __init__(self, path: Path) -> None:
        """Open the connection. Raises AgentError."""
        try:
            self._db = connect(path, busy_timeout_s=0)
        except apsw.Error as e:
            raise translated(e, path, "it is not looked at") from e
        # another writer may be moving the log
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._cursor = cursor_of(self._db)
        self._version = -1
        self._seen: dict[str, object] = {}
        """Last observed state of each topic."""

    def changed(self, topics: Collection[str], /) -> Collection[str]:
        try:
            version = self._cursor.execute("pragma data_version").get
            if version == self._version and self._seen.keys() >= set(topics):
                return ()
            found = self._look(topics)
        except apsw.Error:  # checked again at the next interval
            return ()
        before, self._seen, self._version = self._seen, found, version
        return [
            topic for topic, value in found.items() if topic not in before or before[topic] != value
        ]

    def _look(self, topics: Collection[str]) -> dict[str, object]:
        found: dict[str, object] = {topic: None for topic in topics}
        runs = json.dumps([topic.removeprefix(_RUN) for topic in topics if topic.startswith(_RUN)])
        sql = (
            "select id, head, fence, owner, waiting from runs where id in (select value from "
            "json_each(?))"
        )
        for run_id, *rest in self._cursor.execute(sql, (runs,)).fetchall():
            found[_RUN + run_id] = tuple(rest)
        if QUEUE in found:
            found[QUEUE] = self._cursor.execute(_READY).fetchone()
        return found

    def close(self) -> None:
        # another process has exclusive access for a moment; the lock is released with this object
        with contextlib.suppress(apsw.Error):
            self._db.close()


Durability = Literal["process", "power"]
BUSY_TIMEOUT_S = 15.0
INDEXED_AT_ONCE = 10
FREED_AT_ONCE = 2000
"""Number of pages freed in one step."""


class SqliteJournal(TableJournal):
    """Journal in a file that any number of processes on one machine can share. Created by
    `open`.
    """

    def __init__(
        self,
        path: Path,
        db: apsw.Connection,
        guard: Guard,
        *,
        power: bool,
        busy_timeout_s: float,
        seal: Seal | None = None,
    ) -> None:
        self.path = path
        self._guard = guard
        self._workers = SqliteWorkers(path, guard)
        self._readers = SqliteReaders(path, busy_timeout_s=busy_timeout_s, seal=seal)
        self._held = HeldRuns()
        busy_timeout_ms = int(busy_timeout_s * 1000)
        self._writer = SqliteWriter(
            db,
            guard,
            seal=seal,
            power=power,
            busy_timeout_ms=busy_timeout_ms,
            chores=self._chores,
            drivers=self._held.__len__,
        )
        super().__init__(self._writer, self._readers, self._workers.of)
        self.notifier = LocalNotifier(partial(SqliteWatch, path))
        abandon_in_children(self.notifier)
        self.queue: RunQueue = TableQueue(
            self._writer,
            self._readers,
            self._workers,
            self.notifier,
            append=partial(self._writer.write, appends=True),
        )
        self._keeps_runs = False
        self._owes_log = False
        """True while the log contains deleted data."""
        self._unwritten: list[Work[None]] = []
        """Releases of runs that the file has not accepted yet."""
        self._seen_version = 0
        """Version of the file at the last check for writes of other processes."""

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        durability: Durability = "process",
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        keys: Sequence[bytes] = (),
    ) -> Self:
        """Open the journal in that file, which is created if missing, readable by its owner only.
        Blocks briefly. Raises AgentError(invalid) for an unusable location, and for a file that is
        not a journal, is damaged, or is of a newer version.

        `durability`: an append that has returned survives the death of the process, or also a power
        loss; the start of a once-call always survives both. `busy_timeout_s`: seconds to wait for
        writes of other processes. On Linux a network file system is refused; elsewhere it is not
        detected, and must not be used. `keys`: of an encrypted journal, the current one first.
        """
        if durability not in get_args(Durability):
            raise AgentError("invalid", f"durability is 'process' or 'power', not {durability!r}")
        place = Path(path).expanduser().resolve()
        prepare(place)
        guard = Guard.enter(place, wait_s=busy_timeout_s)
        try:
            db, seal = opened(place, keys, busy_timeout_s=busy_timeout_s)
        except BaseException:
            guard.give_up()
            raise
        guard.share()
        power = durability == "power"
        return cls(place, db, guard, power=power, busy_timeout_s=busy_timeout_s, seal=seal)

    async def aclose(self, *, keep_runs: bool = False) -> None:
        self._keeps_runs |= keep_runs
        with anyio.CancelScope(shield=True):
            await run_in_thread(self._close, or_here=True)

    def _close(self) -> None:
        self.notifier.close()
        self._readers.close()
        keeps = self._keeps_runs and bool(self._held)
        if not keeps:
            self._sign_off()
        self._writer.close()
        if not keeps:  # otherwise the kernel releases the lock when the process ends
            self._workers.leave()

    def _sign_off(self) -> None:
        """Remove this worker from the lists, because it ended in an orderly way."""
        if (me := self._workers.me) is not None:
            with contextlib.suppress(AgentError):  # already closed, or the file cannot be written
                self._writer.write_now(
                    lambda db: db.execute("delete from workers where id = ?", (me,)).changed
                )

    # ------------------------------------------------------------ driving

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        await self._write_releases()
        return self._hold(
            await driving.begin(self._writer, self._workers, started, self._let_go, found=found)
        )

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        await self._write_releases()
        return self._hold(
            await driving.take_over(self._writer, self._workers, run_id, self._let_go, force=force)
        )

    def _hold(self, run: driving.SqliteRun) -> driving.SqliteRun:
        self._held.add(run.num, run.run_id, run.fence)
        run.tell = self.notifier.tell
        self.notifier.tell(run.topic)
        return run

    def _let_go(self, num: int, fence: int, unwritten: Work[None] | None = None) -> None:
        self._held.remove(num, fence)
        if unwritten is not None:
            self._unwritten.append(unwritten)

    async def _write_releases(self) -> None:
        if self._unwritten:
            await self._writer.write(self._release_again, alone=True)

    def _release_again(self, db: Cursor) -> bool:
        """Retry releases of runs. Returns True if some are left. Each checks its fence, so at worst
        it changes nothing.

        Belongs to the writer's thread.
        """
        with contextlib.suppress(apsw.Error):  # the file still cannot be written
            while self._unwritten:
                self._unwritten[0](db)
                del self._unwritten[0]
        return bool(self._unwritten)

    def on_stop(self, heard: Callable[[str], None]) -> None:
        self._held.heard = heard

    def hurry(self) -> None:
        """Do nothing, because waiting for a locked file is bounded anyway."""

    async def ask_to_stop(self, run_id: str) -> bool:
        return self._held.asked(
            await self._writer.write(
                lambda db: wish(db, run_id, self._workers.me, self._workers.of)
            )
        )

    def _chores(self, db: Cursor, *, idle: bool) -> bool:
        """Check for requests to stop runs, and retry pending releases; when idle, index messages
        for searching.
        """
        if self._held:
            self._stop_all_if_lost()
        owes = bool(self._unwritten) and self._release_again(db)
        if self._held and (version := db.execute("pragma data_version").get) != self._seen_version:
            self._stop_runs(db)
            # otherwise one may be for a run that is just beginning here
            if not db.execute("select 1 from stops limit 1").fetchone():
                self._seen_version = version
        if idle and self._owes_log:
            self._empty_log(db, wait_s=0)
        if (
            not idle
            or not db.execute(
                "select 1 from runs where finished is not null and indexed = 0 limit 1"
            ).fetchone()
        ):
            return owes
        db.execute("begin immediate")
        more = search.index(db, most=INDEXED_AT_ONCE)
        db.execute("commit")
        return more or owes

    def _stop_all_if_lost(self) -> None:
        """Stop runs that wait for a model or a tool, because their next append would fail. Raises
        AgentError.
        """
        try:
            self._guard.check()
        except AgentError:
            for num in self._held.numbers():
                self._held.tell(num)
            raise

    def _stop_runs(self, db: Cursor) -> None:
        held = set(self._held.numbers())
        for num in [
            num for (num,) in db.execute("select run from stops").fetchall() if num in held
        ]:
            if self._held.tell(num):
                db.execute("delete from stops where run = ?", (num,))

    async def _scrub(self) -> None:
        """Checkpoint the log, which contains pages from before a deletion, into the file, and empty
        it.
        """
        await self._writer.write(partial(self._empty_log, wait_s=1), alone=True)

    def _empty_log(self, db: Cursor, *, wait_s: float) -> None:
        """Empty the log. If a reader prevents it, try again when the writer is idle.

        Belongs to the writer's thread.
        """
        before = db.execute("pragma busy_timeout").get
        db.execute(f"pragma busy_timeout = {int(wait_s * 1000)}").fetchall()
        try:
            ((prevented, _, _),) = db.execute("pragma wal_checkpoint(truncate)").fetchall()
            self._owes_log = bool(prevented)
        finally:
            db.execute(f"pragma busy_timeout = {before}").fetchall()

    async def _shrink(self) -> None:
        def free(db: Cursor) -> int:
            db.execute(f"pragma incremental_vacuum({FREED_AT_ONCE})").fetchall()
            return db.execute("pragma freelist_count").get

        left = await self._writer.write(free, alone=True)
        while left and (fewer := await self._writer.write(free, alone=True)) < left:
            left = fewer


if TYPE_CHECKING:
    _: tuple[type[Journal], type[JournalWatch]] = SqliteJournal, SqliteWatch
