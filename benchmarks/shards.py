"""Compare a journal over four servers with one over a single server, and kill one of the four under
load. All of them sync every commit and share the machine with their client. Prints the figures.

    python -m benchmarks.shards [--processes N]

Entry point: `main`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from benchmarks.journal import answered, asked, started
from tests.crash.postgres import ChaosServer
from tests.stores import sharded

from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.shards.placement import Generation, homes
from treadle.types import new_id

RUNS = 32
LOAD_S = 6.0
AWAY_S = 6.0


async def driven(journal: Journal, name: str, seconds: float) -> int:
    """Return the number of appends of 32 runs."""
    writers = [await journal.begin(started(f"{name}_{n}")) for n in range(RUNS)]
    until, count = time.perf_counter() + seconds, 0

    async def drive(writer: RunWriter) -> None:
        nonlocal count
        turn = 0
        while time.perf_counter() < until:
            await writer.append(asked(turn))
            await writer.append(answered(turn))
            turn += 1
            count += 2

    async with anyio.create_task_group() as group:
        for writer in writers:
            group.start_soon(drive, writer)
    return count


def process(url: str, name: str) -> float:
    """Return the appends per second of one process."""

    async def main() -> int:
        journal = open_journal(url)
        try:
            return await driven(journal, name, LOAD_S)
        finally:
            await journal.aclose()

    return anyio.run(main) / LOAD_S


def rate(url: str, processes: int) -> float:
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return sum(pool.starmap(process, [(url, f"p{n}") for n in range(processes)]))


def id_in(shard: str) -> str:
    """Return a new id that belongs in a shard."""
    generation = Generation(version=1, names=("s0", "s1", "s2", "s3"))
    while homes([generation], run_id := new_id("run")) != [shard]:
        pass
    return run_id


async def one_killed(url: str, servers: Sequence[ChaosServer]) -> None:
    """Begin and append short runs while one server is away for some seconds."""
    journal = open_journal(url)
    done, failed, begun = Counter[int](), Counter[int](), time.perf_counter()
    total_s = AWAY_S + 8

    async def drive(number: int) -> None:
        turn = 0  # each task has runs of one shard, as a client has one conversation
        while (now := time.perf_counter() - begun) < total_s:
            turn += 1
            try:
                writer = await journal.begin(started(id_in(f"s{number % len(servers)}")))
                await writer.append(asked(turn))
                await writer.release()
                done[int(now)] += 1
            except AgentError:
                failed[int(now)] += 1
                await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        for number in range(RUNS * 4):
            group.start_soon(drive, number)
        await anyio.sleep(5)
        await anyio.to_thread.run_sync(servers[0].stop)
        with suppress(AgentError):
            await journal.runs(limit=1)  # as a worker's claim would, which notices it
        print(f"  missing after {time.perf_counter() - begun - 5:.1f} s: {[*journal.missing]}")
        await anyio.sleep(AWAY_S)
        await anyio.to_thread.run_sync(servers[0].start)
    for second in range(int(total_s)):
        print(f"  second {second:2}: {done[second]:5} runs begun, {failed[second]:4} refused")
    await journal.aclose()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=2)
    processes = parser.parse_args().processes
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.0f}, {processes} processes")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = [stack.enter_context(ChaosServer()) for _ in range(4)]
        for count in (1, 4, 1, 4):
            urls = {f"s{n}": servers[n].journal() for n in range(count)}
            url = urls["s0"] if count == 1 else sharded(Path(folder) / f"{time.time()}.yaml", urls)
            print(f"{count} servers: {rate(url, processes):,.0f} appends per second", flush=True)
        urls = {f"s{n}": server.journal() for n, server in enumerate(servers)}
        print("one of four killed after 5 s:")
        anyio.run(one_killed, sharded(Path(folder) / "killed.yaml", urls), servers)


if __name__ == "__main__":
    main()
