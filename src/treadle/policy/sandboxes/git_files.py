"""Files and folders of a repository, read without following links. Entry points:
`read`, `entries_of`.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

MAX_BYTES = 1 << 20


def read(place: str) -> bytes | None:
    """Return a regular file's whole content; None for anything else, a file over `MAX_BYTES`, or an
    unreadable one.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return None
        with open(os.open(place, flags), "rb") as file:
            text = (
                file.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
            )
    except OSError:
        return None
    return text if text is not None and len(text) <= MAX_BYTES else None


def is_folder(place: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except OSError:
        return False


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """List a directory.

    Restores read permission if a command removed it, because git can still open its files.
    """
    for _ in range(2):
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except PermissionError:
            with suppress(OSError):
                if is_folder(folder):
                    os.chmod(folder, stat.S_IMODE(os.lstat(folder).st_mode) | 0o700)
        except OSError:
            break
    return []


def names_in(folder: str) -> set[str]:
    return {entry.name for entry in entries_of(folder)}
