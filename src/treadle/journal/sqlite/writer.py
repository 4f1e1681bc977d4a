"""The only connection that writes to a journal file. Its thread combines concurrent writes of many
runs into one transaction; callers supply the writes. Entry points: `SqliteWriter.write`,
`SqliteWriter.write_now`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from treadle._internal.crash import boundary
from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.pending import MEMORY_WAIT_S
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.failures import as_told, translated
from treadle.journal.sqlite.guard import Guard
from treadle.journal.sqlite.log import Log
from treadle.journal.sqlite.writes import Chores, SqliteWrite, WriteQueue
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import start

T = TypeVar("T")
logger = logging.getLogger("treadle")

IDLE_S = 0.2
"""Seconds that the thread waits for the next write before it does maintenance, or checks for stop
requests.
"""
CHORES_WAIT_S = 0.1
FEW = 4
"""Maximum number of drivers that write in their own threads."""


class SqliteWriter:
    """Writer of a journal. Starts its thread on the first write. Safe from any thread and any event
    loop.
    """

    def __init__(
        self,
        db: apsw.Connection,
        guard: Guard,
        *,
        power: bool,
        busy_timeout_ms: int,
        chores: Chores,
        drivers: Callable[[], int],
        seal: Seal | None = None,
    ) -> None:
        """Create a SQLite writer. `drivers` returns the number of runs driven from here. While
        there are any, the thread does maintenance even without writes.
        """
        self._db = db
        self._guard, self._path = guard, guard.path
        self._power = power
        self._chores = chores
        self._drivers = drivers
        self._queue = WriteQueue()
        self._turn = threading.Lock()
        """Held to use the connection and its cursor. The thread holds it while it has work."""
        self._cursor = cursor_of(db, seal)
        self._busy_timeout_ms = busy_timeout_ms
        self._lock = threading.Lock()
        """Guards the two attributes below, so that no write is queued after the end."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._is_over = False
        """True once the connection is closed and the guard released."""
        self._closing = threading.Lock()
        """Prevents closing the connection while the thread uses it, and closing it twice
        concurrently.
        """
        self._full: bool | None = False
        """True if SQLite's synchronous mode is FULL; None if unknown."""
        self._more, self._looked_at = False, time.monotonic()
        """True if maintenance is left to do, and the time of the last one."""
        self._log = Log(db, guard)
        abandon_in_children(self)

    # ------------------------------------------------------------ submitting

    async def write(
        self,
        work: Work[T],
        *,
        undo: Callable[[], None] | None = None,
        stands: Work[bool] | None = None,
        appends: bool = False,
        once: bool = False,
        alone: bool = False,
    ) -> T:
        """Run the work and return its result once it is durable, even while the caller is
        cancelled. `SqliteWrite` describes the rest.

        Raises AgentError.
        """
        try:
            write = SqliteWrite(
                work, undo=undo, stands=stands, appends=appends, once=once, alone=alone
            )
            if appends and not once and self._write_here(write):
                return write.outcome()
            outcome = write.awaited(self._hand_in)
        except MemoryError as e:
            raise translated(e, self._path) from e
        return await outcome

    def write_now(self, work: Work[T]) -> T:
        """Run the work like `write`, but block the calling thread."""
        write = SqliteWrite(work)
        future = write.waited_for()
        self._hand_in(write)
        return future.result()

    def _write_here(self, write: SqliteWrite[Any]) -> bool:
        """Write immediately in the caller's thread, if there is no other writer and no commit that
        must be flushed to disk: cheaper than waking a thread and waiting for it. With many drivers,
        batching in the thread is better. False: nothing was done.
        """
        if (
            self._power
            or self._thread is None
            or self._drivers() > FEW
            or not self._turn.acquire(blocking=False)
        ):
            return False
        try:
            if self._closed or self._queue.submitted != self._queue.answered:
                return False
            self._guard.check()
            if not self._guard.turns.take(self):
                return False
            self._db.set_busy_timeout(0)
            try:
                self._be_durable(self._cursor, full=False)
                self._cursor.execute("begin immediate")
            except apsw.BusyError:  # another process is writing; the thread can wait for it
                return False
            finally:
                self._db.set_busy_timeout(self._busy_timeout_ms)
            self._commit([write], begun=True)
        finally:
            try:
                self._roll_back()  # a signal arrived right after the transaction began
            finally:
                self._guard.turns.end(self)
                self._turn.release()
        if self._log.is_long:
            # the journal is being closed, which does the same, or there is no memory: the next
            # write does it
            with contextlib.suppress(AgentError, MemoryError):
                # the thread checkpoints the log
                self._hand_in(SqliteWrite(lambda db: None, alone=True))
        return True

    def _hand_in(self, write: SqliteWrite[Any]) -> None:
        with self._lock:
            if self._closed:
                raise AgentError(
                    "invalid", f"the journal {str(self._path)!r} is closed: open it again"
                )
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="treadle-journal", daemon=True)
                start(thread)
                self._thread = thread
            self._queue.put(write)

    def abandon(self) -> None:
        """Detach in a forked child, where this thread does not exist, and other missing threads may
        hold the locks.
        """
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._thread, self._closed = None, True

    def close(self) -> None:
        """Complete all submitted writes, then checkpoint the log. Idempotent, also after an
        exception.
        """
        with self._closing:
            with self._lock:
                if self._thread is not None and not self._closed:
                    self._queue.end()
                self._closed = True
            if self._thread is not None:
                self._thread.join()
                self._thread = None
            if not self._is_over:
                self._is_over = True
                try:
                    self._close_file()
                finally:
                    self._guard.leave()

    def _close_file(self) -> None:
        is_alone = False
        try:
            is_alone = not self._guard.is_lost and self._guard.is_alone()
        finally:
            if not is_alone:
                # only the last process may checkpoint the log, even if SQLite sees no other one
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            with contextlib.suppress(apsw.Error):  # the log keeps what was not written to the file
                self._db.close()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        """Work until the end of the queue. Nothing else ends the thread, because its waiters, and
        all later ones, would wait forever.
        """
        error: BaseException | None = None
        while not self._queue.is_over:
            try:
                if error is None:
                    self._take_a_turn()
                else:
                    self._give_up(error)
                    error = None
            except BaseException as e:  # noqa: BLE001  the edge of the thread
                error = error or e
                time.sleep(MEMORY_WAIT_S)

    def _take_a_turn(self) -> None:
        """Process the next writes, or do maintenance if there are none."""
        self._queue.take(IDLE_S if self._more or self._drivers() else None)
        batch, ends = self._queue.batch, self._queue.ends
        idle = not batch or ends
        with self._turn:
            if batch:
                self._more = True
                self._write_all(batch)
                self._queue.answer()
            self._queue.is_over = ends
            if idle or time.monotonic() - self._looked_at > IDLE_S:
                self._more = self._look_after(idle=idle) or not idle
                self._looked_at = time.monotonic()
            if self._log.is_long:
                self._log.move()
            if ends:
                # others use the file: the last of them does it
                self._db.set_busy_timeout(0)
                self._log.move(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _write_all(self, batch: Sequence[SqliteWrite[Any]]) -> None:
        together = [write for write in batch if not write.alone]
        if together:
            self._commit(together)
        if len(together) < len(batch):
            for write in batch:
                if write.alone:
                    self._work_alone(write)

    def _give_up(self, error: BaseException) -> None:
        """Continue after an error outside any write: unfinished writes of the batch fail."""
        with self._turn:
            self._fail(self._queue.batch, error)
            self._queue.answer()
        if not isinstance(error, MemoryError):
            logger.error("the writer of the journal %s failed", self._path, exc_info=error)

    def _commit(self, batch: Sequence[SqliteWrite[Any]], *, begun: bool = False) -> None:
        """Commit a batch. `begun`: the transaction is already open, for an append."""
        cursor, committing = self._cursor, False
        self._log.is_committed = False
        try:
            appends = begun or any([write.appends for write in batch])
            if not begun:
                self._guard.check()
                self._be_durable(cursor, full=self._power or any([write.once for write in batch]))
                self._guard.turns.wait(self, self._busy_timeout_ms / 1000)
                cursor.execute("begin immediate")
            if len(batch) == 1:
                batch[0].result = batch[0].work(cursor)
            else:
                for write in batch:
                    self._work(cursor, write)
            if appends:
                boundary()
            committing = True
            cursor.execute("commit")
            self._log.is_committed = True  # SQLite does not report a commit that changed nothing
            for write in batch:
                write.done = True
            if appends:
                boundary()
        except BaseException as e:  # noqa: BLE001  the edge of the thread: the waiter gets the error, and the thread goes on
            # a signal or a lack of memory came right after the commit
            if committing and isinstance(e, MemoryError) and not self._log.is_committed:
                self._look_up(batch)
            self._fail(batch, e, stored=self._log.is_committed)
        finally:
            self._guard.turns.end(self)

    def _look_up(self, batch: Sequence[SqliteWrite[Any]]) -> None:
        """Look up the batch in the file, because there was no memory to receive the result of a
        commit.
        """
        self._roll_back()
        with contextlib.suppress(apsw.Error):
            for write in batch:
                if write.stands is not None and write.error is None:
                    self._log.is_committed = write.stands(self._cursor)
                    return

    def _work(self, cursor: Cursor, write: SqliteWrite[Any]) -> None:
        """Run one write of several. Its failure does not affect the others."""
        cursor.execute("savepoint one")
        try:
            write.result = write.work(cursor)
        except Exception as e:
            if isinstance(e, apsw.Error) and not isinstance(e, apsw.ConstraintError):
                raise
            cursor.execute("rollback to one")
            write.failed(self._error(e))
        cursor.execute("release one")

    def _work_alone(self, write: SqliteWrite[Any]) -> None:
        try:
            self._guard.check()
            self._guard.turns.wait(self, self._busy_timeout_ms / 1000)
            write.result = write.work(self._cursor)
            write.done = True
        except BaseException as e:  # noqa: BLE001  as above
            self._fail((write,), e)
        finally:
            self._guard.turns.end(self)

    def _fail(
        self, batch: Sequence[SqliteWrite[Any]], error: BaseException, *, stored: bool = False
    ) -> None:
        """Roll back, and record the error for each unfinished write. Repeated until there is enough
        memory.

        `stored`: the batch was committed. A lack of memory is then no error, and any other error
        keeps the changes of the work in memory.
        """
        while True:
            try:
                self._roll_back()
                for write in reversed(batch):
                    if stored and isinstance(error, MemoryError):
                        write.done = True
                    elif stored or not write.done:
                        write.failed(self._error(error), undo=not stored)
                return
            except MemoryError:
                time.sleep(MEMORY_WAIT_S)

    def _roll_back(self) -> None:
        while self._db.in_transaction:  # otherwise SQLite did so by itself
            try:
                self._cursor.execute("rollback")
            except apsw.Error:
                return
            except MemoryError:
                time.sleep(MEMORY_WAIT_S)

    def _error(self, error: BaseException) -> BaseException:
        """Return the error for the waiter. Never raises, because the waiter would wait forever."""
        try:
            return as_told(error, self._path)
        except Exception as e:  # noqa: BLE001  a bug in the translation becomes the error
            return e

    def _be_durable(self, cursor: Cursor, *, full: bool) -> None:
        """Set SQLite's synchronous mode. NORMAL survives the death of the process; FULL also
        survives a power failure, and includes all earlier writes.
        """
        if full != self._full:
            self._full = None  # an interrupt may come before the next line, or after it
            cursor.execute("pragma synchronous=full" if full else "pragma synchronous=normal")
            self._full = full

    # ------------------------------------------------------------ maintenance

    def _look_after(self, *, idle: bool) -> bool:
        more = False
        try:
            self._guard.turns.wait(self, CHORES_WAIT_S)
            more = self._chores(self._cursor, idle=idle)
        except Exception:  # noqa: BLE001  it has no waiter, and is tried again
            self._roll_back()
        finally:
            self._guard.turns.end(self)
        if idle and self._log.is_worth_moving:
            self._log.move()
        return more
