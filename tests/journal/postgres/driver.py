"""A process of its own that drives runs: one command a line, one answer a line.

`python -m tests.journal.postgres.driver URL LEASE_S`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from tests.journal.runs import begun, fact, finished, resumed, started
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import RunWriter


class Driver:
    def __init__(self, url: str, lease_s: float) -> None:
        self.journal = open_journal(url, lease_s=lease_s)
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

    async def once(self, run_id: str, call_id: str) -> str:
        return str(await self.writers[run_id].append([begun(call_id)]))

    async def resume(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([resumed(self.writers[run_id].fence)]))

    async def finish(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([finished()]))

    async def release(self, run_id: str) -> str:
        await self.writers[run_id].release()
        return "released"

    async def flood(self, run_id: str) -> str:
        """Appends until it is killed; each number is told once it is durable."""
        number = 0
        while True:
            await self.writers[run_id].append([fact(str(number)), fact(f"{number} again")])
            print(number, flush=True)
            number += 1


async def main() -> None:
    driver = Driver(sys.argv[1], float(sys.argv[2]))
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
