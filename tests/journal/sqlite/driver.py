"""A process of its own that drives runs: one command a line, one answer a line.

`python -m tests.journal.sqlite.driver FILE [BUSY_TIMEOUT_S]`.
"""

from __future__ import annotations

import subprocess
import sys

import anyio

from tests.journal.processes import Driver
from treadle.journal.sqlite import SqliteJournal


class SqliteDriver(Driver):
    def __init__(self, path: str, busy_timeout_s: str = "5") -> None:
        super().__init__(SqliteJournal.open(path, busy_timeout_s=float(busy_timeout_s)))
        self.path = path

    async def touch(self, *suffixes: str) -> str:
        """Opens and closes files of the journal, as a backup inside this process would."""
        for suffix in suffixes:
            open(f"{self.path}{suffix.removeprefix('.')}").close()
        return "touched"

    async def close(self) -> str:
        await self.journal.aclose()
        return "closed"

    async def spawn(self) -> str:
        """Another program, which inherits what is not kept from it, and outlives this one."""
        child = subprocess.Popen(
            [sys.executable, "-c", "import signal; signal.pause()"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            close_fds=False,
        )
        return str(child.pid)


if __name__ == "__main__":
    anyio.run(SqliteDriver(*sys.argv[1:]).serve)
