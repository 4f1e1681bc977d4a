"""Compare the SQLite journal with plain sqlite3 in the same run, and print a table.

    python benchmarks/journal.py [--reps N] [--keep DIR]

A missed limit is printed, not raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio

from treadle import Agent, Runtime
from treadle.journal.entries import (
    Compaction,
    Entry,
    ModelRequested,
    ModelResponded,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from treadle.journal.journal import Journal
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.window import window
from treadle.messages.message import Message, TextPart, ToolCall, ToolResult
from treadle.testing import ScriptedModel
from treadle.types import Effect, Outcome, StopReason, Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)
KEY = bytes(range(32))
APPENDS = 3000
RUNS = 16
LISTED = 10_000
TURNS = 400
TALKS = 2_000
ENSURED = 1_000
USED = Usage(input_tokens=1200, output_tokens=80)


@dataclass
class Row:
    """One line of the table."""

    what: str
    unit: str
    must: float
    measure: Callable[[Path], Awaitable[float]]
    more_is_better: bool = False
    values: list[float] = field(default_factory=list[float])

    @property
    def verdict(self) -> str:
        """Judge a row by its median."""
        reached = statistics.median(self.values)
        kept = reached >= self.must if self.more_is_better else reached <= self.must
        return "-" if not self.must else "must" if kept else "missed"


# ---------------------------------------------------------------- what is appended


def started(run_id: str, session_id: str | None = None) -> RunStarted:
    prompt = Message(
        id=f"msg_{run_id}",
        role="user",
        parts=(TextPart(text="Where is it warm in winter?"),),
        created_at=AT,
    )
    return RunStarted(
        at=AT,
        run_id=run_id,
        agent="guide",
        agent_hash="0" * 16,
        model="script:m",
        mode="full",
        cwd="/tmp",
        input=prompt,
        session_id=session_id,
    )


def asked(turn: int, effect: Effect = "pure") -> list[Entry]:
    """Return the first append of a turn: the response, and the start of its call."""
    call = ToolCall(
        id=f"call_{turn:05}", name="weather", arguments_json='{"city": "Lisbon", "days": 3}'
    )
    message = Message(
        id=f"msg_{turn:05}",
        role="assistant",
        parts=(TextPart(text="I look it up."), call),
        created_at=AT,
    )
    return [
        ModelResponded(
            at=AT,
            turn=turn,
            attempt=1,
            message=message,
            usage=USED,
            stop_reason=StopReason.TOOL_USE,
        ),
        ToolStarted(
            at=AT,
            call_id=call.id,
            name=call.name,
            arguments_json=call.arguments_json,
            effect=effect,
            key=f"run:{call.id}",
        ),
    ]


def answered(turn: int) -> list[Entry]:
    """Return the second append of a turn: a result of 200 bytes, and the next request."""
    result = ToolResult(call_id=f"call_{turn:05}", name="weather", content="sunny, " * 28 + "warm")
    return [
        ToolFinished(at=AT, status="ok", result=result, duration_ms=1.5),
        ModelRequested(at=AT, turn=turn + 1),
    ]


FINISHED = RunFinished(
    at=AT, outcome=Outcome.COMPLETED, turns=1, tool_calls=0, usage=USED, duration_s=0.5
)


def appends(count: int, effect: Effect = "pure") -> list[list[Entry]]:
    return [answered(n // 2) if n % 2 else asked(n // 2, effect) for n in range(count)]


# ---------------------------------------------------------------- the rows


async def plain(folder: Path, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the milliseconds that the standard library's sqlite3 takes for the same bytes, in the
    calling thread.
    """
    db = sqlite3.connect(folder / "plain.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = normal")
    db.execute("create table runs(num integer primary key, fence integer, head integer)")
    db.execute(
        "create table entries(run integer, seq integer, type text, call text, body blob, primary key(run, seq)) without rowid"
    )
    db.execute("create unique index one_result on entries(run, call) where type = 'tool.finished'")
    db.execute("insert into runs values(1, 1, 0)")
    prepared = [[entry.to_json() for entry in entries] for entries in appends(APPENDS)]
    begun = clock()
    head = 0
    for bodies in prepared:
        db.execute("begin immediate")
        db.execute(
            "update runs set head = head + ? where num = 1 and fence = 1 and head = ?",
            (len(bodies), head),
        )
        db.executemany(
            "insert into entries values(1, ?, 'x', null, ?)",
            [(head + n, body) for n, body in enumerate(bodies, 1)],
        )
        db.execute("commit")
        head += len(bodies)
    took = clock() - begun
    db.close()
    return took / APPENDS * 1000


