"""One thread writes, and puts together what many hand in at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import apsw
import pytest

from tests.journal.runs import begun, entries_of, fact, finished, gives, started
from treadle.errors import AgentError
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite import writer as writing
from treadle.journal.sqlite.writes import TOGETHER_MAX


@pytest.fixture
def boundaries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that passed one."""
    passed: list[str] = []
    monkeypatch.setattr(writing, "boundary", lambda: passed.append(threading.current_thread().name))
    return passed


async def test_what_many_runs_append_at_once_is_one_transaction(
    path: Path, boundaries: list[str]
) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(30)]
    boundaries.clear()
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")  # the first of them waits, and the others gather behind it
    async with anyio.create_task_group() as group:
        for writer in writers:
            group.start_soon(writer.append, [fact("a"), fact("b")])
        await anyio.lowlevel.checkpoint()
        blocker.execute("commit")
    blocker.close()
    assert len(boundaries) <= 6
    for n in range(30):
        assert await entries_of(journal, f"run_{n}", after=1) == [fact("a"), fact("b")]
    await journal.aclose()


async def test_more_than_one_transaction_should_hold_are_several(
    path: Path, boundaries: list[str]
) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    count = 2 * TOGETHER_MAX + 10
    boundaries.clear()
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for n in range(count):
                group.start_soon(writer.append, [fact(str(n))])
            await anyio.lowlevel.checkpoint()
            blocker.execute("commit")
    blocker.close()
    assert 3 <= len(boundaries) // 2 <= 5
    assert await entries_of(journal, after=1) == [fact(str(n)) for n in range(count)]
    await journal.aclose()


async def test_a_journal_is_read_and_closed_although_tools_keep_every_thread(path: Path) -> None:
    journal = SqliteJournal.open(path)
    await journal.begin(started())
    limiter = anyio.to_thread.current_default_thread_limiter()
    tools = range(int(limiter.total_tokens))
    for one in tools:
        limiter.acquire_on_behalf_of_nowait(one)
    try:
        with anyio.fail_after(20):
            assert [run.run_id for run in await journal.runs()] == ["run_1"]
            await journal.aclose()
    finally:
        for one in tools:
            limiter.release_on_behalf_of(one)


async def test_a_journal_is_closed_also_by_who_is_being_cancelled(path: Path) -> None:
    journal = SqliteJournal.open(path)
    await journal.begin(started())
    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.aclose()
    assert list(path.with_name("journal.db-workers").iterdir()) == []
    with pytest.raises(AgentError, match="is closed"):
        await journal.runs()


async def test_a_cancellation_that_an_append_held_back_comes_once_and_then_is_over(
    path: Path,
) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")
    came: list[object] = []

    async def append() -> None:
        task = asyncio.current_task()
        assert task is not None
        came.append(task)
        came.append(await writer.append([fact("a")]))
        try:
            await anyio.lowlevel.checkpoint()
        except asyncio.CancelledError:
            came.append("cancelled")
        await anyio.lowlevel.checkpoint()
        came.append("went on")
        task.uncancel()

    # without a deadline around it: one would hide that the cancellation is not handed on
    async with anyio.create_task_group() as group:
        group.start_soon(append)
        await anyio.lowlevel.checkpoint()
        task = came[0]
        assert isinstance(task, asyncio.Task)
        task.cancel()
        await anyio.lowlevel.checkpoint()
        blocker.execute("commit")
    blocker.close()
    assert came[1:] == [2, "cancelled", "went on"]
    await journal.aclose()


async def test_one_that_is_refused_leaves_the_others_of_its_transaction(path: Path) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(9)]
    for writer in writers:
        await writer.append([begun("c"), gives("c")])
    refused: list[int] = []
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")

    async def append(number: int) -> None:
        try:
            await writers[number].append([fact("a"), gives("c" if number % 3 == 0 else "d")])
        except AgentError:
            refused.append(number)

    async with anyio.create_task_group() as group:
        for number in range(9):
            group.start_soon(append, number)
        await anyio.lowlevel.checkpoint()
        blocker.execute("commit")
    blocker.close()
    assert sorted(refused) == [0, 3, 6]
    for number, writer in enumerate(writers):
        assert await writer.append([finished()]) == (4 if number in refused else 6)
    await journal.aclose()


