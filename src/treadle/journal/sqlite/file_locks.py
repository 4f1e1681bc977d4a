"""POSIX locks and identities of a journal's files, as the kernel reports them. Entry points:
`inode_at`, `has_lock`, `is_locked_by_others`, `retake_shared_lock`, `lock_holders`.

SQLite takes these locks; guard.py checks that they are still there.
"""

from __future__ import annotations

import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

REPORTS_LOCKS = sys.platform == "linux"
"""True if the kernel lists a process's own locks (/proc)."""
DMS = 128
"""Byte of the -shm file that every process with an open connection has locked (UNIX_SHM_DMS)."""
SHARED = (1 << 30) + 2
"""First byte of the journal file that every open connection in WAL mode has locked
(SHARED_FIRST).
"""
_SHARED_SIZE = 510
_FLOCK = "hhqqi"


def inode_of(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def inode_at(file: Path) -> tuple[int, int] | None:
    try:
        return inode_of(os.stat(file))
    except OSError:
        return None


def has_lock(descriptor: int, byte: int) -> bool:
    """Return True if this process has a POSIX lock on that byte of the file. Source: proc(5),
    fdinfo lists the process's locks on the file.
    """
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii", errors="replace") as info:
        for line in info:
            if not line.startswith("lock:"):
                continue
            *_, kind, _, _, _, _, start, end = line.split()
            if kind == "POSIX" and int(start) <= byte and (end == "EOF" or byte <= int(end)):
                return True
    return False


def is_locked_by_others(path: Path) -> bool:
    """Return True if a process has SQLite's lock on the -shm file.

    Call this only while this process has no connection to the journal.
    """
    if not REPORTS_LOCKS:
        return True  # not checked
    import fcntl  # noqa: PLC0415  Windows has none

    try:
        descriptor = os.open(path.with_name(path.name + "-shm"), os.O_RDONLY)
    except OSError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, DMS, 1, 0)
        kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
        return kind != fcntl.F_UNLCK
    finally:
        os.close(descriptor)


def retake_shared_lock(descriptor: int) -> bool:
    """Acquire the lock on the journal file that SQLite holds while its connection is open. Returns
    False if another process has locked it.
    """
    import fcntl  # noqa: PLC0415  Windows has none

    with suppress(OSError):
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_SIZE, SHARED)
        return True
    return False


def lock_holders(file: Path) -> list[int]:
    """Return the processes that hold a flock on the file, if the kernel reports them."""
    inode = inode_at(file)
    pids: list[int] = []
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            _, kind, _, _, pid, place, *_ = line.split()
            if (
                inode is not None
                and kind == "FLOCK"
                and int(place.rpartition(":")[2]) == inode[1]
                and int(pid) > 0
            ):
                pids.append(int(pid))
    return sorted(set(pids))
