"""Measure the figures of docs/internals/capacity.md: the load of a run on a PostgreSQL server and a
worker, and the load of an idle worker.

    python -m benchmarks.capacity [--runs 500] [--turns 10] [--slots 32]

The server is started for the benchmark, syncs every commit, and shares the machine with its client.
Runs have a tool call in each turn except the last; their model answers at once. Entry point:
`main`.
"""

from __future__ import annotations

import argparse
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from tests.crash.postgres import ChaosServer

from treadle import Agent, Limits, Runtime, tool
from treadle.config import load
from treadle.testing import ScriptedModel
from treadle.workers.worker import Worker

CLAIMS = 100
IDLE_S = 5.0


@tool(effect="pure")
async def look(place: str) -> str:
    """List the contents."""
    return f"{place}: " + "nothing of note, as far as one sees; " * 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--slots", type=int, default=32)
    options = parser.parse_args()
    with ChaosServer() as server:
        anyio.run(_measure, server, server.journal(), options.runs, options.turns, options.slots)


async def _measure(server: ChaosServer, url: str, runs: int, turns: int, slots: int) -> None:
    calls = [
        {
            "text": f"I look at place {n}.",
            "tool_calls": [{"name": "look", "arguments": {"place": f"place {n}"}}],
        }
        for n in range(turns - 1)
    ]
    agent = Agent(
        name="walker",
        model=ScriptedModel([*calls, {"text": "There is nothing of note."}] * runs),
        tools=[look],
        limits=Limits(turns=turns + 1),
    )
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(Runtime.open(url, config=load(files=False)))
        runtime.agents.register(agent)
        await _submit(runtime, agent, runs)
        await _work(server, runtime, runs, turns, slots)
        await _idle(server, runtime)
    _size(server, url, runs, turns)


async def _submit(runtime: Runtime, agent: Agent[Any, Any], runs: int) -> None:
    async def some(first: int) -> None:
        for n in range(first, runs, 8):
            await runtime.submit(agent, "Walk about, and say what is there.", run_id=f"walk_{n}")

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for first in range(8):
            group.start_soon(some, first)
    _say("runs submitted in a second", runs / (time.perf_counter() - begun))


async def _work(server: ChaosServer, runtime: Runtime, runs: int, turns: int, slots: int) -> None:
    worker = Worker(runtime, slots=slots)
    begun, own, theirs = time.perf_counter(), time.process_time(), _processor_s(server)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.work)
        while worker.deliveries < runs or worker.running:
            await anyio.sleep(0.01)
        took, own, theirs = (
            time.perf_counter() - begun,
            time.process_time() - own,
            _processor_s(server) - theirs,
        )
        worker.drain()
    _say(f"runs of {turns} turns by one worker in a second", runs / took)
    _say("processor of the worker for a turn, ms", own / runs / turns * 1e3)
    _say("processor of the server for a turn, ms", theirs / runs / turns * 1e3)


async def _idle(server: ChaosServer, runtime: Runtime) -> None:
    queue = runtime.journal.queue
    begun, theirs = time.perf_counter(), _processor_s(server)
    for _ in range(CLAIMS):
        assert not await queue.claim(["default"], engine="local", most=8)
    _say("a claim that finds nothing, ms", (time.perf_counter() - begun) / CLAIMS * 1e3)
    _say("of it the server's processor, ms", (_processor_s(server) - theirs) / CLAIMS * 1e3)
    worker = Worker(runtime)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.work)
        await worker.registered.wait()
        own, theirs = time.process_time(), _processor_s(server)
        await anyio.sleep(IDLE_S)
        _say(
            "an idle worker's own processor, ms a second",
            (time.process_time() - own) / IDLE_S * 1e3,
        )
        _say(
            "an idle worker's share of the server, ms a second",
            (_processor_s(server) - theirs) / IDLE_S * 1e3,
        )
        _say(
            "connections of a worker",
            len(server.sql("select 1 from pg_stat_activity where application_name = 'treadle'")),
        )
        worker.drain()


def _size(server: ChaosServer, url: str, runs: int, turns: int) -> None:
    server.sql_of(url, "checkpoint")
    size = server.sql_of(
        url,
        "select sum(pg_total_relation_size(c.oid)) from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = 'treadle' and relkind = 'r'",
    )
    _say("bytes in the database for a turn, indexes included", float(size[0][0]) / runs / turns)


def _processor_s(server: ChaosServer) -> float:
    """Return the CPU seconds of the server's processes, those that have ended included."""
    postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    ticks = sum(_ticks(pid) for pid in [postmaster, *_children(postmaster)])
    return ticks / 100


def _ticks(pid: int) -> int:
    """Return the CPU ticks of a process and of its reaped children. Linux only."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[11:15]))


def _children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def _say(what: str, value: float) -> None:
    print(f"{what:58}{value:12,.2f}", flush=True)


if __name__ == "__main__":
    main()
