"""Pool of reading connections. A reader never waits for a writer. Entry point:
`SqliteReaders.snapshot`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.sqlite.database import cursor_of, end_statements
from treadle.journal.sqlite.failures import translated
from treadle.journal.sqlite.schema import connect
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import run_in_thread

T = TypeVar("T")

KEPT_MAX = 4
"""Maximum number of idle connections."""


class SqliteReaders:
    """Pool of reading connections. Safe from any thread."""

    def __init__(self, path: Path, *, busy_timeout_s: float, seal: Seal | None = None) -> None:
        self._path = path
        self._seal = seal
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        """Guards the two attributes below."""
        self._idle: list[apsw.Connection] = []
        self._closed = False
        abandon_in_children(self)

    @contextlib.contextmanager
    def snapshot(self) -> Generator[Cursor]:
        """Read the file as it is now, regardless of concurrent writes. Raises AgentError."""
        with self._lock:
            if self._closed:
                raise AgentError(
                    "invalid", f"the journal {str(self._path)!r} is closed: open it again"
                )
            db = self._idle.pop() if self._idle else None
        try:
            if db is None:
                db = connect(self._path, busy_timeout_s=self._busy_timeout_s)
                cursor_of(db).execute("pragma query_only = 1").fetchall()
                # the writer's connection is closed last, and knows whether it is the only one
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            cursor = cursor_of(db, self._seal)
            with db:  # one transaction, which is a snapshot
                try:
                    yield cursor
                finally:
                    end_statements(cursor)  # a connection cannot be closed before
        except apsw.Error as e:
            raise translated(e, self._path, "nothing was changed") from e
        finally:
            if db is not None:
                self._give_back(db)

    async def read(self, what: Callable[[Cursor], T]) -> T:
        """Run `what` on a snapshot in a thread."""
        return await run_in_thread(partial(self.read_now, what))

    def read_now(self, what: Callable[[Cursor], T]) -> T:
        with self.snapshot() as db:
            return what(db)

    def _give_back(self, db: apsw.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT_MAX:
                self._idle.append(db)
                return
        db.close()

    def abandon(self) -> None:
        """Abandon the parent's connections in a forked child, without using or closing them
        there.
        """
        self._lock, self._closed = threading.Lock(), True

    def close(self) -> None:
        """Close all connections. Those in use are closed when their reader is done. Idempotent."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for db in idle:
            db.close()
