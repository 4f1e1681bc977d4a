"""Second guard of a journal file: a lock that remains if SQLite's own are lost, and a check that
the file is still the one that was opened.

SQLite's locks are POSIX locks, which a process loses when any code in it opens and closes the same
file. The guard is a flock on a file next to the journal: shared while a process has the journal
open, exclusive while one opens or closes it alone. A process that finds the guard held and SQLite's
locks missing does not open the journal, because SQLite would consider it unlocked, and truncate or
delete files that the other process has mapped (os_unix.c: the first opener of the -shm file
truncates it, the last closer deletes the log). Entry point: `Guard`.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from treadle._internal.file_lock import take
from treadle._internal.held_files import HELD
from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.pending import MEMORY_WAIT_S
from treadle.journal.sqlite.file_locks import (
    DMS,
    REPORTS_LOCKS,
    SHARED,
    has_lock,
    inode_at,
    inode_of,
    is_locked_by_others,
    lock_holders,
    retake_shared_lock,
)
from treadle.journal.sqlite.write_turn import WriteTurn

logger = logging.getLogger("treadle")

SUFFIX = "-guard"
LOST_S = 2.0
"""Maximum seconds for which the guard may be held without SQLite's locks. A process that opens or
closes the journal holds both within milliseconds.
"""
CHECK_S = 0.5
"""Seconds between checks of the files and locks."""
_IS_USED = sys.platform != "win32"
"""On Windows, locks belong to a handle, and closing another handle does not affect them."""
_finding = threading.Lock()
"""Invariant: this process has one guard for each path."""
_guards: WeakValueDictionary[Path, Guard] = WeakValueDictionary()


class Guard:
    """Guard of one journal file in this process, shared by all journals that have the file open.
    Call `enter`, then `share` or `leave`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.with_name(path.name + SUFFIX)
        self._descriptor: int | None = None
        self._users = 0
        """Journals of this process that have the file open."""
        self._turn = threading.Lock()
        """Invariant: at most one journal of this process is being opened or closed, between `enter`
        and `share`, or in `leave`.
        """
        self._known: dict[Path, tuple[int, int]] = {}
        """Files of the journal with their inodes, recorded when the journal was opened."""
        self._lost: str | None = None
        self._next_check = 0.0
        self._sqlite: dict[Path, int] = {}
        """SQLite's own descriptors, where their locks can be queried."""
        self.turns = WriteTurn()
        abandon_in_children(self)

    @classmethod
    def enter(cls, path: Path, *, wait_s: float) -> Guard:
        """Wait until the journal can be opened safely.

        Call `share` once SQLite has it open, else `give_up`. Raises AgentError(agent).
        """
        with _finding:
            guard = _guards.setdefault(path, cls(path))
        guard._turn.acquire()
        try:
            if not guard._users and _IS_USED:
                guard._wait(wait_s)
            guard._users += 1
        except BaseException:
            guard._turn.release()
            raise
        return guard

    def share(self) -> None:
        """Allow others to open the journal too, because SQLite has it open and its files exist."""
        try:
            if not self._known:
                self._note()
            if self._descriptor is not None and self._users == 1:
                take(self._descriptor, shared=True)
            self.turns.descriptor = self._descriptor
        finally:
            self._turn.release()

    def give_up(self) -> None:
        """Release the guard instead of calling `share`, because the journal could not be opened."""
        try:
            self._leave()
        finally:
            self._turn.release()

    # ------------------------------------------------------------ waiting

    def _wait(self, wait_s: float) -> None:
        begun, lost_since = time.monotonic(), None
        while True:
            descriptor = self._opened()
            if take(descriptor) and self._is_current(descriptor):
                self._descriptor = descriptor
                return
            shared = take(descriptor, shared=True)
            if shared and self._is_current(descriptor) and is_locked_by_others(self.path):
                self._descriptor = descriptor
                return
            os.close(descriptor)
            now = time.monotonic()
            lost_since = (lost_since or now) if shared else None
            if (
                lost_since is not None and now - lost_since > LOST_S
            ) or now - begun > wait_s + LOST_S:
                raise self._refusal(lost=lost_since is not None)
            time.sleep(random.uniform(0.002, 0.01))

    def _opened(self) -> int:
        try:
            mode = self.path.stat().st_mode & 0o666
            return os.open(self._file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode)
        except OSError as e:
            text = (
                f"the guard {str(self._file)!r} of the journal cannot be opened "
                f"({e.strerror or e}): nothing was done"
            )
            raise AgentError(
                "agent", f"{text}. Make it readable and writable for all users of the journal"
            ) from e

    def _is_current(self, descriptor: int) -> bool:
        """Return False if the file was removed by the process that was the last to close the
        journal.
        """
        return inode_at(self._file) == inode_of(os.fstat(descriptor))

    def _refusal(self, *, lost: bool) -> AgentError:
        whom = " ".join(str(pid) for pid in lock_holders(self._file)) or "unknown"
        if not lost:
            return AgentError(
                "agent",
                (
                    f"another process (pid {whom}) keeps the journal {str(self.path)!r} to itself "
                    "while it opens it: try again"
                ),
            )
        why = "something in it has opened and closed a file of the journal, or removed one"
        text = (
            f"another process (pid {whom}) has the journal {str(self.path)!r} open, but no "
            f"longer holds its locks ({why})"
        )
        return AgentError(
            "agent",
            f"{text}: it is not opened, so that nothing is lost. End that process, then try again",
        )

    # ------------------------------------------------------------ leaving

    def is_alone(self) -> bool:
        """Return True if no other process, and no other journal of this one, has the file open;
        none can then open it before `leave`.

        False also means that this journal is no longer guarded: close it.
        """
        with self._turn:
            return self._users == 1 and (self._descriptor is None or take(self._descriptor))

    def leave(self) -> None:
        """Leave, after SQLite has closed the journal. Repeated until there is enough memory,
        because the guard would otherwise be held until the process ends.
        """
        while True:
            try:
                with self._turn:
                    return self._leave()
            except MemoryError:
                time.sleep(MEMORY_WAIT_S)

    def _leave(self) -> None:
        self._users -= 1
        if self._users:
            return
        descriptor, self._descriptor, self.turns.descriptor = self._descriptor, None, None
        # this object also guards the next opening; nothing here allocates memory
        self._known.clear()
        self._sqlite.clear()
        self._lost = None
        try:
            HELD.remove(self)
            if descriptor is not None and take(descriptor):
                with suppress(OSError):
                    if self._is_current(descriptor):
                        self._file.unlink()
        except MemoryError:
            return  # the guard is released, although its file may remain
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def abandon(self) -> None:
        """Detach in a forked child, because the lock is the parent's."""
        global _finding
        _finding, self._turn = threading.Lock(), threading.Lock()
        self.turns = WriteTurn()
        _guards.pop(self.path, None)
        HELD.remove(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # ------------------------------------------------------------ checking

    def _note(self) -> None:
        files = [
            self.path,
            *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm")),
        ]
        if self._descriptor is not None:
            files.append(self._file)
        self._known = {file: inode for file in files if (inode := inode_at(file)) is not None}
        HELD.add(self, self._known.values())

    def watch(self, file: Path) -> None:
        """Check this file too, which proves that this process is alive."""
        if (inode := inode_at(file)) is not None:
            self._known = {**self._known, file: inode}
            HELD.add(self, self._known.values())

    def unwatch(self, file: Path) -> None:
        self._known = {known: inode for known, inode in self._known.items() if known != file}

    def check(self) -> None:
        """Check that the open journal still has its locks and is the file at its path. Raises
        AgentError(agent). Checks once in `CHECK_S`.

        After the first such error, every call raises it, because the journal may be damaged.
        """
        if self._lost is None:
            if (now := time.monotonic()) < self._next_check:
                return
            self._next_check = now + CHECK_S
            self._lost = self._broken()
        if self._lost is not None:
            text = (
                f"the journal {str(self.path)!r} is no longer used: {self._lost}. Nothing was "
                "appended since that was seen"
            )
            raise AgentError("agent", f"{text}. Restore its files, and restart this process")

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    def _broken(self) -> str | None:
        """Describe the damage to the files or locks of the open journal; None if there is none, or
        if it cannot be determined.
        """
        for file, inode in self._known.items():
            try:
                found = os.stat(file)
            except (FileNotFoundError, NotADirectoryError):
                return f"{str(file)!r} was removed or renamed"
            except OSError:
                continue
            if inode_of(found) != inode:
                return f"{str(file)!r} was replaced by another file"
            if found.st_nlink > 1 and file == self.path:
                return f"{str(file)!r} was given a second name (a hard link)"
        return self._lost_locks() if REPORTS_LOCKS else None

    def _lost_locks(self) -> str | None:
        shm = self.path.with_name(self.path.name + "-shm")
        with suppress(OSError):  # no descriptor is available for checking
            if (inode := self._known.get(shm)) is not None and not has_lock(
                self._descriptor_of(shm, inode), DMS
            ):
                return (
                    f"the lock on {str(shm)!r} was dropped, because something in this process "
                    "opened and closed the file"
                )
        with suppress(OSError):
            if (inode := self._known.get(self.path)) is not None:
                descriptor = self._descriptor_of(self.path, inode)
                if not has_lock(descriptor, SHARED):
                    return self._retake(descriptor)
        return None

    def _retake(self, descriptor: int) -> str | None:
        """Acquire the lock on the journal file again. The other lock is in place, so no process has
        used the file as if it were unlocked.
        """
        if not retake_shared_lock(descriptor):
            return (
                f"the lock on {str(self.path)!r} was dropped, because something in this process "
                "opened and closed the file, and another process has it now"
            )
        logger.warning(
            (
                "something in this process opened and closed the journal %s, and so dropped a lock "
                "on it, which was taken again"
            ),
            self.path,
        )
        return None

    def _descriptor_of(self, file: Path, inode: tuple[int, int]) -> int:
        """Return a descriptor of SQLite's. Raises OSError."""
        known = self._sqlite.get(file)
        with suppress(OSError):
            if known is not None and inode_of(os.fstat(known)) == inode:
                return known
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if inode_of(os.fstat(int(name))) == inode:
                    self._sqlite[file] = int(name)
                    return int(name)
        raise FileNotFoundError(errno.ENOENT, "SQLite has closed it", str(file))
