"""Private files for output that is too long for the model, which can read the rest there. Deleted
when the runtime closes. Entry points: `Spill`.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from treadle._internal.temporary import TemporaryFolder


class Spill:
    """Private directory (mode 0700), created on first use, for files (0600) with unguessable names.

    Thread-safe: the lock guards its creation.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: TemporaryFolder | None = None
        self._closed = False

    def directory(self) -> Path:
        """Return the directory. Raises OSError after `close`, because files of a late thread would
        never be removed.
        """
        with self._lock:
            if self._closed:
                raise OSError("the runtime is closed")
            if self._made is None:
                self._made = TemporaryFolder()
            return self._made.path

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directory, once it exists."""
        return () if self._made is None else (self._made.path,)

    def folder(self, name: str) -> Path:
        """Return a folder inside, creating it if needed. Raises OSError after `close`."""
        folder = self.directory() / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def write(self, text: str) -> Path:
        """Write a file. Raises OSError if the disk is full, and after `close`."""
        handle, name = tempfile.mkstemp(prefix="output-", suffix=".txt", dir=self.directory())
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return Path(name)

    def close(self) -> None:
        """Delete the directory. Idempotent."""
        with self._lock:
            self._closed = True
            if self._made is not None:
                self._made.close()
                self._made = None
