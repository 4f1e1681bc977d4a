"""Drivers of runs: each open journal that drives is a worker, alive as long as the kernel holds its
lock.

No heartbeats and no clock: a killed worker is dead immediately, a stopped one is alive. Only a
missing lock file and a lock that the kernel has released prove a death; an unknown state is an
error. Entry point: `SqliteWorkers`.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

from treadle._internal.file_lock import hold, is_held
from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.sqlite.guard import Guard
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Process
from treadle.types import new_id

_READABLE = "Run as the user who owns the journal, or make its folder readable"
_TOO_MANY = "This process has too many files open: close some, or raise `ulimit -n`"
_WAY_ON = {
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: "The system has too many files open: try again later",
}


class SqliteWorkers:
    """Workers of one journal file, including this process once it has registered."""

    needs_lease = False

    def __init__(self, journal: Path, guard: Guard | None = None) -> None:
        """Create the registration of this worker. `guard`: checks that the lock file of this worker
        is still in place.
        """
        self._guard = guard
        self.folder = journal.with_name(journal.name + "-workers")
        self.me: str | None = None
        self._descriptor: int | None = None
        self._lock = threading.Lock()
        """Guards registration, so that two threads that start their first runs at the same time
        register one worker.
        """
        abandon_in_children(self)

    def register(self) -> str:
        """Return this worker's id. The first call creates its lock file and deletes those of dead
        workers. Raises AgentError(agent).
        """
        with self._lock:
            if self.me is None:
                self.me = self._register(new_id("worker"))
            return self.me

    def _register(self, me: str) -> str:
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._clear()
            self._descriptor = hold(self._file(me), f"{os.getpid()}\n{socket.gethostname()}\n")
        except OSError as e:
            reason = (
                f"the lock file for a run's driver cannot be created in {str(self.folder)!r} "
                f"({e.strerror or e}): make it writable"
            )
            raise AgentError("agent", reason) from e
        if self._guard is not None:
            self._guard.watch(self._file(me))
        return me

    def living(self, db: Cursor) -> list[str]:
        """Return the ids of living workers. Raises AgentError(agent) if the state of one is
        unknown.
        """
        try:
            return [path.stem for path in self._files() if is_held(path) is not None]
        except OSError as e:
            raise self._unknown(e) from e

    def of(self, db: Cursor, worker: str | None) -> Process | None:
        """Return the process of a worker, for readers of the tables."""
        return self.process(worker)

    def process(self, worker: str | None) -> Process | None:
        """Return the process, or None for a dead worker. Raises AgentError(agent) if its state is
        unknown.
        """
        if worker is None or "/" in worker:
            return None
        try:
            held = is_held(self._file(worker))
        except OSError as e:
            raise self._unknown(e) from e
        if held is None:
            return None
        pid, host, *_ = (*held.split(), "", "")
        return Process(int(pid) if pid.isdecimal() else None, host or None)

    def leave(self) -> None:
        """Release everything that this worker holds. Idempotent."""
        me, descriptor, self.me, self._descriptor = self.me, self._descriptor, None, None
        if me is not None and descriptor is not None:
            if self._guard is not None:
                self._guard.unwatch(self._file(me))
            self._file(me).unlink(missing_ok=True)
            os.close(descriptor)

    def _clear(self) -> None:
        for path in self._files():
            with suppress(OSError):  # a file whose state is unknown is kept
                if is_held(path) is None:
                    path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """List the lock files. Raises OSError, whereas a glob would silently omit unreadable
        directories.
        """
        try:
            return [
                self.folder / name for name in os.listdir(self.folder) if name.endswith(".lock")
            ]
        except FileNotFoundError:
            return []

    def _unknown(self, cause: OSError) -> AgentError:
        why = f"{str(cause.filename or self.folder)!r} cannot be opened ({cause.strerror or cause})"
        return AgentError(
            "agent",
            (
                f"cannot determine whether another process drives the run: {why}; nothing was taken "
                f"over. {_WAY_ON.get(cause.errno or 0, _READABLE)}"
            ),
        )

    def _file(self, worker: str) -> Path:
        return self.folder / f"{worker}.lock"

    def abandon(self) -> None:
        """Detach in a forked child, where the lock is the parent's, and our own lock may be held by
        a thread that does not exist there.
        """
        self._lock = threading.Lock()
        descriptor, self.me, self._descriptor = self._descriptor, None, None
        if descriptor is not None:
            os.close(descriptor)