async def test_appends_of_one_run_keep_their_order(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    firsts: dict[int, int] = {}  # whose turn it is to wake up first is not for the journal to say

    async def append(number: int) -> None:
        firsts[number] = await writer.append([fact(f"{number}"), fact(f"{number} again")])

    async with anyio.create_task_group() as group:
        for n in range(300):
            group.start_soon(append, n)
    assert firsts == dict(enumerate(range(2, 602, 2)))
    assert await entries_of(journal, after=1) == [
        fact(word) for n in range(300) for word in (str(n), f"{n} again")
    ]


async def test_a_boundary_is_passed_before_and_after_each_commit_of_entries(
    path: Path, boundaries: list[str]
) -> None:
    journal = SqliteJournal.open(path)
    journal.sessions.create(session_id="ada")
    assert boundaries == []
    writer = await journal.begin(started(session="ada"))
    await writer.append([fact("a"), fact("b")])
    await writer.release()
    writer = await journal.take_over("run_1")
    await writer.append([finished()])
    await journal.aclose()
    assert len(boundaries) == 6


async def test_event_loops_of_several_threads_share_a_journal(path: Path) -> None:
    journal = SqliteJournal.open(path)

    async def drive(name: str) -> None:
        writer = await journal.begin(started(name))
        for n in range(50):
            await writer.append([fact(str(n))])

    async with anyio.create_task_group() as group:
        for name in ("run_1", "run_2", "run_3"):
            group.start_soon(anyio.to_thread.run_sync, anyio.run, drive, name)
        group.start_soon(drive, "run_4")
    for name in ("run_1", "run_2", "run_3", "run_4"):
        assert await entries_of(journal, name, after=1) == [fact(str(n)) for n in range(50)]
    await journal.aclose()


async def test_nobody_overtakes_what_waits(path: Path) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    await writer.append([fact("written at once")])
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")
    firsts: dict[str, int] = {}

    async def append(word: str) -> None:
        firsts[word] = await writer.append([fact(word)])

    async with anyio.create_task_group() as group:
        group.start_soon(append, "waits")
        await anyio.lowlevel.checkpoint()
        blocker.execute("commit")
        group.start_soon(append, "comes after it")
    blocker.close()
    assert firsts == {"waits": 3, "comes after it": 4}
    await journal.aclose()


async def test_a_signal_right_after_the_beginning_of_a_transaction_keeps_nobody_from_writing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, here = SqliteJournal.open(path), list[bool]()
    writer = await journal.begin(started())

    def interrupt(*_: object, begun: bool = False) -> None:
        here.append(begun)
        raise KeyboardInterrupt

    with anyio.fail_after(20):
        while True not in here:  # until the thread lets it write for itself
            await writer.append([fact("a")])
            with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
                patch.setattr(journal._writer, "_commit", interrupt)  # pyright: ignore[reportPrivateUsage]
                patch.setattr(journal._writer, "_hand_in", interrupt)  # pyright: ignore[reportPrivateUsage]
                await writer.append([fact("b")])
    await writer.append([fact("c")])
    assert fact("b") not in await entries_of(journal)
    await journal.aclose()


async def test_who_closes_a_journal_at_once_with_others_waits_for_its_end(path: Path) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(journal.aclose)


@pytest.mark.parametrize("instant", ["before", "after"])
async def test_a_signal_around_the_commit_leaves_the_run_where_the_file_has_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, instant: str
) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    passed: list[int] = []

    def interrupt() -> None:
        passed.append(1)
        if len(passed) == (1 if instant == "before" else 2):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, "boundary", interrupt)
        with pytest.raises(KeyboardInterrupt):
            await writer.append([fact("b")])
    stored = [fact("a")] if instant == "before" else [fact("a"), fact("b")]
    assert await entries_of(journal, after=1) == stored
    assert await writer.append([fact("c")]) == len(stored) + 2
    await journal.aclose()


async def test_a_loop_that_is_closed_meanwhile_stops_nobody(path: Path) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    heard: list[str] = []
    journal.on_stop(heard.append)

    async def begin() -> None:
        await journal.begin(started("gone"))

    await anyio.to_thread.run_sync(anyio.run, begin)
    assert not await journal.ask_to_stop("gone")
    writer = await journal.begin(started())
    assert await writer.append([fact("a")]) == 2
    assert heard == []
    await journal.aclose()


async def test_a_reader_sees_the_file_as_it_was_when_it_began(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())
    with journal._readers.snapshot() as db:  # pyright: ignore[reportPrivateUsage]  the one who is reading
        before = db.execute("select count(*) from entries").get
        await writer.append([fact("a")])
        assert db.execute("select count(*) from entries").get == before == 1
    assert len(await journal.read("run_1")) == 2


async def test_the_log_stays_short_while_a_run_goes_on(path: Path) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    longest = 0
    for n in range(800):
        await writer.append([gives(f"call_{n}", "x" * 200)])
        longest = max(
            longest, sum(one.stat().st_size for one in path.parent.iterdir() if one.is_file())
        )
    assert longest < 2_000_000
    await journal.aclose()


class Interrupted:
    """A cursor whose thread gets a signal right after a statement has run."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def execute(self, sql: str) -> None:
        self._db.execute(sql)
        raise KeyboardInterrupt


async def test_an_interrupt_while_durability_changes_never_leaves_a_once_start_unsynced(
    path: Path,
) -> None:
    journal = SqliteJournal.open(path)
    writer = journal._writer  # pyright: ignore[reportPrivateUsage]
    db = writer._db  # pyright: ignore[reportPrivateUsage]
    writer._be_durable(db.cursor(), full=True)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(KeyboardInterrupt):
        writer._be_durable(Interrupted(db), full=False)  # pyright: ignore[reportPrivateUsage, reportArgumentType]
    writer._be_durable(db.cursor(), full=True)  # pyright: ignore[reportPrivateUsage]
    assert db.pragma("synchronous") == 2  # FULL
    await journal.aclose()
