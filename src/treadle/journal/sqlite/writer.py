"""The one connection that writes to a journal file. Its thread combines concurrent writes of many
runs into one transaction; callers supply the writes. Entry points: `SqliteWriter.write`,
`SqliteWriter.write_now`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from treadle._internal.crash import boundary
from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.pending import outcome_of, settle_all
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.failures import as_told
from treadle.journal.sqlite.guard import Guard
from treadle.journal.sqlite.writes import Chores, SqliteWrite, next_batch
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.threads import start

T = TypeVar("T")

IDLE_S = 0.2
"""Time for which the thread waits for the next write before it does maintenance, or checks for
requests to stop a run.
"""
LOG_PAGES_MIN, LOG_PAGES_MAX = 128, 1000
"""When the log is as long as the file, within these, it is moved into the file before the next
write; when the thread is idle, a little is enough.
"""
IDLE_PAGES = 32
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
    ) -> None:
        """`drivers` returns the number of runs driven from here. While there are any, the thread
        does maintenance even without writes.
        """
        self._db = db
        self._guard, self._path = guard, guard.path
        self._power = power
        self._chores = chores
        self._drivers = drivers
        self._queue: SimpleQueue[SqliteWrite[Any] | None] = SimpleQueue()
        self._turn = threading.Lock()
        """Held to use the connection; by the thread while it has work."""
        self._here = cursor_of(db)
        self._busy_timeout_ms = busy_timeout_ms
        self._lock = threading.Lock()
        """Guards the three below, so that no write is queued after the end."""
        self._unwritten = 0
        """Submitted writes that are not done: later ones queue behind them."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._is_over = False
        """True once the connection is closed and the guard released."""
        self._closing = threading.Lock()
        """Prevents closing the connection while the thread uses it, and closing it twice at once.
        """
        self._full: bool | None = False
        """True if SQLite's synchronous mode is FULL; None if unknown."""
        self._log_pages = self._moved_pages = 0
        """Length of the log, and how much of it was in the file after the last check."""
        self._log_pages_max = LOG_PAGES_MIN
        abandon_in_children(self)
        # in place of SQLite's own checkpoints, which would come before the futures are resolved
        db.set_wal_hook(self._committed)

    # ------------------------------------------------------------ handing in

    async def write(
        self,
        work: Work[T],
        *,
        undo: Callable[[], None] | None = None,
        appends: bool = False,
        once: bool = False,
        alone: bool = False,
    ) -> T:
        """Run the work and return its result once it is durable, even while the caller is
        cancelled.

        Raises AgentError.
        """
        write = SqliteWrite(work, undo=undo, appends=appends, once=once, alone=alone)
        if appends and not once and self._write_here(write):
            return write.outcome()
        write.awaited()
        self._hand_in(write)
        return await outcome_of(write)

    def write_now(self, work: Work[T]) -> T:
        """Run the work like `write`, but block the calling thread."""
        write = SqliteWrite(work)
        future = write.waited_for()
        self._hand_in(write)
        return future.result()

    def _write_here(self, write: SqliteWrite[Any]) -> bool:
        """Write at once in the caller's thread if there is no other writer and nothing has to reach
        the disk itself: that costs less than waking a thread and being woken by it. Many drivers
        are better served together. False: nothing was done.
        """
        if (
            self._power
            or self._thread is None
            or self._drivers() > FEW
            or not self._turn.acquire(blocking=False)
        ):
            return False
        try:
            if self._closed or self._unwritten:
                return False
            self._guard.check()
            if not self._guard.turns.take(self):
                return False
            self._db.set_busy_timeout(0)
            try:
                self._be_durable(self._here, full=False)
                self._here.execute("begin immediate")
            except apsw.BusyError:  # another process writes: the thread can wait for it
                return False
            finally:
                self._db.set_busy_timeout(self._busy_timeout_ms)
            self._commit(self._here, [write], begun=True)
        finally:
            self._roll_back(self._here)  # where a signal came right after its beginning
            self._guard.turns.end(self)
            self._turn.release()
        if self._log_pages - self._moved_pages > self._log_pages_max:
            with contextlib.suppress(AgentError):  # it is being closed, which does so too
                # the thread moves the log into the file
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
            self._unwritten += 1
            self._queue.put(write)

    def abandon(self) -> None:
        """Abandon in a forked child: the thread does not exist there, and other missing ones may
        hold the locks.
        """
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._thread, self._closed = None, True

    def close(self) -> None:
        """Write everything submitted, then move the log into the file. Idempotent."""
        with self._closing:
            with self._lock:
                thread, self._closed = self._thread, True
                self._thread = None
            if thread is not None:
                self._queue.put(None)
                thread.join()
            if not self._is_over:
                self._is_over = True
                if self._guard.is_lost or not self._guard.is_alone():
                    # the log is the last process's, even where SQLite sees no other one
                    self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                with contextlib.suppress(apsw.Error):  # the log keeps what the file did not take
                    self._db.close()
                self._guard.leave()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        cursor = cursor_of(self._db)
        more, looked_at = False, time.monotonic()
        while True:
            batch, ends = next_batch(self._queue, IDLE_S if more or self._drivers() else None)
            with self._turn:
                if batch:
                    self._write_all(cursor, batch)
                    with self._lock:
                        self._unwritten -= len(batch)
                    more = True
                if not batch or ends or time.monotonic() - looked_at > IDLE_S:
                    more = self._look_after(cursor, idle=not batch or ends) or bool(batch)
                    looked_at = time.monotonic()
                if self._log_pages - self._moved_pages > self._log_pages_max:
                    self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
                if ends:
                    # others use the file: then the last of them does it
                    self._db.set_busy_timeout(0)
                    self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    return

    def _write_all(self, cursor: Cursor, batch: Sequence[SqliteWrite[Any]]) -> None:
        together = [write for write in batch if not write.alone]
        if together:
            self._commit(cursor, together)
        if len(together) < len(batch):
            for write in batch:
                if write.alone:
                    self._work_alone(cursor, write)
        settle_all(batch)

    def _commit(
        self, cursor: Cursor, batch: Sequence[SqliteWrite[Any]], *, begun: bool = False
    ) -> None:
        """`begun`: the transaction is open, for an append."""
        appends = begun or any([write.appends for write in batch])
        committing = False
        try:
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
            if appends:
                boundary()
        except BaseException as e:  # noqa: BLE001  the edge of the thread: the waiter gets the error, and the thread goes on
            # a signal, or the end of the memory, came right after the commit
            stored = committing and not self._db.in_transaction and not isinstance(e, apsw.Error)
            self._roll_back(cursor)
            for write in batch[:0] if stored and isinstance(e, MemoryError) else reversed(batch):
                write.failed(self._error(e), undo=not stored)
        finally:
            self._guard.turns.end(self)

    def _work(self, cursor: Cursor, write: SqliteWrite[Any]) -> None:
        """Run one write of several: its failure does not affect the others."""
        cursor.execute("savepoint one")
        try:
            write.result = write.work(cursor)
        except Exception as e:
            if isinstance(e, apsw.Error) and not isinstance(e, apsw.ConstraintError):
                raise
            cursor.execute("rollback to one")
            write.failed(self._error(e))
        cursor.execute("release one")

    def _work_alone(self, cursor: Cursor, write: SqliteWrite[Any]) -> None:
        try:
            self._guard.check()
            self._guard.turns.wait(self, self._busy_timeout_ms / 1000)
            write.result = write.work(cursor)
        except BaseException as e:  # noqa: BLE001  as above
            self._roll_back(cursor)
            write.failed(self._error(e))
        finally:
            self._guard.turns.end(self)

    def _roll_back(self, cursor: Cursor) -> None:
        if self._db.in_transaction:  # else SQLite did so by itself
            with contextlib.suppress(apsw.Error):
                cursor.execute("rollback")

    def _error(self, error: BaseException) -> BaseException:
        """Return the error for the waiter. Raises nothing: the waiter would wait for ever."""
        try:
            return as_told(error, self._path)
        except Exception as e:  # noqa: BLE001  a bug in the translation becomes the error
            return e

    def _be_durable(self, cursor: Cursor, *, full: bool) -> None:
        """Set SQLite's synchronous mode. NORMAL survives the death of the process; FULL also a
        power failure, with everything that was written before.
        """
        if full != self._full:
            self._full = None  # an interrupt may come before the next line, or after it
            cursor.execute("pragma synchronous=full" if full else "pragma synchronous=normal")
            self._full = full

    # ------------------------------------------------------------ looking after the file

    def _look_after(self, cursor: Cursor, *, idle: bool) -> bool:
        more = False
        try:
            self._guard.turns.wait(self, CHORES_WAIT_S)
            more = self._chores(cursor, idle=idle)
        except Exception:  # noqa: BLE001  it has no waiter, and is tried again
            self._roll_back(cursor)
        finally:
            self._guard.turns.end(self)
        if idle and self._log_pages - self._moved_pages > IDLE_PAGES:
            self._checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)
        return more

    def _checkpoint(self, mode: int) -> None:
        if self._guard.is_lost or not self._guard.turns.take(self):
            return
        with contextlib.suppress(apsw.Error):  # the log keeps everything: it is tried again
            self._db.wal_checkpoint(mode=mode)
            pages: int = cursor_of(self._db).execute("pragma page_count").get
            self._log_pages_max = min(max(pages, LOG_PAGES_MIN), LOG_PAGES_MAX)
        self._guard.turns.end(self)
        self._moved_pages = self._log_pages

    def _committed(self, db: apsw.Connection, schema: str, pages: int) -> int:
        self._log_pages = pages
        # the log restarts once all of it is in the file
        self._moved_pages = min(self._moved_pages, pages)
        return apsw.SQLITE_OK
