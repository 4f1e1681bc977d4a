"""Locks on open files, which the kernel releases when their process dies.

Entry points: `take`; `hold` and `is_held` for files that show that a process is alive.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def take(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
        try:
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    _LOCKED_BYTE = 1 << 20
    """Offset of the locked byte. On Windows a lock also prevents reading, so no content is there.
    """
else:
    import fcntl

    def take(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
        """Take the lock until the descriptor is closed. Returns False if another process has it. On
        Windows, `shared` is ignored, and `wait` waits for 10 s.
        """
        try:
            fcntl.flock(
                descriptor,
                (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB),
            )
        except OSError:
            return False
        return True


def hold(path: Path, text: str) -> int:
    """Create a file with a text, locked until the returned descriptor is closed. The file is never
    visible without its lock.

    Raises OSError. Child processes do not inherit the descriptor.
    """
    # Windows does not rename an open file
    new = path if sys.platform == "win32" else path.with_name(path.name + ".new")
    descriptor = os.open(
        new, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600
    )
    try:
        os.write(descriptor, text.encode())
        if not take(descriptor):
            raise OSError(f"{str(new)!r} cannot be locked")
        if new != path:
            os.rename(new, path)
    except BaseException:
        os.close(descriptor)
        new.unlink(missing_ok=True)
        raise
    return descriptor


def is_held(path: Path) -> str | None:
    """Return the text of a file that a living process holds; None if no process holds it, or it
    does not exist.

    Any number of processes may check concurrently without mistaking each other for the holder.
    Raises OSError if the file cannot be opened, since it may be held.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return None
    try:
        return (
            None
            if take(descriptor, shared=True)
            else os.read(descriptor, 200).decode(errors="replace")
        )
    finally:
        os.close(descriptor)
