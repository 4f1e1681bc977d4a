"""Safe opening of a file whose path was resolved earlier: a command of a run may have put a link
into the path since. Entry points: `open_in_place`, `head_of`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_in_place(path: Path, flags: int) -> int:
    """Open or create a regular file, accessible only to its owner, and return its descriptor.
    `path` must be resolved.

    Raises OSError, without writing anything, if the path now contains a link or is not a regular
    file.
    """
    once = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, (flags & ~os.O_TRUNC) | once, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no longer a regular file", str(path))
        if _place_of(descriptor) not in (None, str(path)):
            raise OSError(errno.ELOOP, "a link in the path now leads elsewhere", str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def head_of(path: Path, max_bytes: int) -> bytes | None:
    """Return the start of a regular file, or None if it is not one or cannot be read. Never blocks
    on a FIFO and follows no link in the last place.
    """
    names = ("O_NONBLOCK", "O_NOCTTY", "O_NOFOLLOW")
    try:
        descriptor = os.open(path, os.O_RDONLY | sum(getattr(os, name, 0) for name in names))
        with open(descriptor, "rb") as file:
            return file.read(max_bytes) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


def _place_of(descriptor: int) -> str | None:
    """Return the path at which the kernel found the file; None if the kernel does not report it."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
