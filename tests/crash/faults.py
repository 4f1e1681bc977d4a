"""A disk that fails on purpose: a file system under SQLite that refuses the writes it is told to. Entry: `fail`, `FAULTS`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import apsw

FAULTS: Mapping[str, tuple[str, type[apsw.Error]]] = {
    "full": ("xWrite", apsw.FullError),
    "broken": ("xWrite", apsw.IOError),
    "unsynced": ("xSync", apsw.IOError),
}
"""Name -> the operation that fails, and how."""


def fail(fault: str) -> None:
    """`NAME:N` fails the N-th operation of its kind and all that follow; `NAME:N-M` the N-th to the M-th. From 1, for the whole process."""
    name, _, span = fault.partition(":")
    first, _, last = span.partition("-")
    _FailingDisk(name, range(int(first), int(last) + 1 if last else 1 << 40))


class _FailingDisk(apsw.VFS):
    def __init__(self, fault: str, which: range) -> None:
        self.operation, self.error = FAULTS[fault]
        self.which = which
        self.count = itertools.count(1)
        super().__init__("failing", "", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _FailingFile:
        return _FailingFile(self, name, flags)

    def reached(self, operation: str) -> None:
        if operation == self.operation and next(self.count) in self.which:
            raise self.error("this disk fails on purpose")


class _FailingFile(apsw.VFSFile):
    def __init__(self, disk: _FailingDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.reached("xWrite")
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]  apsw names types of Python 3.12

    def xSync(self, flags: int) -> None:
        self._disk.reached("xSync")
        super().xSync(flags)
