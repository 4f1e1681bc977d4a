"""The one driver of a run: how it begins, is appended to, taken over and let go. Each is one transaction that checks the fence.

Which thread writes is writer.py's, who is alive workers.py's business. Entry: `SqliteRun`, `begin`, `take_over`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from treadle.entries import Entry, RunFinished, RunResumed, RunStarted, ToolLate, ToolStarted
from treadle.errors import AgentError
from treadle.journals.sqlite.workers import Workers
from treadle.journals.sqlite.writer import Writer
from treadle.journals.tables.beginning import make_run
from treadle.journals.tables.conversations import ran, recount
from treadle.journals.tables.database import Cursor, Work
from treadle.journals.tables.listing import summary_of
from treadle.journals.tables.queue import LET_GO
from treadle.journals.tables.rows import Row, bodies, check_id, find, insert, micros, read_stored, row_of
from treadle.journals.tables.said import SaidCount
from treadle.notifier import QUEUE, run_topic
from treadle.types import Time, now

_ADVANCE = "update runs set head = head + ?, updated_at_us = ? where num = ? and fence = ? and head = ? and owner = ?"
_ADVANCE_LATE = "update runs set head = head + ?, updated_at_us = ? where num = ? and fence = ? and head = ?"
_FINISH = """
update runs set head = head + ?, updated_at_us = ?, finished = ?, summary = coalesce(?, summary), counted = ?, owner = null, sent_to = null
where num = ? and fence = ? and head = ? and owner = ?
"""
_RELEASE = f"update runs set owner = null, waiting = ?, {LET_GO}, ready_at_us = ? where num = ? and fence = ? and owner = ?"


class LetGo(Protocol):
    """Told that a run is not driven any more."""

    def __call__(self, num: int, unwritten: Work[None] | None = None, /) -> None:
        """`unwritten`: what says so in the file, which did not take it."""
        ...


class SqliteRun:
    """Appends to one run until another driver takes it over."""

    def __init__(self, writer: Writer, worker: str, started: RunStarted, *, num: int, fence: int, head: int, begun: bool, let_go: LetGo) -> None:
        """`begun`: this object drives it from its beginning, and so has seen every entry. `let_go` is told once it does no more."""
        self.run_id = started.run_id
        self.num = num
        self.fence = fence
        self._writer = writer
        self._worker = worker
        self._started = started
        self._head = head
        """Belongs to the writer's thread."""
        self._resumed: RunResumed | None = None
        self._begun = begun
        self._said = SaidCount(started) if begun and started.fork is None else None
        """None: it is to be counted."""
        self._let_go = let_go
        self.topic = run_topic(started.run_id)
        self.tell: Callable[[str], None] = _nobody
        self._over = False
        """It was let go, or is finished."""

    async def append(self, entries: Sequence[Entry]) -> int:
        if not entries:
            return self._head + 1
        rows: list[Row] = []
        end, late, once = None, True, False
        for n, entry in enumerate(entries):
            rows.append(row_of(entry))
            kind = type(entry)
            if kind is RunFinished:
                end, late = n, True
            elif kind is not ToolLate:
                late = False
                once = once or (kind is ToolStarted and cast("ToolStarted", entry).effect == "once")
        if end is not None and not late:
            raise AgentError("invalid", f"after its end nothing but tool.late is appended to run {self.run_id}: nothing was appended")
        before = self._head

        def work(db: Cursor) -> int:
            nonlocal before
            before = self._head
            if end is None:
                self._advance(db, len(rows), entries[-1].at, late=late)
            else:
                self._finish(db, entries, before + end + 1)
            insert(db, self.num, before + 1, rows)
            self._head += len(rows)
            return before + 1

        def undo() -> None:
            self._head = before

        self._note(entries)
        try:
            first = await self._writer.write(work, undo=undo, appends=True, once=once)
        except AgentError as e:
            self._said = None  # it has counted what is not there
            if e.kind == "busy":
                self._let_go(self.num)
            raise
        self.tell(self.topic)
        if end is not None:
            self._over = True
            self._let_go(self.num)
        return first

    def _note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if type(entry) is RunResumed:
                self._resumed = entry
            elif self._said is not None:
                try:
                    self._said.add(entry)
                except AgentError:  # a receipt of a newer version
                    self._said = None

    def _advance(self, db: Cursor, count: int, at: Time, *, late: bool) -> None:
        if late:  # also after its end, and after it was let go
            db.execute(_ADVANCE_LATE, (count, micros(at), self.num, self.fence, self._head))
            self._check(db)
            recount(db, self.num, at)
        else:
            db.execute(_ADVANCE, (count, micros(at), self.num, self.fence, self._head, self._worker))
            self._check(db)

    def _finish(self, db: Cursor, entries: Sequence[Entry], seq: int) -> None:
        """The end lets go of the run in the same transaction."""
        finished = cast("RunFinished", entries[seq - self._head - 1])
        updated = entries[-1].at
        summary = None  # a list folds its entries
        if self._begun or self._resumed is not None:
            summary = summary_of(self._started, self._resumed, finished)
        changes = (len(entries), micros(updated), seq, summary, summary is not None)
        db.execute(_FINISH, (*changes, self.num, self.fence, self._head, self._worker))
        self._check(db)
        db.execute("delete from stops where run = ?", (self.num,))
        ran(db, self.num, finished.at, said=None if self._said is None else self._said.count)

    def _check(self, db: Cursor) -> None:
        if db.changed != 1:
            raise AgentError("busy", f"run {self.run_id} is not held by this driver any more: another one took it over, or it is over. Nothing was appended")

    async def release(self, *, waiting: bool = False) -> None:
        if self._over:
            return
        self._over = True
        self._let_go(self.num)
        at = now()

        def work(db: Cursor) -> None:
            db.execute(_RELEASE, (waiting, waiting, micros(at), self.num, self.fence, self._worker))

        try:
            await self._writer.write(work)
            self.tell(QUEUE)
        except AgentError:  # nobody can take it up before that is written, or this process has ended
            self._let_go(self.num, work)


