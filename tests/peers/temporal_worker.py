"""A worker of Temporal in a process of its own: `python -m tests.peers.temporal_worker ADDRESS
JOURNAL FOLDER`. Its tools leave their traces in the folder.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
from temporalio.worker import Worker

from tests.doubles import PlainTool, asks, call, says
from tests.peers.temporal import TemporalServer
from tests.peers.temporal_flows import Both, Quick
from treadle import Agent, ModelRequest, Runtime, ToolContext
from treadle.testing import ScriptedModel
from treadle.workers.engines.temporal import TreadlePlugin

QUEUE = "agents"


def payer(folder: Path, *, needs_approval: bool = False) -> Agent[Any, str]:
    """An agent that pays once, and waits at that while `hold` exists."""

    async def pay(ctx: ToolContext[Any], arguments: object) -> str:
        with (folder / "paid").open("a") as paid:
            paid.write(f"{ctx.run_id}\n")
        while (folder / "hold").exists():
            await anyio.sleep(0.02)
        return "paid"

    def respond(request: ModelRequest) -> dict[str, Any]:
        return says("Done.") if request.messages[-1].tool_results else asks(call("pay", "a"))

    return Agent(
        name="careful-payer" if needs_approval else "payer",
        model=ScriptedModel(respond),
        tools=[PlainTool(name="pay", does=pay, effect="once", needs_approval=needs_approval)],
    )


def paid(folder: Path) -> list[str]:
    path = folder / "paid"
    return path.read_text().split() if path.exists() else []


def worker(client: Any, runtime: Runtime, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        build_id="tests",  # else a digest of all modules, which takes 300 ms
        workflows=[Quick, Both],
        plugins=[TreadlePlugin(runtime)],
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        **options,
    )


async def main(address: str, journal: str, folder: Path) -> None:
    server = TemporalServer(folder)
    server.address = address
    async with Runtime.open(journal) as runtime:
        runtime.agents.register(payer(folder))
        await worker(await server.client(), runtime).run()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], Path(sys.argv[3]))
