"""A disk that fails under a whole run: from its N-th write or sync on, or only then. Entry: `fail`, `FAULTS`."""

from __future__ import annotations

import ctypes
import itertools
import os
import resource
import struct
from collections.abc import Mapping

import apsw
from typing_extensions import override

from tests.journals.sqlite.failing_disk import FailingDisk

FAULTS: Mapping[str, tuple[str, type[apsw.Error]]] = {
    "full": ("write", apsw.FullError),
    "broken": ("write", apsw.IOError),
    "unsynced": ("sync", apsw.IOError),
}
"""Name -> the operation that fails, and how."""

_installed: list[FailingDisk] = []
"""SQLite forgets one that nobody holds."""


def fail(fault: str) -> None:
    """`NAME:N` fails the N-th operation of its kind and all that follow; `NAME:N-M` the N-th to the M-th. From 1, for the whole process.

    `limit:N`: the system itself refuses what would make a file longer than N bytes. `powerless`: root may not write where others may not.
    """
    name, _, span = fault.partition(":")
    first, _, last = span.partition("-")
    if name == "powerless":
        _give_up_capabilities()
    elif name == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(first), resource.RLIM_INFINITY))
    else:
        _installed.append(_CountingDisk(name, range(int(first), int(last) + 1 if last else 1 << 40)))


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
