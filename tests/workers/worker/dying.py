"""A worker that is killed inside of a call: `python -m tests.workers.worker.dying URL FILE`.

It writes the run's id, and `called`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio

from tests.doubles import asks, call
from treadle import Agent, Runtime, tool
from treadle.testing import ScriptedModel
from treadle.workers.worker import Worker


def caller(file: Path, script: list[Any]) -> Agent[Any, Any]:
    @tool(effect="once")
    async def effect() -> str:
        """Has an effect."""
        with file.open("a") as opened:
            opened.write("x")
        print("called", flush=True)
        await anyio.sleep_forever()
        return "never"

    return Agent(name="caller", model=ScriptedModel(script), tools=[effect])


async def main(url: str, file: str) -> None:
    async with Runtime.open(url) as runtime:
        agent = caller(Path(file), [asks(call("effect"))])
        runtime.agents.register(agent)
        print(await runtime.submit(agent, "go"), flush=True)
        await Worker(runtime, name="dying").work()


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
