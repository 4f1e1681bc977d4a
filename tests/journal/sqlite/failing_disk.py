"""A disk that fails when it is told to: what SQLite writes goes through here. Entry: `FailingDisk`."""

from __future__ import annotations

from typing import Any

import apsw
from typing_extensions import override


class FailingDisk(apsw.VFS):
    """Every database that is opened while it is installed lies on it."""

    def __init__(self) -> None:
        super().__init__("failing", "unix", makedefault=True)
        self.write_fails: type[apsw.Error] | None = None
        self.sync_fails: type[apsw.Error] | None = None
        self.only = ""
        """Only files whose name ends so."""
        self.failed = 0

    @override
    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _File(self, name, flags)

    def excepthook(self, kind: Any, error: Any, trace: Any) -> None:
        """What is raised here is meant for SQLite, which turns it into a result of its own."""

    def check(self, name: str, fails: type[apsw.Error] | None) -> None:
        if fails is not None and name.endswith(self.only):
            self.failed += 1
            raise fails("the disk fails")


class _File(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: Any) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("unix", name, flags)

    def excepthook(self, kind: Any, error: Any, trace: Any) -> None:
        pass

    @override
    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.check(self._name, self._disk.write_fails)
        super().xWrite(data, offset)

    @override
    def xSync(self, flags: int) -> None:
        self._disk.check(self._name, self._disk.sync_fails)
        super().xSync(flags)
