"""Connections to the PostgreSQL of the tests that are used for one journal after the other. A
server's new process reads the catalogue for each table that it meets, so that a run in a new
journal costs two to three times as much as one over connections that other journals had.

To a journal they are new: when it closes one, the server forgets everything that belongs to the
session (`DISCARD ALL`), and the journal has a closed one. Entry: `ReusedConnections.connect`.
"""

from __future__ import annotations

import os
import re
import select
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn

IDLE_MAX = 24
"""A server takes a hundred clients."""
_NAMED = re.compile(r"application_name=('[^']*'|\S+) ?")


class ReusedConnections:
    """Idle connections, by the connection string without the name of the client. Safe from any
    thread; a forked process has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[str, PGconn]] = []
        """The one that was used last at the end."""
        self._pid = os.getpid()

    def connect(self, conninfo: str = "", **options: Any) -> psycopg.Connection:
        """Like `psycopg.connect`."""
        import psycopg

        kind = _class()
        place = _NAMED.sub("", conninfo)
        while os.getpid() == self._pid and options == {"autocommit": True}:
            if (kept := self._taken(place)) is None:
                made = kind.connect(conninfo, **options)
                made.reused, made.place = self, place
                return made
            if not _is_usable(kept):
                kept.finish()
                continue
            made = kind(kept)
            made.reused, made.place, made._autocommit = self, place, True
            named = _NAMED.search(conninfo)
            if named and made.info.parameter_status("application_name") != named[1].strip("'"):
                made.execute(f"SET application_name = {named[1]}", prepare=False)
            return made
        return psycopg.Connection.connect(conninfo, **options)

    def _taken(self, place: str) -> PGconn | None:
        with self._lock:
            for number in reversed(range(len(self._idle))):
                if self._idle[number][0] == place:
                    return self._idle.pop(number)[1]
        return None

    def keep(self, place: str, connection: PGconn) -> bool:
        """Keep a connection that is closed by a journal, unless it cannot be made like a new one."""
        from psycopg.pq import ExecStatus, TransactionStatus

        if (
            os.getpid() != self._pid
            or connection.transaction_status != TransactionStatus.IDLE
            or connection.exec_(b"DISCARD ALL").status != ExecStatus.COMMAND_OK
        ):
            return False
        while connection.notifies():
            pass
        with self._lock:
            self._idle.append((place, connection))
            oldest = self._idle.pop(0)[1] if len(self._idle) > IDLE_MAX else None
        if oldest is not None:
            oldest.finish()
        return True

    def processes(self) -> list[int]:
        """The server's processes of the idle ones."""
        with self._lock:
            return [connection.backend_pid for _, connection in self._idle]

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.finish()


def _is_usable(connection: PGconn) -> bool:
    """The server has neither said anything nor hung up: a test may have ended its process."""
    from psycopg.pq import ConnStatus

    if connection.status != ConnStatus.OK:
        return False
    poll = select.poll()
    poll.register(connection.socket, select.POLLIN)
    return not poll.poll(0)


def _class() -> Any:
    """The class of connections that are kept when they are closed. Made late, because psycopg may
    not be installed.
    """
    if not _classes:
        import psycopg

        closed = psycopg.pq.PGconn.connect_start(b"host=/nowhere")
        closed.finish()

        class ReusedConnection(psycopg.Connection[Any]):
            reused: ReusedConnections | None = None
            place = ""

            def close(self) -> None:
                if self.reused is None or self.closed:
                    super().close()
                    return
                kept, self.pgconn, self._closed = self.pgconn, closed, True
                if not self.reused.keep(self.place, kept):
                    kept.finish()

        _classes.append(ReusedConnection)
    return _classes[0]


_classes: list[Any] = []
