"""A disk that fails under a whole run: from its N-th write or sync on, or only then. Entry:

`fail`, `Locked`, `cuts`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import resource
import sqlite3
import struct
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
from typing_extensions import override

from tests.journal.sqlite.failing_disk import FailingDisk
from treadle import types
from treadle._internal import crash

FAULTS: Mapping[str, tuple[str, type[apsw.Error]]] = {
    "full": ("write", apsw.FullError),
    "broken": ("write", apsw.IOError),
    "unsynced": ("sync", apsw.IOError),
}
"""Name -> the operation that fails, and how."""

_installed: list[FailingDisk] = []
"""SQLite forgets one that nobody holds."""


def fail(fault: str) -> None:
    """`NAME:N` fails the N-th operation of its kind and all that follow; `NAME:N-M` the N-th to the
    M-th. From 1, for the whole process.

    `memory:N`, `memory:N-M`: an allocation fails at each of these durable boundaries. `limit:N`:
    the system itself refuses what would make a file longer than N bytes. `powerless`: root may not
    write where others may not. `clock:N`: the clock on the wall jumps by N hours each time that it
    is read. Of PostgreSQL: `answers` loses the connection after each append, before its answer is
    there; `renewals` keeps the lease from being renewed but where somebody looks at it.
    """
    name, _, span = fault.partition(":")
    first, _, last = span.partition("-")
    if name == "powerless":
        _give_up_capabilities()
    elif name == "answers":
        _lose_answers()
    elif name == "renewals":
        _renew_nothing()
    elif name == "clock":
        _jump(int(span))
    elif name == "memory":
        _run_out(range(int(first), int(last) + 1 if last else 1 << 40))
    elif name == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(first), resource.RLIM_INFINITY))
    else:
        _installed.append(
            _CountingDisk(name, range(int(first), int(last) + 1 if last else 1 << 40))
        )


def _run_out(which: range) -> None:
    """An allocation fails at these durable boundaries, which crash.py counts."""
    count = itertools.count(1)

    def allocate() -> None:
        if next(count) in which:
            raise MemoryError

    crash._at, crash._pass = 1, allocate  # pyright: ignore[reportPrivateUsage]  it was read before


def _lose_answers() -> None:
    import psycopg

    from treadle.journal.postgres import lane

    append_all, lost = lane.append_all, itertools.count()

    def lose(db: Any, appends: Any, seal: Any) -> set[int]:
        stood = append_all(db, appends, seal)
        if next(lost) % 2 == 0:
            db.close()
            raise psycopg.OperationalError("the connection was lost")
        return stood

    lane.append_all = lose


def _renew_nothing() -> None:
    from treadle.journal.postgres.workers import PostgresWorkers

    def live(self: PostgresWorkers, me: str) -> None:
        pass

    PostgresWorkers._live = live  # pyright: ignore[reportPrivateUsage]  what fails here is inside


def _jump(hours: int) -> None:
    """In every module that reads it."""
    jumps, read = itertools.count(), types.now

    def now() -> types.Time:
        return read() + timedelta(hours=hours * next(jumps))

    for module in [
        module
        for name, module in sys.modules.items()
        if name.startswith("treadle") and getattr(module, "now", None) is read
    ]:
        vars(module)["now"] = now


def _give_up_capabilities() -> None:
    """All of them (capset(2)). Raises OSError where the system has none."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
    if not hasattr(libc, "capset") or libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities of root cannot be given up here")


class _CountingDisk(FailingDisk):
    def __init__(self, fault: str, which: range) -> None:
        super().__init__()
        operation, error = FAULTS[fault]
        self.write_fails = error if operation == "write" else None
        self.sync_fails = error if operation == "sync" else None
        self._which = which
        self._count = itertools.count(1)

    @override
    def check(self, name: str, fails: type[apsw.Error] | None) -> None:
        if fails is not None and next(self._count) in self._which:
            super().check(name, fails)


class Locked:
    """Somebody writes, and does not come to an end."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def __enter__(self) -> None:
        self._db = sqlite3.connect(self._journal, isolation_level=None)
        self._db.execute("begin immediate")

    def __exit__(self, *exc: object) -> None:
        self._db.execute("rollback")
        self._db.close()


# ---------------------------------------------------------------- cuts


def last_transaction(log: bytes) -> range:
    """Where it stands in a write-ahead log: frames of a page with 24 bytes before it, of which the
    last of a transaction says how long the file is.
    """
    page = struct.unpack(">I", log[8:12])[0]
    ends = [
        at + 24 + page
        for at in range(32, len(log), 24 + page)
        if struct.unpack(">I", log[at + 4 : at + 8])[0]
    ]
    return range(ends[-2], ends[-1])


def cuts(log: bytes, every: int) -> Iterator[int]:
    """Places in the last transaction: all that matter, and some of the others."""
    span = last_transaction(log)
    for place in span:
        if (place - span.start) % 4120 in (0, 1, 24, 25, 4119) or (place - span.start) % every == 0:
            yield place
