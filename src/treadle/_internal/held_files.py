"""Files that this process must not open a second time, because closing any descriptor of one drops
the locks that the process has on it.

POSIX locks belong to a process and an inode: `close` releases all of them, whichever descriptor it
closes. Only files that someone names (a model, a user) are checked here; nothing can check what
other code of the process opens. Entry: `HELD`, `check`, `read_checked`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from treadle._internal.safe_open import open_in_place

_WHY = (
    "it belongs to a journal that this process has open, and reading it here would drop the "
    "journal's locks"
)


class HeldFiles:
    """Inodes by holder. Safe from any thread."""

    def __init__(self) -> None:
        self._held: dict[object, frozenset[tuple[int, int]]] = {}

    def add(self, holder: object, inodes: Iterable[tuple[int, int]]) -> None:
        self._held = {**self._held, holder: frozenset(inodes)}

    def remove(self, holder: object) -> None:
        self._held = {other: inodes for other, inodes in self._held.items() if other is not holder}

    def has(self, found: os.stat_result) -> bool:
        inode = (found.st_dev, found.st_ino)
        if not any(inode in inodes for inodes in self._held.values()):
            return False
        if not (is_open := _is_open(inode)):
            self._held = {holder: inodes - {inode} for holder, inodes in self._held.items()}
        return is_open


def _is_open(inode: tuple[int, int]) -> bool:
    """Return False if this process has no descriptor of the file: its journal was dropped without
    closing it, and another file may have got the inode since.
    """
    try:
        descriptors = os.listdir("/dev/fd")
    except OSError:
        return True
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            found = os.fstat(int(descriptor))
            if (found.st_dev, found.st_ino) == inode:
                return True
    return False


HELD = HeldFiles()
"""Held files of this process."""


def check(found: os.stat_result, path: str) -> None:
    """Check a file's status before opening it. Raises OSError(EBUSY) for a held file."""
    if HELD.has(found):
        raise OSError(errno.EBUSY, _WHY, path)


def check_opened(descriptor: int, path: str) -> None:
    """Check again after opening the file.

    Raises OSError(EBUSY) and leaves the descriptor open, since closing it would drop the locks.
    """
    check(os.fstat(descriptor), path)


def read_checked(path: Path, *, in_place: bool = False) -> bytes:
    """Return the content of a file. `in_place`: `path` was resolved before, so a link in it, or
    anything but a regular file, is an error. Raises OSError; EBUSY for a held file.
    """
    check(path.stat(), str(path))
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = open_in_place(path, flags) if in_place else os.open(path, flags)
    check_opened(descriptor, str(path))
    with open(descriptor, "rb") as file:
        return file.read()
