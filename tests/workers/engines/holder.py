"""A worker that is given runs and never ends them: `python -m tests.workers.engines.holder URL WORKER`."""

from __future__ import annotations

import sys

import anyio

from treadle.journal.engine import QueueLimits
from treadle.journal.queue import Ticket
from treadle.workers.engines.dbos import DbosEngine


async def deliver(ticket: Ticket) -> None:
    print(ticket.run_id, flush=True)
    await anyio.sleep_forever()


async def main(url: str, worker: str) -> None:
    async with (
        DbosEngine.open(url, poll_s=0.02) as engine,
        engine.delivering(worker, {"default": QueueLimits()}, deliver, slots=4),
    ):
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
