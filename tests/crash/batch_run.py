"""A process of its own that runs a batch, for tests that kill it:

`python -m tests.crash.batch_run JOURNAL PORT WIRE`; TREADLE_CRASH_AT says where it dies.
"""

from __future__ import annotations

import sys

import anyio

from tests.runtime.test_batch import POLICY, Gathering, agent_on, look
from tests.vendors.batches import BatchServer
from treadle import Runtime
from treadle.journal import open_journal

PROMPTS = ("Rome", "Oslo")


async def main(url: str, port: str, wire: str) -> None:
    server = BatchServer()
    server.port = int(port)
    journal = open_journal(url)
    async with Runtime(journal=journal, config=server.config(wire), clock=Gathering()) as rt:
        one = agent_on(wire, tools=[look])
        results = await rt.batch(one, PROMPTS, batch_id="b", policy=POLICY)
    sys.stdout.write("".join(f"{result.text}\n" for result in results))


if __name__ == "__main__":
    _, given_url, given_port, given_wire = sys.argv
    anyio.run(main, given_url, given_port, given_wire)
