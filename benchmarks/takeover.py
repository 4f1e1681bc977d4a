"""Measure how long a run over PostgreSQL is interrupted when its worker is killed: the time until
another worker appends to it.

    python -m benchmarks.takeover [--times 10] [--lease 15 --lease 2]

Two workers with default settings share one run that never ends. The driver is killed with SIGKILL
at a random moment of its lease, and the benchmark waits for the other worker's `run.resumed`; then
a new worker joins, and so on. The figure is the time between the signal and the timestamp of the
row, by one clock. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from tests.crash.postgres import ChaosServer
from tests.crash.stories import Story, World, agent_of

from treadle import Agent, Limits, Runtime
from treadle.journal import open_journal
from treadle.journal.run_info import RunInfo
from treadle.workers.worker import Worker

MUST_S = {15.0: 20.0, 2.0: 3.0}
RUN = "endless"
TURNS = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--lease", type=float, action="append", help="repeatable; seconds")
    parser.add_argument(
        "--worker",
        nargs=3,
        metavar=("URL", "LEASE", "WITNESS"),
        help="what the processes of this are started with",
    )
    options = parser.parse_args()
    if options.worker:
        url, lease, witness = options.worker
        anyio.run(_work, url, float(lease), Path(witness))
        return 0
    late = 0
    print("| lease | p50 | longest | must |\n|---|---|---|---|", flush=True)
    with ChaosServer() as server, tempfile.TemporaryDirectory() as folder:
        for lease_s in options.lease or MUST_S:
            took = _measured(server, lease_s, options.times, Path(folder) / f"witness-{lease_s}")
            must_s = MUST_S.get(lease_s, lease_s * 1.5)
            print(
                f"| {lease_s:g} s | {statistics.median(took):.2f} s | {max(took):.2f} s | within {must_s:g} s |",
                flush=True,
            )
            late += max(took) > must_s
    return int(late > 0)


def _measured(server: ChaosServer, lease_s: float, times: int, witness: Path) -> list[float]:
    url = server.journal()
    anyio.run(_submit, url, witness)
    workers = [_begun(url, lease_s, witness) for _ in range(2)]
    took: list[float] = []
    try:
        resumed = 1  # the first is that of whoever took it out of the queue
        _wait_for(server, url, resumed)
        for _ in range(times):
            time.sleep(lease_s / 3 + random.uniform(0, lease_s / 3))
            driver = server.sql_of(
                url,
                f"select pid from treadle.workers join treadle.runs on owner = workers.id where runs.id = '{RUN}'",
            )
            (dead,) = [worker for worker in workers if worker.pid == driver[0][0]]
            killed_at = time.monotonic()
            dead.kill()
            dead.wait()
            resumed += 1
            took.append(_wait_for(server, url, resumed) - killed_at)
            workers[workers.index(dead)] = _begun(url, lease_s, witness)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    server.drop(url)
    return took


def _wait_for(server: ChaosServer, url: str, resumed: int) -> float:
    """Wait until the run has been taken over so many times. Return the time of the last takeover."""
    import psycopg

    with psycopg.connect(server.past_the_proxy(url), autocommit=True) as connection:
        while True:
            found = connection.execute(
                "select count(*) from treadle.entries where type = 'run.resumed'"
            ).fetchone()
            if found is not None and found[0] >= resumed:
                return time.monotonic()
            time.sleep(0.01)


def _begun(url: str, lease_s: float, witness: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.takeover", "--worker", url, str(lease_s), str(witness)]
    )


# ---------------------------------------------------------------- in the processes


def _agent(witness: Path) -> Agent[object, str]:
    return agent_of(Story(turns=[["look"]] * TURNS, pause_s=0.1), World(witness))


async def _submit(url: str, witness: Path) -> None:
    async with Runtime(journal=open_journal(url)) as runtime:
        await runtime.submit(_agent(witness), f"run {RUN}", run_id=RUN, limits=Limits(turns=TURNS))


async def _work(url: str, lease_s: float, witness: Path) -> None:
    agent = _agent(witness)

    async def known(info: RunInfo) -> Agent[object, str]:
        return agent

    async with (
        Runtime(journal=open_journal(url, lease_s=lease_s)) as runtime,
        Worker(runtime, agent_of=known) as worker,
    ):
        await worker.work()


if __name__ == "__main__":
    sys.exit(main())
