"""Turn to write to a journal file: a second lock around each write transaction, which remains if
SQLite's own is lost.

Any code in the process that opens and closes the -shm file drops SQLite's lock in the middle of a
transaction, because POSIX locks belong to a process and a file. A second writer would then
overwrite what the first one commits. This lock belongs to an open file description (fcntl(2),
Linux), which only closing it releases. Entry point: `WriteTurn`.
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
"""Minimum and maximum seconds between attempts."""


class WriteTurn:
    """Write turns of one process on one journal file. Thread-safe."""

    def __init__(self) -> None:
        self.descriptor: int | None = None
        """Descriptor of the guard file while the journal is open. None: turns apply to this process
        only.
        """
        self._lock = threading.Lock()
        """Guards the attribute below."""
        self._writer: object = None

    def take(self, writer: object) -> bool:
        """Take the turn. Returns False if another writer, in this or another process, has it."""
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
        """Release the turn. Idempotent. Never raises, because the work is done."""
        if self._writer is not writer:
            return
        while sys.platform == "linux" and self.descriptor is not None:
            try:
                fcntl.fcntl(self.descriptor, _SET, _END)
            except MemoryError:  # the lock may still be held
                time.sleep(PAUSE_MOST_S)
                continue
            except OSError:  # it is released with its descriptor
                pass
            break
        self._writer = None
