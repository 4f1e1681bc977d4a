"""A process of its own that drives runs: one command a line, one answer a line.

`python -m tests.journal.sqlite.driver FILE [BUSY_TIMEOUT_S]`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from tests.journal.runs import fact, finished, resumed, started
from treadle.errors import AgentError
from treadle.journal.journal import RunWriter
from treadle.journal.sqlite import SqliteJournal


class Driver:
    def __init__(self, path: str, busy_timeout_s: str = "5") -> None:
        self.journal = SqliteJournal.open(path, busy_timeout_s=float(busy_timeout_s))
        self.journal.on_stop(lambda run_id: print(f"stop {run_id}", flush=True))
        self.writers: dict[str, RunWriter] = {}

    async def begin(self, run_id: str, session: str = "") -> str:
        self.writers[run_id] = await self.journal.begin(started(run_id, session=session or None))
        return "begun"

    async def take(self, run_id: str, force: str = "") -> str:
        self.writers[run_id] = await self.journal.take_over(run_id, force=bool(force))
        return f"fence {self.writers[run_id].fence}"

    async def append(self, run_id: str, word: str) -> str:
        return str(await self.writers[run_id].append([fact(word)]))

    async def resume(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([resumed(self.writers[run_id].fence)]))

    async def finish(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([finished()]))

    async def release(self, run_id: str) -> str:
        await self.writers[run_id].release()
        return "released"

    async def touch(self, *suffixes: str) -> str:
        """Opens and closes files of the journal, as a backup inside this process would."""
        for suffix in suffixes:
            open(f"{self.journal.path}{suffix.removeprefix('.')}").close()
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

    async def flood(self, run_id: str) -> str:
        """Appends until it is killed; each number is told once it is durable."""
        number = 0
        while True:
            await self.writers[run_id].append([fact(str(number)), fact(f"{number} again")])
            print(number, flush=True)
            number += 1


async def main() -> None:
    driver = Driver(*sys.argv[1:])
    print("ready", flush=True)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        name, *words = line.split()
        command: Callable[..., Awaitable[str]] = getattr(driver, name)
        try:
            print(await command(*words), flush=True)
        except AgentError as e:
            print(f"{e.kind}: {e.message}", flush=True)
    await driver.journal.aclose()


if __name__ == "__main__":
    anyio.run(main)
