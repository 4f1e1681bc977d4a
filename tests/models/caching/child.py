"""Another process that has the conversation, over each wire: begins runs that come to wait for a
person, or goes on with them.

`python -m tests.models.caching.child JOURNAL WIRE=URL... [WIRE=URL=RUN_ID...]` prints `WIRE RUN_ID
OUTCOME` for each. Entry: `main`.
"""

from __future__ import annotations

import sys

import anyio

from tests.models.caching.conversation import Conversation
from tests.models.providers.conftest import SPEECHES
from treadle.config import Config
from treadle.messages.result import RunResult
from treadle.runtime.runtime import Runtime
from treadle.types import Settings

EXTRAS = Settings(extra={"metadata": {"team": "post", "area": "north", "5": "six"}})


async def main(journal: str, *runs: str) -> None:
    async with Runtime.open(journal, config=Config()) as rt:
        for run in runs:
            wire, url, *run_ids = run.split("=")
            result = await driven(rt, wire, url, *run_ids)
            print(wire, result.run_id, result.outcome.value)


async def driven(rt: Runtime, wire: str, url: str, run_id: str = "") -> RunResult[str]:
    speech = next(speech for speech in SPEECHES if speech.wire == wire)
    connection = speech.connection(url, timeout_s=10)
    agent = Conversation(speech).agent(speech.model(connection))
    try:
        if not run_id:
            return await rt.run(agent, "Sort the parcels.", on_ask="wait", settings=EXTRAS)
        open_call = (await rt.journal.load(run_id)).current.open_calls[0]
        return await rt.resume(run_id, agent, approve=[open_call.id])
    finally:
        await connection.aclose()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
