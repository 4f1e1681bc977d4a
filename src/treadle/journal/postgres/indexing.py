"""Adds what ended runs said to what a search finds, in a thread, a little at a time: many processes
do it, one of them at once. Entry: `Indexing.wake`.
"""

from __future__ import annotations

import threading
from typing import Final

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.postgres.database import try_hold
from treadle.journal.tables import search
from treadle.journal.tables.database import Cursor, Writing
from treadle.journal.tables.holding import INDEX, hold_runs

AT_ONCE: Final = 10
"""Runs that one transaction adds."""
PAUSE_S: Final = 1.0
"""Pause for more runs to end before it begins: a search does not wait for it."""


class Indexing:
    """Begins its thread when a run ends here for the first time."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._lock = threading.Lock()
        """Guards the two below."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._due, self._gone = threading.Event(), threading.Event()
        abandon_in_children(self)

    def wake(self) -> None:
        """A run may have ended. Never waits."""
        self._due.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(
                        target=self._run, name="treadle-search", daemon=True
                    )
                    self._thread.start()

    def close(self) -> None:
        """After what writes is closed.

        What is not added yet is found all the same: a search adds it first. Idempotent.
        """
        with self._lock:
            thread, self._thread, self._closed = self._thread, None, True
        self._gone.set()
        self._due.set()
        if thread is not None:
            thread.join()

    def abandon(self) -> None:
        """Abandon in a forked child: the thread does not exist there."""
        self._lock, self._due, self._gone = threading.Lock(), threading.Event(), threading.Event()
        self._thread, self._closed = None, True

    def _run(self) -> None:
        while True:
            self._due.wait()
            if self._gone.wait(PAUSE_S):
                return
            self._due.clear()
            try:
                while not self._gone.is_set() and self._writing.write_now(_some):
                    pass
            except AgentError:  # it is tried again after the next run, or by a search
                continue


def _some(db: Cursor) -> bool:
    """Index some runs. Returns True if more are left for this process."""
    hold_runs(db, shared=True)  # first, as everywhere
    return try_hold(db, INDEX) and search.index(db, most=AT_ONCE)
