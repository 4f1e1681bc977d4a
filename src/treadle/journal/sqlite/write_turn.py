"""The turn to write to a journal file: a second lock around each write transaction, which survives
the loss of SQLite's own.

Any code of the process that opens and closes the -shm file drops SQLite's lock in the middle of a
transaction (POSIX locks belong to a process and a file). A second writer would then overwrite what
the first one commits. This lock belongs to an open file description (fcntl(2), Linux), which only
its own closing drops. Entry point: `WriteTurn`.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
import time

import apsw

if sys.platform == "linux":
    import fcntl

    _SET = fcntl.F_OFD_SETLK
    _TAKE, _END = (
        struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 1, 0)
        for kind in (fcntl.F_WRLCK, fcntl.F_UNLCK)
    )

PAUSE_S, PAUSE_MOST_S = 0.0002, 0.01
"""Shortest and longest interval between attempts."""


class WriteTurn:
    """Turns of one process on one journal file. Safe from any thread."""

    def __init__(self) -> None:
        self.descriptor: int | None = None
        """The guard file, while the journal is open; None: turns are taken in this process only."""
        self._lock = threading.Lock()
        """Guards the one below."""
        self._writer: object = None

    def take(self, writer: object) -> bool:
        """Return False if another writer, here or in another process, has the turn."""
        with self._lock:
            if self._writer is not None:
                return False
            self._writer = writer
        if sys.platform == "linux" and self.descriptor is not None:
            try:
                fcntl.fcntl(self.descriptor, _SET, _TAKE)
            except OSError:  # another process has it
                self._writer = None
                return False
        return True

    def wait(self, writer: object, wait_s: float) -> None:
        """Wait for the turn. Raises apsw.BusyError after that time, as SQLite does."""
        deadline, pause_s = time.monotonic() + wait_s, PAUSE_S
        while not self.take(writer):
            if time.monotonic() >= deadline:
                raise apsw.BusyError("another process writes")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MOST_S)

    def end(self, writer: object) -> None:
        """Give the turn back. Idempotent, and raises nothing: the work is done."""
        if self._writer is not writer:
            return
        while sys.platform == "linux" and self.descriptor is not None:
            try:
                fcntl.fcntl(self.descriptor, _SET, _END)
            except MemoryError:  # the lock may be there still
                time.sleep(PAUSE_MOST_S)
                continue
            except OSError:  # it goes with its descriptor
                pass
            break
        self._writer = None
