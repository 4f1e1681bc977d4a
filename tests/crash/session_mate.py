"""A process that runs in a session which other processes use too: `python -m
tests.crash.session_mate URL SEED RUNS`.

Prints a line of JSON for each run: its id and the ids of the messages in its result. Entry: `main`.
"""

from __future__ import annotations

import json
import random
import sys

import anyio

from tests.doubles import PlayedModel, agent, check_history, gives, text, wishes
from treadle import AgentError, Runtime
from treadle.messages.message import Message

SESSION = "shared"


async def main(url: str, seed: int, runs: int) -> None:
    chance = random.Random(seed)
    async with Runtime.open(url) as rt:
        done = 0
        while done < runs:
            try:
                await _one(rt, chance, f"{seed}-{done}")
            except AgentError as e:
                if e.kind != "busy":
                    raise
                await anyio.sleep(chance.uniform(0, 0.01))  # another process runs in it
                continue
            done += 1


async def _one(rt: Runtime, chance: random.Random, name: str) -> None:
    what = chance.random()
    if what < 0.03:
        await rt.clear(SESSION)
    elif what < 0.1:
        rt.sessions.add_messages(
            SESSION, [Message.user(f"by hand {name}"), Message.assistant("noted")]
        )
    model = PlayedModel(wishes((f"call_{name}", "note", "{}")), text("done"))
    result = await rt.run(agent(model, gives("note")), f"go {name}", session=SESSION)
    for history in (*model.histories, result.messages):
        check_history(history)
    print(
        json.dumps(
            {"run_id": result.run_id, "messages": [message.id for message in result.messages]}
        ),
        flush=True,
    )


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
