"""A process of its own that takes runs from queues: one command a line, one answer a line.

`python -m tests.journal.claimant URL`.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from tests.journal.runs import finished, resumed
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import RunWriter
from treadle.journal.queue import WorkerCard


class Claimant:
    def __init__(self, url: str, lease_s: str = "15") -> None:
        self.journal = open_journal(url, lease_s=float(lease_s))
        self.writers: dict[str, RunWriter] = {}

    async def register(self, name: str) -> str:
        queues = ("default",)
        card = WorkerCard(
            name=name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version="1",
            engine="local",
            queues=queues,
            slots=4,
        )
        return await self.journal.queue.register(card)

    async def claim(self, most: str, engine: str = "local") -> str:
        tickets = await self.journal.queue.claim(["default"], engine=engine, most=int(most))
        return " ".join(f"{ticket.run_id}/{ticket.delivery}" for ticket in tickets) or "none"

    async def sweep(self, most: str) -> str:
        """Claims until there is nothing more."""
        found: list[str] = []
        while tickets := await self.journal.queue.claim(
            ["default"], engine="local", most=int(most)
        ):
            found += [ticket.run_id for ticket in tickets]
        return " ".join(found) or "none"

    async def sent(self, run_id: str) -> str:
        await self.journal.queue.sent([run_id], engine="far")
        return "sent"

    async def drive(self, run_id: str) -> str:
        writer = self.writers[run_id] = await self.journal.take_over(run_id)
        await writer.append([resumed(writer.fence)])
        return f"fence {writer.fence}"

    async def finish(self, run_id: str) -> str:
        return str(await self.writers[run_id].append([finished()]))

    async def close(self) -> str:
        await self.journal.aclose()
        return "closed"


async def main() -> None:
    claimant = Claimant(*sys.argv[1:])
    print("ready", flush=True)
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        word, *rest = line.split()
        work: Callable[..., Awaitable[str]] = getattr(claimant, word)
        try:
            print(await work(*rest), flush=True)
        except AgentError as e:
            print(f"error {e.kind}: {e.message}", flush=True)


if __name__ == "__main__":
    anyio.run(main)
