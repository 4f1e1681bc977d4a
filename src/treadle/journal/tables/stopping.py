"""Stop requests for the runs that one process drives: another process stores them in the tables,
and they are delivered in the event loop of the run.

Each journal decides when to check for them. Entry: `HeldRuns`, `wish`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Alive
from treadle.journal.tables.rows import find


class HeldRuns:
    """Runs driven by this process, by number, each with its event loop. Thread-safe."""

    def __init__(self) -> None:
        self.heard: Callable[[str], None] | None = None
        """Called with the id of a run that should stop, in its event loop."""
        self._lock = threading.Lock()
        self._runs: dict[int, tuple[str, int, asyncio.AbstractEventLoop]] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def numbers(self) -> list[int]:
        with self._lock:
            return [*self._runs]

    def add(self, num: int, run_id: str, fence: int) -> None:
        """Add a run. It is driven in the calling event loop."""
        with self._lock:
            self._runs[num] = (run_id, fence, asyncio.get_running_loop())

    def remove(self, num: int, fence: int) -> None:
        """Remove a run, unless a later driver in this process has it."""
        with self._lock:
            if (held := self._runs.get(num)) is not None and held[1] == fence:
                del self._runs[num]

    def tell(self, num: int) -> bool:
        """Deliver a request. Returns True if there is a listener."""
        with self._lock:
            held = self._runs.get(num)
        if held is None or self.heard is None:
            return False
        run_id, _, loop = held
        try:
            loop.call_soon_threadsafe(self.heard, run_id)
        except RuntimeError:  # the loop is closed, and with it its runs
            return False
        return True

    def asked(self, num: int | None) -> bool:
        """Return True if the driver of the run receives the request: immediately here, at its next
        check elsewhere.
        """
        return num is not None and (num not in self._runs or self.tell(num))


def wish(db: Cursor, run_id: str, me: str | None, alive: Alive) -> int | None:
    """Store a request for the process that drives the run, unless that is `me`.

    Returns the run's number; None if it has no driver.
    """
    num = find(db, run_id).num
    owner = db.execute("select owner from runs where num = ?", (num,)).get
    if alive(db, owner) is None:
        return None
    if owner != me:
        db.execute("insert into stops values(?) on conflict do nothing", (num,))
    return num
