"""Write-ahead log of one SQLite connection: its length, and when to checkpoint it. Entry point:
`Log`.
"""

from __future__ import annotations

from typing import Final

import apsw

from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.guard import Guard

PAGES_MIN: Final = 128
PAGES_MAX: Final = 1000
"""Limits between which the log is checkpointed before the next write once it is as long as the
file. An idle thread checkpoints a much shorter log.
"""
IDLE_PAGES: Final = 32


class Log:
    """The log as seen by a writing connection. Owned by the holder of the connection."""

    def __init__(self, db: apsw.Connection, guard: Guard) -> None:
        self.is_committed = False
        """Set by every commit, and cleared when a transaction begins."""
        self.is_long = False
        """True if it should be checkpointed before the next write."""
        self._db, self._guard = db, guard
        self._pages = self._moved_pages = 0
        """Length of the log, and the part of it that was in the file at the last check."""
        self._pages_max = PAGES_MIN
        # replaces SQLite's own checkpoints, which would run before the futures are resolved
        db.set_wal_hook(self._committed)

    @property
    def is_worth_moving(self) -> bool:
        """True if it should be checkpointed while there is nothing to write."""
        return self._pages - self._moved_pages > IDLE_PAGES

    def move(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> None:
        """Checkpoint the log into the file, unless another writer has the turn. On failure, the log
        keeps everything, and it is tried again.
        """
        if self._guard.is_lost:
            return
        try:
            if not self._guard.turns.take(self):
                return
            self._moved_pages, self.is_long = self._pages, False
            self._db.wal_checkpoint(mode=mode)
            pages: int = cursor_of(self._db).execute("pragma page_count").get
            self._pages_max = min(max(pages, PAGES_MIN), PAGES_MAX)
        except apsw.Error:
            return
        finally:
            self._guard.turns.end(self)

    def _committed(self, db: apsw.Connection, schema: str, pages: int) -> int:
        """Record a commit. SQLite calls this once it is in the log."""
        self.is_committed = True
        self._pages = pages
        # the log restarts once all of it is in the file
        self._moved_pages = min(self._moved_pages, pages)
        self.is_long = pages - self._moved_pages > self._pages_max
        return apsw.SQLITE_OK
