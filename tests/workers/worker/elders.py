"""Three workers of an engine in one process, which wait to be killed: `python -m
tests.workers.worker.elders JOURNAL`. Writes `registered` when they are.
"""

from __future__ import annotations

import os
import socket
import sys

import anyio

from treadle.journal import open_journal
from treadle.journal.queue import WorkerCard


async def main(url: str) -> None:
    journals = [open_journal(url) for _ in range(3)]
    for number, journal in enumerate(journals):
        card = WorkerCard(
            name=f"elder{number}",
            host=socket.gethostname(),
            pid=os.getpid(),
            version="1",
            engine="dbos",
            queues=("default",),
            slots=1,
        )
        await journal.queue.register(card)
    print("registered", flush=True)
    await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
