"""Read-only connections to the journal in PostgreSQL. Entry point: `PostgresReaders`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Self, TypeVar

import psycopg

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.postgres.connections import Patience, PostgresServer, begin, end
from treadle.journal.postgres.failures import is_lost
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import run_in_thread

T = TypeVar("T")

KEPT_MAX: Final = 4
"""Maximum number of idle connections."""
READING_MAX: Final = 8
"""Maximum number of concurrent reads, because a server has few connections, which many processes
share.
"""


class PostgresReaders:
    """Pool of reading connections. Safe from any thread."""

    def __init__(
        self,
        server: PostgresServer,
        seal: Seal | None = None,
        idle: psycopg.Connection | None = None,
    ) -> None:
        self._server = server
        self._seal = seal
        self._turn = threading.BoundedSemaphore(READING_MAX)
        self._lock = threading.Lock()
        """Guards the two attributes below."""
        self._idle = [] if idle is None else [idle]
        self._closed = False
        self._gone = threading.Event()
        abandon_in_children(self)

    async def read(self, what: Callable[[Cursor], T]) -> T:
        """Run `what` on a snapshot in a thread, retrying if the connection is lost. It may read
        sessions. In a shard, cancellation does not wait for the server.
        """
        return await run_in_thread(
            partial(self._read_in_turn, what), abandon=self._server.shard is not None
        )

    def read_now(self, what: Callable[[Cursor], T]) -> T:
        """Read in the calling thread, retrying if the connection is lost. Does not queue, because
        it may be part of another read.
        """
        return self._read(what, self._server.patience(self._gone))

    def _read_in_turn(self, what: Callable[[Cursor], T]) -> T:
        patience = self._server.patience(self._gone)
        with self._turn:
            return self._read(what, patience)

    def _read(self, what: Callable[[Cursor], T], patience: Patience) -> T:
        while True:
            db: psycopg.Connection | None = None
            try:
                db, cursor = self._begin(patience)
                return what(cursor)
            except psycopg.Error as e:
                if not is_lost(e, db) or db is None or not patience.wait():
                    raise self._server.error(e, "nothing was changed") from e
            finally:
                if db is not None:
                    self._done(db)

    def _begin(self, patience: Patience) -> tuple[psycopg.Connection, Cursor]:
        """Return a connection with an open transaction, for use until `_done`."""
        while (kept := self._take()) is not None:
            with contextlib.suppress(psycopg.Error):
                return kept, self._begin_on(kept)
            self._forget_idle()  # idle for the same time: detecting each silent one would take long
        while True:
            db = self._server.connect_patiently(patience)
            try:
                return db, self._begin_on(db)
            except psycopg.Error:  # a proxy accepted the connection but had none to the server
                if not patience.wait():
                    raise

    def _begin_on(self, db: psycopg.Connection) -> Cursor:
        """Begin a transaction on a connection. On failure, close the connection."""
        self._server.silence.begin(db)
        try:
            return begin(db, self._seal, reading=True)
        except BaseException:
            self._server.silence.end(db)
            db.close()
            raise

    def _done(self, db: psycopg.Connection) -> None:
        end(db)
        self._server.silence.end(db)
        self._give_back(db)

    def _take(self) -> psycopg.Connection | None:
        with self._lock:
            if self._closed:
                raise AgentError(
                    "invalid", f"the journal {self._server.place!r} is closed: open it again"
                )
            return self._idle.pop() if self._idle else None

    def _give_back(self, db: psycopg.Connection) -> None:
        with self._lock:
            if not self._closed and not db.closed and not db.broken and len(self._idle) < KEPT_MAX:
                self._idle.append(db)
                return
        db.close()

    def abandon(self) -> None:
        """Abandon the parent's connections in a forked child, without using or closing them
        there.
        """
        self._turn = threading.BoundedSemaphore(READING_MAX)
        self._lock, self._gone, self._closed = threading.Lock(), threading.Event(), True
        _abandoned.extend(self._idle)
        self._idle = []

    def close(self) -> None:
        """Close all connections. Those in use are closed when their reader is done. Idempotent."""
        self._gone.set()
        with self._lock:
            self._closed = True
        self._forget_idle()

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_abandoned: list[psycopg.Connection] = []
"""Connections of a parent process. Closing one would end the parent's session."""


def abandoned(db: psycopg.Connection | None) -> None:
    """Abandon a connection in a forked child, without using or closing it."""
    if db is not None:
        _abandoned.append(db)