def _nobody(topic: str) -> None:
    """Listens."""


# ---------------------------------------------------------------- how a driver comes to its run


async def begin(writer: Writer, workers: Workers, started: RunStarted, let_go: LetGo) -> SqliteRun:
    """Makes the run with its first entry, and its session where there is none. Raises AgentError(busy)."""
    check_id(started.run_id)
    worker, row = workers.register(), row_of(started)

    def work(db: Cursor) -> int:
        num = make_run(db, started, workers.of, owner=worker)
        insert(db, num, 1, (row,))
        return num

    num = await writer.write(work, appends=True)
    return SqliteRun(writer, worker, started, num=num, fence=1, head=1, begun=True, let_go=let_go)


async def take_over(writer: Writer, workers: Workers, run_id: str, let_go: LetGo, *, force: bool) -> SqliteRun:
    """Holds a run that nobody drives, under a new fence. Raises AgentError(busy | invalid)."""
    worker = workers.register()

    def work(db: Cursor) -> SqliteRun:
        run = find(db, run_id)
        owner, fence, head, finished = cast(
            "tuple[str | None, int, int, int | None]", db.execute("select owner, fence, head, finished from runs where num = ?", (run.num,)).fetchone()
        )
        if finished is not None:
            raise AgentError("invalid", f"run {run_id} is finished: `treadle runs fork {run_id}` goes on from it")
        process = None if force else workers.alive(owner)
        if process is not None:
            raise AgentError("busy", f"run {run_id} is being driven by process {process}: wait for its end, or stop it with `treadle runs kill {run_id}`")
        db.execute("update runs set owner = ?, fence = fence + 1, waiting = 0 where num = ?", (worker, run.num))
        db.execute("delete from stops where run = ?", (run.num,))
        ((_, data),) = bodies(db, run.num, to=1)
        started = cast("RunStarted", read_stored(data, run.schema))
        return SqliteRun(writer, worker, started, num=run.num, fence=fence + 1, head=head, begun=False, let_go=let_go)

    return await writer.write(work)
