"""Another process that has the conversation: begins a run that comes to wait for a person, or goes on with it.

`python -m tests.caching.child WIRE URL JOURNAL [RUN_ID]` prints the run's id and outcome. Entry: `main`.
"""

from __future__ import annotations

import sys

import anyio

from tests.caching.conversation import Conversation
from tests.providers.conftest import SPEECHES
from treadle.config import Config
from treadle.runtime import Runtime


async def main(wire: str, url: str, journal: str, run_id: str = "") -> None:
    speech = next(speech for speech in SPEECHES if speech.wire == wire)
    connection = speech.connection(url, timeout_s=10)
    agent = Conversation(speech).agent(speech.model(connection))
    async with Runtime.open(journal, config=Config()) as rt:
        if run_id:
            open_call = (await rt.journal.load(run_id)).open_calls[0]
            result = await rt.resume(run_id, agent, approve=[open_call.id])
        else:
            result = await rt.run(agent, "Sort the parcels.", on_ask="wait")
    await connection.aclose()
    print(result.run_id, result.outcome.value)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
