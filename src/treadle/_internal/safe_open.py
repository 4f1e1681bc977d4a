"""Opening a file whose path was resolved earlier, where commands of a run may have put a link in
its way since. Entry: `open_in_place`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_in_place(path: Path, flags: int) -> int:
    """Open or create a regular file for its owner alone and return its descriptor. `path` was
    resolved before.

    Raises OSError where a link now stands in the way, at the end or above it, or where the file is
    none. Nothing is written then.
    """
    once = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, (flags & ~os.O_TRUNC) | once, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file any more", str(path))
        if _place_of(descriptor) not in (None, str(path)):
            raise OSError(errno.ELOOP, "a link leads elsewhere now", str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _place_of(descriptor: int) -> str | None:
    """Return the path at which the kernel found the file; None if it does not tell."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None
