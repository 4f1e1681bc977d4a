"""Connections whose answer is long in coming, and whether the server behind them is still there: a
network may swallow everything and say nothing.

Where a machine has `tcp_user_timeout` it tells of what was sent and not taken, but not of what
something in between took. Entry: `SilenceDetector.over`.
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

from treadle.journal.forks import abandon_in_children

SILENT_S: Final = 25.0
"""Time without an answer after which the server is probed: a statement may be slow, a dead
connection is not.
"""
HURRIED_S: Final = 2.0
"""The same in a process that ends."""
HURRIED_AGAIN_S: Final = 0.3
"""The same after the server was found unreachable."""
LOOK_S: Final = 5.0
ANSWER_S: Final = 10
"""Within this a server that is there takes a fresh connection, also over a bad line."""
HURRIED_ANSWER_S: Final = 2
"""libpq waits no shorter."""


class SilenceDetector:
    """Detector for one server. Safe from any thread.

    Its own thread begins when a connection is used, and ends when none is.
    """

    def __init__(self, is_there: Callable[[int], bool], *, silent_s: float = SILENT_S) -> None:
        """`is_there`: asks the server over a connection of its own, for so many seconds at most."""
        self._is_there = is_there
        self._silent_s = silent_s
        self._answer_s = ANSWER_S
        self._hurried = False
        self._lock = threading.Lock()
        """Guards the two below, and keeps a connection that is being shut down from being closed at
        the same time: its number may be another one's by then.
        """
        self._since: dict[psycopg.Connection, float] = {}
        self._thread: threading.Thread | None = None
        self._stirred = threading.Event()
        abandon_in_children(self)

    def begin(self, db: psycopg.Connection) -> None:
        """Watch a connection that waits for an answer, until `end`.

        If the server is unreachable, the waiter gets the error of an ended connection.
        """
        with self._lock:
            self._since[db] = time.monotonic()
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="treadle-silence", daemon=True)
                thread.start()
                self._thread = thread

    def end(self, db: psycopg.Connection) -> None:
        """Before it is closed. Idempotent."""
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
        """The process ends: a silent server is waited for a few seconds. Idempotent."""
        if self._hurried:
            return
        self._hurried = True
        self._silent_s, self._answer_s = min(self._silent_s, HURRIED_S), HURRIED_ANSWER_S
        self._stirred.set()

    def abandon(self) -> None:
        """Abandon in a forked child: the connections are the parent's."""
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
                if self._since.get(db) == since:  # else it has been answered
                    hang_up(db)
                    del self._since[db]


def hang_up(db: psycopg.Connection) -> None:
    """Shut the connection down from another thread: the waiter gets the error of an ended
    connection.
    """
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(db.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
