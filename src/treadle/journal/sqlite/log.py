"""SQLite's write-ahead log of one connection: its length, and when it is moved into the file. Entry
point: `Log`.
"""

from __future__ import annotations

from typing import Final

import apsw

from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.guard import Guard

PAGES_MIN: Final = 128
PAGES_MAX: Final = 1000
"""When the log is as long as the file, within these, it is moved into the file before the next
write; when the thread is idle, a little is enough.
"""
IDLE_PAGES: Final = 32


class Log:
    """The log as a writing connection sees it. Owned by the holder of the connection."""

    def __init__(self, db: apsw.Connection, guard: Guard) -> None:
        self.is_committed = False
        """Set by every commit; a transaction clears it when it begins."""
        self.is_long = False
        """True if it should be moved into the file before the next write."""
        self._db, self._guard = db, guard
        self._pages = self._moved_pages = 0
        """Length of the log, and how much of it was in the file after the last check."""
        self._pages_max = PAGES_MIN
        # in place of SQLite's own checkpoints, which would come before the futures are resolved
        db.set_wal_hook(self._committed)

    @property
    def is_worth_moving(self) -> bool:
        """True if it should be moved into the file while there is nothing to write."""
        return self._pages - self._moved_pages > IDLE_PAGES

    def move(self, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> None:
        """Move the log into the file, unless another writer has the turn. If that fails, the log
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
        """Note a commit. SQLite calls this once it is in the log."""
        self.is_committed = True
        self._pages = pages
        # the log restarts once all of it is in the file
        self._moved_pages = min(self._moved_pages, pages)
        self.is_long = pages - self._moved_pages > self._pages_max
        return apsw.SQLITE_OK
