"""The thread that indexes finished runs, and how it ends."""

from __future__ import annotations

import threading
from typing import Any, cast

from treadle.journal.postgres.indexing import Indexing


class ClosedMeanwhile(threading.Event):
    """Its wait times out at the moment in which another thread closes the index."""

    def __init__(self, due: threading.Event) -> None:
        super().__init__()
        self._due, self.reached = due, threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        was_set = self.is_set()
        self._due.clear()
        self.reached.set()
        assert self._due.wait(20), "nobody closes it"
        return was_set


def test_an_index_that_is_closed_after_its_pause_ends() -> None:
    indexing: Any = Indexing(cast("Any", None))
    indexing._gone = gone = ClosedMeanwhile(indexing._due)
    indexing.wake()
    thread = indexing._thread
    assert gone.reached.wait(20)
    closing = threading.Thread(target=indexing.close, daemon=True)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
    assert not thread.is_alive()