async def plain_cpu(folder: Path) -> float:
    return await plain(folder, time.process_time)


async def alone(
    folder: Path,
    effect: Effect = "pure",
    clock: Callable[[], float] = time.perf_counter,
    keys: Sequence[bytes] = (),
) -> float:
    journal = SqliteJournal.open(folder / "journal.db", keys=keys)
    writer = await journal.begin(started("run_1"))
    prepared = appends(APPENDS, effect)
    begun = clock()
    for entries in prepared:
        await writer.append(entries)
    took = clock() - begun
    await journal.aclose()
    return took / APPENDS * 1000


async def alone_cpu(folder: Path) -> float:
    return await alone(folder, clock=time.process_time)


async def alone_once(folder: Path) -> float:
    return await alone(folder, "once")


async def alone_encrypted(folder: Path) -> float:
    return await alone(folder, keys=[KEY])


async def alone_encrypted_cpu(folder: Path) -> float:
    return await alone(folder, clock=time.process_time, keys=[KEY])


async def together(folder: Path) -> float:
    """Return the appends per second of 16 runs in one event loop."""
    journal = SqliteJournal.open(folder / "journal.db")
    prepared = appends(APPENDS // 2)

    async def drive(run_id: str) -> None:
        writer = await journal.begin(started(run_id))
        for entries in prepared:
            await writer.append(entries)

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for n in range(RUNS):
            group.start_soon(drive, f"run_{n}")
    took = time.perf_counter() - begun
    await journal.aclose()
    return RUNS * len(prepared) / took


async def listing(folder: Path) -> float:
    """Return the milliseconds to list the newest 20 of 10,000 runs, including opening the file."""
    path = folder / "journal.db"
    await _fill(path)
    begun = time.perf_counter()
    journal: Journal = SqliteJournal.open(path)
    assert len(await journal.runs(limit=20)) == 20
    took = time.perf_counter() - begun
    await journal.aclose()
    return took * 1000


async def _fill(path: Path) -> None:
    journal = SqliteJournal.open(path)

    async def some(first: int) -> None:
        for n in range(first, LISTED, 100):
            writer = await journal.begin(started(f"run_{n:05}", f"session_{n % 500}_{n}"))
            await writer.append([*asked(1), *answered(1), FINISHED])

    async with anyio.create_task_group() as group:
        for first in range(100):
            group.start_soon(some, first)
    await journal.aclose()


async def loading(folder: Path, keys: Sequence[bytes] = ()) -> float:
    """Return the milliseconds to load a run of 1,000 turns, including opening the file and the
    takeover.
    """
    path = folder / "journal.db"
    first = SqliteJournal.open(path, keys=keys)
    writer = await first.begin(started("run_1"))
    for entries in appends(2000):
        await writer.append(entries)
    await first.aclose()
    begun = time.perf_counter()
    journal = SqliteJournal.open(path, keys=keys)
    await journal.take_over("run_1")
    state = await journal.load("run_1")
    took = time.perf_counter() - begun
    assert len(state.context.history) == 2001
    await journal.aclose()
    return took * 1000


async def loading_encrypted(folder: Path) -> float:
    return await loading(folder, [KEY])


async def conversation(folder: Path) -> float:
    """Return the milliseconds to load the messages in view of a session of 2,000 runs, including
    opening the file.
    """
    path = folder / "journal.db"
    first = SqliteJournal.open(path)
    seen: list[Message] = []
    for n in range(TALKS):
        begun = started(f"run_{n}", "session_1")
        said = Message(
            id=f"msg_answer_{n}",
            role="assistant",
            parts=(TextPart(text="In Lisbon. " * 20),),
            created_at=AT,
        )
        entries: list[Entry] = [
            ModelResponded(
                at=AT, turn=1, attempt=1, message=said, usage=USED, stop_reason=StopReason.COMPLETE
            ),
            FINISHED,
        ]
        if (kept := window(seen)) is not None:
            entries.insert(0, Compaction(at=AT, receipt=kept.to_json().decode()))
            seen = kept.of(seen)
        seen += [begun.input, said]
        await (await first.begin(begun)).append(entries)
    await first.aclose()
    clock = time.perf_counter()
    journal = SqliteJournal.open(path)
    assert list(journal.sessions.get_messages("session_1")) == seen
    took = time.perf_counter() - clock
    await journal.aclose()
    return took * 1000


async def size(folder: Path) -> float:
    """Return the largest size in MB that a run of 400 turns has while it runs, in all its files."""
    journal = SqliteJournal.open(folder / "journal.db")
    writer = await journal.begin(started("run_1", "session_1"))
    most = 0
    for entries in appends(2 * TURNS):
        await writer.append(entries)
        most = max(most, _bytes(folder))
    await writer.append([FINISHED])
    await journal.aclose()
    return max(most, _bytes(folder)) / 1e6


async def size_closed(folder: Path) -> float:
    await size(folder)
    return _bytes(folder) / 1e6


async def ensured(folder: Path, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the milliseconds of `ensure` of a finished run."""
    agent = Agent(name="guide", model=ScriptedModel([{"text": "In Lisbon."}]))
    async with Runtime.open(f"sqlite:///{folder / 'journal.db'}") as runtime:
        await runtime.ensure(agent, "go", run_id="order-7")
        begun = clock()
        for _ in range(ENSURED):
            await runtime.ensure(agent, "go", run_id="order-7")
        return (clock() - begun) / ENSURED * 1000


async def ensured_cpu(folder: Path) -> float:
    return await ensured(folder, time.process_time)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ROWS = [
    Row("one append, plain sqlite3, no thread", "ms", 0, plain),
    Row("one append, one run", "ms", 0.15, alone),
    Row("one append, plain sqlite3, CPU", "ms", 0, plain_cpu),
    Row("one append, one run, CPU", "ms", 0, alone_cpu),
    Row(
        "one append, one run, every call once (half of the appends are synced)", "ms", 0, alone_once
    ),
    Row(f"appends of {RUNS} runs", "a second", 8000, together, more_is_better=True),
    Row(f"the newest 20 of {LISTED:,} runs", "ms", 50, listing),
    Row("a run of 1,000 turns, taken over and loaded", "ms", 200, loading),
    Row(f"what is in view of a session of {TALKS:,} runs", "ms", 0, conversation),
    Row(f"a run of {TURNS} turns with results of 200 bytes, while it runs", "MB", 2, size),
    Row("the same, closed", "MB", 2, size_closed),
    Row("`ensure` of a finished run", "ms", 1, ensured),
    Row("the same, CPU", "ms", 1, ensured_cpu),
    Row("one append, one run, encrypted", "ms", 0, alone_encrypted),
    Row("one append, one run, encrypted, CPU", "ms", 0, alone_encrypted_cpu),
    Row("a run of 1,000 turns, encrypted, taken over and loaded", "ms", 0, loading_encrypted),
]


def table(rows: list[Row]) -> str:
    """Return a Markdown table of medians, with the best of all repetitions in brackets: the figure
    of a quiet machine.
    """
    lines = ["| | reached | must | |", "|---|---|---|---|"]
    for row in rows:
        best = (max if row.more_is_better else min)(row.values)
        must = f"{_number(row.must)} {row.unit}" if row.must else ""
        lines.append(
            f"| {row.what} | {_number(statistics.median(row.values))} ({_number(best)}) {row.unit} | {must} | {row.verdict} |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 20 else f"{value:.3f}".rstrip("0").rstrip(".")


def main() -> None:
    options = argparse.ArgumentParser(
        description="Measures the SQLite journal, and prints a table."
    )
    options.add_argument(
        "--reps", type=int, default=5, help="how often each is measured (default 5)"
    )
    options.add_argument("--only", type=int, action="append", help="this row, from 1; repeatable")
    options.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="where to write (default: a temporary directory beside this file)",
    )
    chosen = options.parse_args()
    rows = [row for n, row in enumerate(ROWS, 1) if not chosen.only or n in chosen.only]
    for _ in range(chosen.reps):
        for row in rows:
            print(f"{row.what} …", file=sys.stderr, flush=True)
            folder = Path(tempfile.mkdtemp(dir=chosen.folder or Path(__file__).parent))
            try:
                row.values.append(asyncio.run(row.measure(folder)))
            finally:
                shutil.rmtree(folder)
    print(table(rows))


if __name__ == "__main__":
    main()
