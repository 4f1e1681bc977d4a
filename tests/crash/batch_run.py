"""A process that runs a batch, for tests that end it. Entry: `drive`."""

from __future__ import annotations

import sys

import anyio

from tests.runtime.test_batch import POLICY, Gathering, agent_on, look
from tests.vendors.batches import BatchServer
from treadle import Runtime
from treadle.journal import open_journal

PROMPTS = ("Rome", "Oslo")


def drive(url: str, port: str, wire: str) -> None:
    """Print the text of each run."""
    anyio.run(_main, url, port, wire)


async def _main(url: str, port: str, wire: str) -> None:
    server = BatchServer()
    server.port = int(port)
    journal = open_journal(url)
    async with Runtime(journal=journal, config=server.config(wire), clock=Gathering()) as rt:
        one = agent_on(wire, tools=[look])
        results = await rt.batch(one, PROMPTS, batch_id="b", policy=POLICY)
    sys.stdout.write("".join(f"{result.text}\n" for result in results))
