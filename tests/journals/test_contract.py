"""What every journal keeps, wherever it keeps it: one suite over all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import anyio
import pytest

from tests.strategies import examples_of
from treadle.entries import CancelAsked, Entry, ModelSwitched, RunFinished, RunStarted, ToolFinished, ToolStarted
from treadle.errors import AgentError
from treadle.journal import Journal
from treadle.journals.memory import MemoryJournal
from treadle.journals.sqlite import SqliteJournal
from treadle.message import Message, decode_message
from treadle.types import Outcome, Usage

AT = datetime(2026, 11, 20, 10, tzinfo=UTC)


def _nasty() -> list[Entry]:
    found: list[Entry] = []
    seen: set[object] = set()
    for kind in get_args(Entry):
        for entry in examples_of(kind, 8):
            key = (
                (kind, entry.result.call_id)
                if isinstance(entry, ToolFinished)
                else (kind, entry.call_id, entry.attempt)
                if isinstance(entry, ToolStarted)
                else entry.to_json()
            )
            if not isinstance(entry, (RunStarted, RunFinished)) and key not in seen:
                seen.add(key)
                found.append(entry)
    return found


NASTY = _nasty()
"""Some entries of every kind that may stand inside a run, with what is hard to store; no call has two results, or starts twice."""


@dataclass(frozen=True)
class Kind:
    """A journal: how it is opened on a folder, and whether what it keeps outlives it."""

    open: Callable[[Path], Awaitable[Journal]]
    durable: bool


async def _memory(folder: Path) -> Journal:
    return MemoryJournal()


async def _sqlite(folder: Path) -> Journal:
    return SqliteJournal.open(folder / "journal.db")


KINDS = {"memory": Kind(_memory, durable=False), "sqlite": Kind(_sqlite, durable=True)}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
async def journal(kind: Kind, tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await kind.open(tmp_path)
    yield opened
    await opened.aclose()


def started(run_id: str = "run_1", *, minute: int = 0) -> RunStarted:
    at = AT + timedelta(minutes=minute)
    prompt = Message(id=f"msg_{run_id}", role="user", parts=(), created_at=at)
    return RunStarted(at=at, run_id=run_id, agent="a", agent_hash="h", model="m", mode="full", cwd="/", input=prompt)


def fact(word: str) -> ModelSwitched:
    return ModelSwitched(at=AT, model=word)


FINISHED = RunFinished(at=AT, outcome=Outcome.COMPLETED, turns=1, tool_calls=0, usage=Usage(), duration_s=0.5)


async def entries_of(journal: Journal, run_id: str = "run_1", *, after: int = 0) -> list[Entry]:
    return [record.entry for record in await journal.read(run_id, after=after)]


@contextlib.contextmanager
def refuses(kind: str, match: str = "run_1") -> Iterator[None]:
    with pytest.raises(AgentError, match=match) as caught:
        yield
    assert caught.value.kind == kind


# ---------------------------------------------------------------- what is appended


async def test_a_run_begins_with_what_started_it(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert writer.run_id == "run_1"
    (record,) = await journal.read("run_1")
    assert (record.seq, record.entry) == (1, started())


async def test_entries_stand_in_order_without_gaps(journal: Journal) -> None:
    writer = await journal.begin(started())
    assert await writer.append([fact("a"), fact("b")]) == 2
    assert await writer.append([fact("c")]) == 4
    assert await writer.append([FINISHED]) == 5
    records = await journal.read("run_1")
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert [record.entry for record in records] == [started(), fact("a"), fact("b"), fact("c"), FINISHED]


async def test_every_kind_of_entry_is_read_as_it_was_written(journal: Journal) -> None:
    writer = await journal.begin(started())
    for first in range(0, len(NASTY), 7):
        await writer.append(NASTY[first : first + 7])
    assert await entries_of(journal, after=1) == NASTY


async def test_what_a_newer_version_wrote_into_a_message_is_still_there(journal: Journal) -> None:
    stored = b'{"id":"m", "role":"user","parts":[{"type":"hologram","x":1e400}],"created_at":"2026-11-20T10:00:00Z","mood":1.50}'
    begun = RunStarted(at=AT, run_id="run_1", agent="a", agent_hash="h", model="m", mode="full", cwd="/", input=decode_message(stored))
    writer = await journal.begin(begun)
    await writer.append([FINISHED])
    await writer.release()
    (read, _) = await entries_of(journal)
    assert isinstance(read, RunStarted)
    assert read.input.to_json() == stored


async def test_an_ended_run_reads_as_it_did_before_it_was_let_go(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([*NASTY, FINISHED])
    before = await journal.read("run_1")
    await writer.release()
    assert await journal.read("run_1") == before
    assert await journal.read("run_1", after=len(NASTY)) == before[len(NASTY) :]


async def test_an_append_that_is_cancelled_leaves_all_or_nothing(journal: Journal) -> None:
    writer = await journal.begin(started())
    returned = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.append([fact("a"), fact("b")])
        returned = True
    left = await entries_of(journal, after=1)
    assert left == [fact("a"), fact("b")] or (left == [] and not returned)
    assert await writer.append([fact("c")]) == 2 + len(left)


async def test_what_was_read_is_the_readers_own(journal: Journal) -> None:
    writer = await journal.begin(started())
    records = await journal.read("run_1")
    await writer.append([fact("a")])
    assert len(records) == 1
    records.clear()
    assert len(await journal.read("run_1")) == 2


async def test_many_runs_are_appended_to_at_once(journal: Journal) -> None:
    async def drive(run_id: str) -> None:
        writer = await journal.begin(started(run_id))
        for n in range(5):
            await writer.append([fact(f"{run_id} {n} a"), fact(f"{run_id} {n} b")])
        await writer.append([FINISHED])
        await writer.release()

    names = [f"run_{n}" for n in range(20)]
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(drive, name)
    for name in names:
        records = await journal.read(name)
        assert [record.seq for record in records] == list(range(1, 13))
        assert [record.entry for record in records[1:-1]] == [fact(f"{name} {n} {half}") for n in range(5) for half in "ab"]


# ---------------------------------------------------------------- one driver at a time


async def test_a_run_that_exists_cannot_begin_again(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("busy"):
        await journal.begin(started())
    await writer.append([FINISHED])
    await writer.release()
    with refuses("busy"):
        await journal.begin(started())
    assert await entries_of(journal) == [started(), FINISHED]


async def test_a_run_that_is_driven_cannot_be_taken_over(journal: Journal) -> None:
    writer = await journal.begin(started())
    with refuses("busy"):
        await journal.take_over("run_1")
    assert await writer.append([fact("a")]) == 2


async def test_who_takes_a_run_over_goes_on_where_it_was_left(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.append([fact("a")])
    await first.release()
    second = await journal.take_over("run_1")
    assert second.run_id == "run_1"
    assert await second.append([fact("b")]) == 3
    with refuses("busy"):
        await journal.take_over("run_1")
    await second.release()
    third = await journal.take_over("run_1")
    assert await third.append([FINISHED]) == 4
    assert await entries_of(journal) == [started(), fact("a"), fact("b"), FINISHED]


async def test_the_driver_before_is_fenced_off(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.release()
    second = await journal.take_over("run_1")
    with refuses("busy"):
        await first.append([fact("too late"), FINISHED])
    assert await second.append([fact("b")]) == 2
    assert await entries_of(journal) == [started(), fact("b")]


async def test_who_let_go_of_a_run_cannot_append_to_it(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    await writer.release()
    with refuses("busy"):
        await writer.append([fact("too late")])
    assert await entries_of(journal, after=1) == [fact("a")]


async def test_a_fenced_driver_cannot_let_go_of_anothers_run(journal: Journal) -> None:
    first = await journal.begin(started())
    await first.release()
    await journal.take_over("run_1")
    await first.release()
    with refuses("busy"):
        await journal.take_over("run_1")


async def test_letting_go_twice_is_letting_go_once(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([FINISHED])
    for _ in range(3):
        await writer.release()
    assert await entries_of(journal) == [started(), FINISHED]


async def test_an_ended_run_is_over(journal: Journal) -> None:
    writer = await journal.begin(started())
    await writer.append([FINISHED])
    await writer.release()
    with refuses("busy"):
        await writer.append([fact("too late")])
    with refuses("invalid", "run_1.*finished"):
        await journal.take_over("run_1")


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize(("after", "left"), [(-5, 4), (0, 4), (1, 3), (3, 1), (4, 0), (99, 0)])
async def test_reading_on_gives_what_came_after(journal: Journal, after: int, left: int) -> None:
    writer = await journal.begin(started())
    await writer.append([fact("a"), fact("b"), CancelAsked(at=AT, by="user")])
    records = await journal.read("run_1", after=after)
    assert [record.seq for record in records] == list(range(5 - left, 5))


async def test_an_unknown_run_is_refused_by_name(journal: Journal) -> None:
    with refuses("invalid", "'run_x'"):
        await journal.read("run_x")
    with refuses("invalid", "'run_x'"):
        await journal.take_over("run_x")


async def test_runs_are_listed_newest_first(journal: Journal) -> None:
    assert await journal.runs() == []
    for minute, name in enumerate("abc"):
        writer = await journal.begin(started(name, minute=minute))
        if name != "b":
            await writer.append([FINISHED])
            await writer.release()
    assert [run.run_id for run in await journal.runs()] == ["c", "b", "a"]


async def test_closing_twice_is_closing_once(kind: Kind, tmp_path: Path) -> None:
    opened = await kind.open(tmp_path)
    await opened.begin(started())
    await opened.aclose()
    await opened.aclose()


async def test_what_is_durable_is_there_after_closing(kind: Kind, tmp_path: Path) -> None:
    first = await kind.open(tmp_path)
    writer = await first.begin(started())
    await writer.append([fact("a")])
    await writer.release()
    await first.aclose()
    second = await kind.open(tmp_path)
    try:
        if kind.durable:
            assert await entries_of(second) == [started(), fact("a")]
            assert await (await second.take_over("run_1")).append([fact("b")]) == 3
        else:
            assert await second.runs() == []
    finally:
        await second.aclose()
