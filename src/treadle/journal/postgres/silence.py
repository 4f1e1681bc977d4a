"""Detection of connections whose server has disappeared without closing them, because a network may
drop every packet silently.

`tcp_user_timeout`, where it exists, detects data that was sent and not acknowledged, but not data
that a proxy in between acknowledged. Entry: `SilenceDetector.over`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from typing import Final

import psycopg

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.threads import start

SILENT_S: Final = 25.0
"""Seconds without a response after which the server is probed: a statement may be slow, a dead
connection is not.
"""
HURRIED_S: Final = 2.0
"""The same in a process that is about to end."""
HURRIED_AGAIN_S: Final = 0.3
"""The same after the server was found unreachable."""
LOOK_S: Final = 5.0
ANSWER_S: Final = 10
"""Maximum seconds in which a reachable server accepts a new connection, even over a bad network."""
HURRIED_ANSWER_S: Final = 2
"""Shortest timeout in seconds that libpq supports."""


class SilenceDetector:
    """Detector for one server. Thread-safe. Its thread runs while a connection is in use."""

    def __init__(self, is_there: Callable[[int], bool], *, silent_s: float = SILENT_S) -> None:
        """Create a silence detector. `is_there` probes the server over its own connection, for up
        to the given seconds.
        """
        self._is_there = is_there
        self._silent_s = silent_s
        self._answer_s = ANSWER_S
        self._hurried = False
        self._lock = threading.Lock()
        """Guards the two attributes below. Also prevents closing a connection during its shutdown,
        because its descriptor might be reused.
        """
        self._since: dict[psycopg.Connection, float] = {}
        self._thread: threading.Thread | None = None
        self._stirred = threading.Event()
        abandon_in_children(self)

    def begin(self, db: psycopg.Connection) -> None:
        """Watch a connection that waits for a response, until `end`.

        If the server is unreachable, the waiter gets the error of a closed connection.
        """
        with self._lock:
            self._since[db] = time.monotonic()
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="treadle-silence", daemon=True)
                with contextlib.suppress(AgentError):  # the next waiter tries again
                    start(thread)
                    self._thread = thread

    def end(self, db: psycopg.Connection) -> None:
        """Stop watching a connection, before it is closed. Idempotent."""
        with self._lock:
            self._since.pop(db, None)

    @contextlib.contextmanager
    def over(self, db: psycopg.Connection) -> Generator[None]:
        self.begin(db)
        try:
            yield
        finally:
            self.end(db)

    def hurry(self) -> None:
        """Limit the wait for a silent server to a few seconds, because the process is about to end.
        Idempotent.
        """
        if self._hurried:
            return
        self._hurried = True
        self._silent_s, self._answer_s = min(self._silent_s, HURRIED_S), HURRIED_ANSWER_S
        self._stirred.set()

    def abandon(self) -> None:
        """Detach in a forked child, because the connections are the parent's."""
        self._lock, self._since, self._thread, self._stirred = (
            threading.Lock(),
            {},
            None,
            threading.Event(),
        )

    # ------------------------------------------------------------ the thread

    def _watch(self) -> None:
        while True:
            self._stirred.wait(min(self._silent_s, LOOK_S))
            self._stirred.clear()
            with self._lock:
                if not self._since:
                    self._thread = None
                    return
                late = self._late()
            if late and not self._is_there(self._answer_s):
                self._hang_up(late)
                if self._hurried:
                    self._silent_s = min(self._silent_s, HURRIED_AGAIN_S)

    def _late(self) -> dict[psycopg.Connection, float]:
        before = time.monotonic() - self._silent_s
        return {db: since for db, since in self._since.items() if since <= before}

    def _hang_up(self, late: dict[psycopg.Connection, float]) -> None:
        with self._lock:
            for db, since in late.items():
                if self._since.get(db) == since:  # otherwise it has received a response
                    hang_up(db)
                    del self._since[db]


def hang_up(db: psycopg.Connection) -> None:
    """Shut a connection down from another thread, so that the waiter gets the error of a closed
    connection.
    """
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(db.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
