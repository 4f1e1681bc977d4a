"""Indexing of the messages of finished runs for search, a few at a time in a thread. Only one
process indexes at a time. Entry point: `Indexing.wake`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.postgres.database import try_hold
from treadle.journal.tables import search
from treadle.journal.tables.database import Cursor, Writing
from treadle.journal.tables.holding import INDEX, hold_runs
from treadle.journal.threads import start

AT_ONCE: Final = 10
"""Number of runs that one transaction adds."""
PAUSE_S: Final = 1.0
"""Seconds before it starts, so that more runs can end. Searches do not wait for it."""


class Indexing:
    """Indexer, which starts its thread when the first run of this process ends."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._lock = threading.Lock()
        """Guards the two attributes below."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._due, self._gone = threading.Event(), threading.Event()
        abandon_in_children(self)

    def wake(self) -> None:
        """Notify the indexer that a run may have ended. Never waits."""
        self._due.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closed:
                    thread = threading.Thread(target=self._run, name="treadle-search", daemon=True)
                    with contextlib.suppress(AgentError):  # a search adds what is missing
                        start(thread)
                        self._thread = thread

    def close(self) -> None:
        """Stop, after the writer is closed. A search indexes the remaining runs. Idempotent."""
        with self._lock:
            thread, self._thread, self._closed = self._thread, None, True
        self._gone.set()
        self._due.set()
        if thread is not None:
            thread.join()

    def abandon(self) -> None:
        """Detach in a forked child, where the thread does not exist."""
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
            except AgentError:  # retried after the next run, or by a search
                pass
            if self._gone.is_set():  # `close` may have set `_due` before it was cleared here
                return


def _some(db: Cursor) -> bool:
    """Index some runs. Return True if more are left for this process."""
    hold_runs(db, shared=True)  # first, as everywhere: a fixed order of locks
    return try_hold(db, INDEX) and search.index(db, most=AT_ONCE)
