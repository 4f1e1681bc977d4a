"""The journal in a SQLite file: the contract of a journal, put together out of the files beside this one. Entry: `SqliteJournal.open`."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, get_args

import anyio
import anyio.to_thread
import apsw

from treadle.costs import By, Costs
from treadle.entries import Fork, Record, RunFinished, RunStarted
from treadle.errors import AgentError
from treadle.journal import Freed, Holder, Journal, RunInfo, RunWriter, info_of, read_run
from treadle.journals.sqlite import driving, pruning, search
from treadle.journals.sqlite.conversations import holder, joined, number_of, ran
from treadle.journals.sqlite.database import Cursor
from treadle.journals.sqlite.listing import costs, listed
from treadle.journals.sqlite.places import prepare
from treadle.journals.sqlite.readers import Readers
from treadle.journals.sqlite.rows import bodies, check_id, find, insert, records, row_of
from treadle.journals.sqlite.schema import connect, make_ready, unusable
from treadle.journals.sqlite.sessions import SqliteSessions
from treadle.journals.sqlite.upcasting import upcast
from treadle.journals.sqlite.workers import Workers
from treadle.journals.sqlite.writer import Work, Writer
from treadle.json_text import decode_json, encode_json, members
from treadle.loading import forked, load
from treadle.message import Message
from treadle.run_state import RunState
from treadle.types import Time

Durability = Literal["process", "power"]
BUSY_TIMEOUT_S = 15.0
PRUNED_AT_ONCE = 20
"""Runs that one transaction takes away, so that appends need not wait long."""
INDEXED_AT_ONCE = 10
FREED_AT_ONCE = 2000
"""Pages."""


class SqliteJournal:
    """Runs in a file that any number of processes of one machine may use at once. Made by `open`."""

    def __init__(self, path: Path, db: apsw.Connection, *, power: bool, busy_timeout_s: float) -> None:
        self.path = path
        self._workers = Workers(path)
        self._readers = Readers(path, busy_timeout_s=busy_timeout_s)
        busy_timeout_ms = int(busy_timeout_s * 1000)
        self._writer = Writer(db, path, power=power, busy_timeout_ms=busy_timeout_ms, chores=self._chores, drivers=lambda: len(self._held))
        self.sessions = SqliteSessions(self._writer, self._readers, self._workers)
        self._held: dict[int, tuple[str, asyncio.AbstractEventLoop]] = {}
        """The runs that are driven from here, by number, with the event loop of each."""
        self._unwritten: list[Work[None]] = []
        """Releases of runs that the file did not take."""
        self._heard: Callable[[str], None] | None = None
        self._seen_version = 0
        """Of the file, when it was last looked at what others wrote."""

    @classmethod
    def open(cls, path: Path | str, *, durability: Durability = "process", busy_timeout_s: float = BUSY_TIMEOUT_S) -> Self:
        """The journal in that file, which is made where there is none, for its owner alone. Quick, and blocks.

        `durability`: an append that returned outlives the death of the process, or also a loss of power; the start of a once-call
        always outlives both. `busy_timeout_s`: how long to wait for other processes that write. On Linux a network file system is
        refused; elsewhere it is not recognised, and must not be used. Raises AgentError(invalid) for a place that cannot be used
        and for a file that is no journal, damaged, or of a newer version.
        """
        if durability not in get_args(Durability):
            raise AgentError("invalid", f"durability is 'process' or 'power', not {durability!r}")
        place = Path(path).expanduser().resolve()
        prepare(place)
        try:
            db = connect(place, busy_timeout_s=busy_timeout_s)
        except apsw.Error as e:
            raise unusable(e, place) from e
        try:
            make_ready(db, place, busy_timeout_s=busy_timeout_s)
        except BaseException:
            db.close()
            raise
        return cls(place, db, power=durability == "power", busy_timeout_s=busy_timeout_s)

    async def aclose(self) -> None:
        """What is being appended is finished; runs that are held are free for others. Idempotent."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._close, limiter=anyio.CapacityLimiter(1))

    def _close(self) -> None:
        self._readers.close()
        self._writer.close()
        self._workers.leave()

    # ------------------------------------------------------------ driving

    async def begin(self, started: RunStarted) -> RunWriter:
        await self._write_releases()
        return self._hold(await driving.begin(self._writer, self._workers, started, self._let_go))

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        await self._write_releases()
        return self._hold(await driving.take_over(self._writer, self._workers, run_id, self._let_go, force=force))

    def _hold(self, run: driving.SqliteRun) -> driving.SqliteRun:
        self._held[run.num] = (run.run_id, asyncio.get_running_loop())
        return run

    def _let_go(self, num: int, unwritten: Work[None] | None = None) -> None:
        self._held.pop(num, None)
        if unwritten is not None:
            self._unwritten.append(unwritten)

    async def _write_releases(self) -> None:
        if self._unwritten:
            await self._writer.write(self._release_again, alone=True)

    def _release_again(self, db: Cursor) -> bool:
        """Whether some are left. Each checks its fence: at worst it changes nothing. Belongs to the writer's thread."""
        with contextlib.suppress(apsw.Error):  # the file still takes nothing
            while self._unwritten:
                self._unwritten[0](db)
                del self._unwritten[0]
        return bool(self._unwritten)

    def on_stop(self, heard: Callable[[str], None]) -> None:
        self._heard = heard

    async def ask_to_stop(self, run_id: str) -> bool:
        def ask(db: Cursor) -> int | None:
            num = find(db, run_id).num
            owner = db.execute("select owner from runs where num = ?", (num,)).get
            if self._workers.alive(owner) is None:
                return None
            if owner != self._workers.me:
                db.execute("insert or ignore into stops values(?)", (num,))
            return num

        num = await self._writer.write(ask)
        return num is not None and (num not in self._held or self._tell(num))

    def _tell(self, num: int) -> bool:
        """Whether anybody listens."""
        held = self._held.get(num)
        if held is None or self._heard is None:
            return False
        run_id, loop = held
        try:
            loop.call_soon_threadsafe(self._heard, run_id)
        except RuntimeError:  # the loop is closed, and its runs with it
            return False
        return True

    def _chores(self, db: Cursor, *, idle: bool) -> bool:
        """Looks whether others want a run to stop, and lets go of what could not be let go of; when idle, adds to what a search finds."""
        owes = bool(self._unwritten) and self._release_again(db)
        if self._held and (version := db.execute("pragma data_version").get) != self._seen_version:
            self._stop_runs(db)
            if not db.execute("select 1 from stops limit 1").fetchone():  # else one may be for a run that is just being begun here
                self._seen_version = version
        if not idle or not db.execute("select 1 from runs where finished is not null and indexed = 0 limit 1").fetchone():
            return owes
        db.execute("begin immediate")
        more = search.index(db, most=INDEXED_AT_ONCE)
        db.execute("commit")
        return more or owes

    def _stop_runs(self, db: Cursor) -> None:
        asked = [num for (num,) in db.execute("select run from stops").fetchall() if num in self._held]
        for num in asked:
            db.execute("delete from stops where run = ?", (num,))
            self._tell(num)

    # ------------------------------------------------------------ reading

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        return await self._readers.read(lambda db: records(db, run_id, after=after))

    async def load(self, run_id: str) -> RunState:
        return await self._readers.read(lambda db: load(run_id, partial(records, db), self.sessions))

    async def children(self, run_id: str) -> list[RunInfo]:
        return await self._readers.read(lambda db: list(listed(db, self._workers, "where parent = ? order by num", (run_id,))))

    async def load_fork(self, fork: Fork) -> RunState:
        return await self._readers.read(lambda db: forked(fork, partial(records, db), self.sessions))

    async def messages(self, session_id: str) -> Sequence[Message]:
        return await anyio.to_thread.run_sync(self.sessions.get_messages, session_id)

    async def read_bytes(self, run_id: str) -> list[bytes]:
        return await self._readers.read(lambda db: [data for _, data in bodies(db, find(db, run_id).num)])

    async def info(self, run_id: str) -> RunInfo:
        def read(db: Cursor) -> RunInfo:
            return next(listed(db, self._workers, "where num = ?", (find(db, run_id).num,)))

        return await self._readers.read(read)

    async def runs(self, *, limit: int | None = None, session_id: str | None = None) -> list[RunInfo]:
        def read(db: Cursor) -> list[RunInfo]:
            most = -1 if limit is None else min(max(limit, 0), sys.maxsize)
            if session_id is None:
                return list(listed(db, self._workers, "order by num desc limit ?", (most,)))
            session = number_of(db, session_id)
            return list(listed(db, self._workers, "where session = ? order by num desc limit ?", (session, most)))

        return await self._readers.read(read)

    async def holder(self, session_id: str) -> Holder | None:
        return await self._readers.read(lambda db: holder(db, session_id, self._workers))

    async def costs(self, by: By, *, since: date | None = None) -> Costs:
        return await self._readers.read(lambda db: costs(db, by, since))

    # ------------------------------------------------------------ importing, pruning

    async def add_run(self, entries: Sequence[bytes]) -> RunInfo:
        read = read_run(_upcast(entries))
        started = read[0]
        assert isinstance(started, RunStarted), "read_run sees to it"
        run_id = started.run_id
        check_id(run_id)
        info = info_of(read, "finished")
        end = next((seq for seq, entry in enumerate(read, 1) if isinstance(entry, RunFinished)), None)
        rows = [row_of(entry, data) for entry, data in zip(read, entries, strict=True)]

        def work(db: Cursor) -> None:
            if db.execute("select 1 from runs where id = ?", (run_id,)).fetchone() is not None:
                raise AgentError("invalid", f"run {run_id} is here already: nothing was added")
            if started.fork is not None and db.execute("select 1 from runs where id = ?", (started.fork.run_id,)).fetchone() is None:
                raise AgentError("invalid", f"run {run_id} was forked from {started.fork.run_id}, which is not here: import that one first")
            conversation = joined(db, started, None)
            num = driving.add_row(db, started, conversation, owner=None, fence=1, head=len(rows), updated_at=read[-1].at)
            try:
                insert(db, num, 1, rows)
            except apsw.ConstraintError as e:
                raise AgentError("invalid", f"run {run_id} has two results, or two starts, of one call: nothing was added") from e
            if end is not None:
                db.execute("update runs set finished = ?, summary = ?, counted = 1 where num = ?", (end, encode_json(info), num))
                ran(db, num, read[-1].at, said=None)

        await self._writer.write(work)
        return await self.info(run_id)

    async def prune(self, before: Time, *, apply: bool) -> Freed:
        """The file shrinks by what is freed. Appends go on meanwhile."""

        def would(db: Cursor) -> tuple[tuple[str, ...], tuple[str, ...], int]:
            planned = pruning.plan(db, before)
            return tuple(planned.going), tuple(planned.kept), pruning.size_bytes(db, list(planned.going.values()))

        runs, kept, size = await self._readers.read(would)
        if apply:
            gone: dict[str, int] = {}
            while some := await self._writer.write(lambda db: pruning.prune_some(db, before, most=PRUNED_AT_ONCE)):
                gone |= some
            await self._shrink()
            runs, size = tuple(gone), sum(gone.values())
        return Freed(runs=runs, kept=kept, size_bytes=size)

    async def _shrink(self) -> None:
        def free(db: Cursor) -> int:
            db.execute(f"pragma incremental_vacuum({FREED_AT_ONCE})").fetchall()
            return db.execute("pragma freelist_count").get

        left = await self._writer.write(free, alone=True)
        while left and (fewer := await self._writer.write(free, alone=True)) < left:
            left = fewer


def _upcast(entries: Sequence[bytes]) -> Sequence[bytes]:
    """As this version reads them; what is no entry stays for its reader to say so."""
    try:
        schema = decode_json(members(entries[0].decode()).get("schema", "1").encode(), int) if entries else 1
    except ValueError:
        return entries
    return [upcast(data, schema) for data in entries]


if TYPE_CHECKING:
    _: type[Journal] = SqliteJournal
