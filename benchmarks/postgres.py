"""Measure the PostgreSQL journal on its own server, which syncs every commit and shares the machine
with its client. Prints a table.

    python -m benchmarks.postgres [--reps N]

A missed limit is printed, not raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from benchmarks.journal import FINISHED, answered, asked, started
from tests.crash.postgres import ChaosServer

from treadle.journal.journal import Journal, RunWriter
from treadle.journal.notifier import run_topic
from treadle.journal.postgres import PostgresJournal

RUNS = 32
APPENDS = 6400
ALONE = 500
TURNS = 1000
LISTED = 10_000


@dataclass
class Row:
    """One line of the table."""

    what: str
    unit: str
    must: float
    measure: Callable[[str], Awaitable[float]]
    more_is_better: bool = False
    values: list[float] = field(default_factory=list[float])

    @property
    def verdict(self) -> str:
        """Judge a row by its median."""
        reached = statistics.median(self.values)
        kept = reached >= self.must if self.more_is_better else reached <= self.must
        return "-" if not self.must else "must" if kept else "missed"


# ---------------------------------------------------------------- what is appended


async def one_append(url: str) -> float:
    """Return the median milliseconds of one append of one run, without other load."""
    journal = PostgresJournal.open(url)
    writer = await journal.begin(started("run_alone"))
    took: list[float] = []
    for turn in range(ALONE):
        begun = time.perf_counter()
        await writer.append(answered(turn) if turn % 2 else asked(turn))
        took.append(time.perf_counter() - begun)
    await journal.aclose()
    return statistics.median(took) * 1e3


async def many_runs(url: str) -> float:
    """Return the appends per second of 32 runs in one process."""
    journal = PostgresJournal.open(url)
    rate = await _driven(journal)
    await journal.aclose()
    return rate


async def many_runs_followed(url: str) -> float:
    """Return the same while another process over the journal follows every run."""
    journal, other = PostgresJournal.open(url), PostgresJournal.open(url)
    heard = 0

    async def listen() -> None:
        nonlocal heard
        async with other.notifier.listen(*(run_topic(f"run_{n}") for n in range(RUNS))) as ear:
            while True:
                await ear.wait()
                heard += 1

    rate = 0.0
    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        rate = await _driven(journal)
        group.cancel_scope.cancel()
    print(f"  (the listener was woken {heard} times)")
    for one in (journal, other):
        await one.aclose()
    return rate


async def _driven(journal: Journal) -> float:
    writers = [await journal.begin(started(f"run_{n}")) for n in range(RUNS)]

    async def drive(writer: RunWriter) -> None:
        for turn in range(APPENDS // RUNS // 2):
            await writer.append(asked(turn))
            await writer.append(answered(turn))

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for writer in writers:
            group.start_soon(drive, writer)
    return APPENDS / (time.perf_counter() - begun)


# ---------------------------------------------------------------- what is read


async def a_long_run(url: str) -> float:
    """Return the milliseconds to load a run of 1,000 turns."""
    journal = PostgresJournal.open(url)
    writer = await journal.begin(started("run_long"))
    for turn in range(TURNS):
        await writer.append([*asked(turn), *answered(turn)])
    begun = time.perf_counter()
    await journal.load("run_long")
    took = time.perf_counter() - begun
    await journal.aclose()
    return took * 1e3


async def a_list(url: str) -> float:
    """Return the milliseconds to list the newest 20 of 10,000 runs."""
    journal = PostgresJournal.open(url)

    async def make(numbers: range) -> None:
        for number in numbers:
            writer = await journal.begin(started(f"run_{number}"))
            await writer.append([*asked(1), *answered(1), FINISHED])

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for part in range(16):
            group.start_soon(make, range(part, LISTED, 16))
    print(
        f"  ({LISTED / (time.perf_counter() - begun):,.0f} whole runs a second while they were made)"
    )
    await journal.runs(limit=20)
    begun = time.perf_counter()
    assert len(await journal.runs(limit=20)) == 20
    took = time.perf_counter() - begun
    await journal.aclose()
    return took * 1e3


ROWS = (
    Row("one append of one run", "ms", 0, one_append),
    Row(f"appends of {RUNS} runs", "1/s", 2000, many_runs, more_is_better=True),
    Row("the same, followed", "1/s", 2000, many_runs_followed, more_is_better=True),
    Row(f"a run of {TURNS} turns loaded", "ms", 0, a_long_run),
    Row(f"newest 20 of {LISTED} runs", "ms", 0, a_list),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=3)
    reps = parser.parse_args().reps
    with ChaosServer() as server:
        for row in ROWS:
            for _ in range(1 if row.measure is a_list else reps):
                url = server.journal()
                row.values.append(anyio.run(row.measure, url))
                server.drop(url)
    print(f"{'':34}{'median':>10}{'least':>10}{'most':>10}{'must':>8}")
    for row in ROWS:
        numbers = "".join(
            f"{value:10,.2f}"
            for value in (statistics.median(row.values), min(row.values), max(row.values))
        )
        print(f"{row.what:34}{numbers}{row.must or '':>8} {row.unit} {row.verdict}")


if __name__ == "__main__":
    main()
