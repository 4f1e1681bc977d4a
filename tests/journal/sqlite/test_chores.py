"""What the thread that writes does beside it: it folds the log, fills the index, hears wishes to
stop, gives space back.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import apsw
import pytest

from tests.journal.runs import at, begun, fact, finished, gives, message, refuses, says, started
from tests.journal.sqlite.conftest import Look
from tests.journal.sqlite.failing_disk import FailingDisk
from treadle.errors import AgentError
from treadle.journal.entries import Fork
from treadle.journal.journal import RunWriter
from treadle.journal.sqlite import SqliteJournal, log
from treadle.journal.sqlite import journal as journals
from treadle.journal.sqlite import writer as writing
from treadle.journal.tables import journal as tables
from treadle.journal.tables.database import Cursor

PAGE = "x" * 3_500
"""A text that needs a page of its own."""


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not holds():
            await anyio.lowlevel.checkpoint()


# ---------------------------------------------------------------- the log


async def test_the_log_is_moved_into_the_file_when_nobody_writes(
    journal: SqliteJournal, path: Path
) -> None:
    writer = await journal.begin(started())
    await writer.append([gives(f"call_{n}", PAGE) for n in range(60)])
    await until(lambda: path.stat().st_size > 60 * 4096)


async def test_a_short_log_waits_for_more(journal: SqliteJournal, path: Path) -> None:
    other, heard = SqliteJournal.open(path), list[str]()
    journal.on_stop(heard.append)

    async def idle(times: int) -> None:
        """So often the thread has nothing else to do, and does its chores."""
        for _ in range(times):
            heard.clear()
            assert await other.ask_to_stop("run_1")
            await until(lambda: bool(heard))

    writer = await journal.begin(started())
    await writer.append([gives(f"call_{n}", PAGE) for n in range(60)])
    await until(lambda: path.stat().st_size > 60 * 4096)
    folded = b""
    while folded != path.read_bytes():  # the rest of the log, and of the index
        folded = path.read_bytes()
        await idle(3)
    await writer.append([fact("a little")])
    await idle(3)
    assert path.read_bytes() == folded
    await other.aclose()
    await journal.aclose()
    assert path.read_bytes() != folded


@pytest.fixture
def never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(writing, "IDLE_S", 60)


async def until_folded(writer: RunWriter, path: Path, first: int) -> int:
    """The number of the append after which the file had grown."""
    size, number = path.stat().st_size, first
    with anyio.fail_after(20):
        while path.stat().st_size == size:
            number += 1
            await writer.append([gives(f"call_{number}", PAGE)])
    return number


@pytest.mark.usefixtures("never_idle")
@pytest.mark.parametrize("drivers", [1, writing.FEW + 1])
async def test_while_runs_go_on_a_long_log_is_moved_before_the_next_write(
    path: Path, drivers: int
) -> None:
    journal = SqliteJournal.open(path)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(drivers)]
    assert 5 < await until_folded(writers[0], path, 0) < log.PAGES_MIN
    assert path.with_name("journal.db-wal").stat().st_size < 2 * log.PAGES_MIN * 4096
    await journal.aclose()


@pytest.mark.usefixtures("never_idle")
async def test_the_log_may_be_as_long_as_the_file(path: Path) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    for n in range(10):
        await writer.append([gives(f"old_{n}_{m}", PAGE) for m in range(60)])
    await journal.aclose()
    large = path.stat().st_size
    assert large > 600 * 4096
    journal = SqliteJournal.open(path)
    writer = await journal.take_over("run_1")
    # at the first time it is short, until the file was looked at
    await writer.append([gives(f"call_{n}", PAGE) for n in range(140)])
    await until(lambda: path.stat().st_size > large)
    await writer.append([fact("all of it is in the file by now")])
    assert 80 < await until_folded(writer, path, 140) - 140 < log.PAGES_MAX
    await journal.aclose()


# ---------------------------------------------------------------- who writes


@pytest.fixture
def boundaries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that passed one."""
    passed: list[str] = []
    monkeypatch.setattr(writing, "boundary", lambda: passed.append(threading.current_thread().name))
    return passed


async def test_a_few_drivers_write_for_themselves_and_many_together(
    path: Path, boundaries: list[str]
) -> None:
    journal = SqliteJournal.open(path)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(writing.FEW)]
    boundaries.clear()
    with anyio.fail_after(10):
        # the thread may still be looking after the file
        while set(boundaries[-2:]) != {"MainThread"}:
            await writers[0].append([fact("a")])
    writers.append(await journal.begin(started("one too many")))
    boundaries.clear()
    for n in range(30):
        await writers[n % len(writers)].append([fact("b")])
    assert set(boundaries) == {"treadle-journal"}
    await writers.pop().release()
    with anyio.fail_after(10):
        while set(boundaries[-2:]) != {"MainThread"}:
            await writers[0].append([fact("c")])
    await journal.aclose()


async def test_what_must_not_happen_twice_and_what_came_after_it_keep_their_order(
    journal: SqliteJournal,
) -> None:
    writer = await journal.begin(started())
    for n in range(100):
        firsts: dict[str, int] = {}

        async def append(name: str, entry: Awaitable[int], into: dict[str, int]) -> None:
            into[name] = await entry

        async with anyio.create_task_group() as group:
            # waits for the disk
            group.start_soon(append, "begun", writer.append([begun(f"c_{n}")]), firsts)
            # need not, and does all the same
            group.start_soon(append, "fact", writer.append([fact("a")]), firsts)
        assert firsts == {"begun": 2 * n + 2, "fact": 2 * n + 3}


async def test_what_is_done_outside_of_transactions_is_done_once_and_after_what_was_handed_in_with_it(
    path: Path,
) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    done: list[object] = []

    def alone(db: Cursor) -> None:
        done.append(
            (db.execute("select count(*) from entries").get, journal._writer._db.in_transaction)
        )  # pyright: ignore[reportPrivateUsage]

    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(writer.append, [fact("first")])
            await anyio.lowlevel.checkpoint()
            group.start_soon(lambda: journal._writer.write(alone, alone=True))  # pyright: ignore[reportPrivateUsage]
            group.start_soon(writer.append, [fact("second")])
            await anyio.lowlevel.checkpoint()
            blocker.execute("commit")
    blocker.close()
    assert done == [(3, False)]
    await journal.aclose()


async def test_what_breaks_outside_of_transactions_leaves_none_open(journal: SqliteJournal) -> None:
    writer = await journal.begin(started())

    def breaks(db: Cursor) -> None:
        db.execute("begin immediate; delete from runs")
        raise apsw.IOError("in the middle")

    with refuses("agent", "the disk failed"):
        await journal._writer.write(breaks, alone=True)  # pyright: ignore[reportPrivateUsage]
    assert await writer.append([fact("a")]) == 2


async def test_when_the_file_fails_under_one_of_several_none_of_them_is_there(path: Path) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    came: list[object] = []

    async def append(word: str) -> None:
        try:
            came.append(await writer.append([fact(word)]))
        except AgentError as e:
            came.append(e.kind)

    def breaks(db: Cursor) -> None:
        raise apsw.FullError("in the middle")

    async def fail() -> None:
        with refuses("agent", "no space left"):
            await journal._writer.write(breaks)  # pyright: ignore[reportPrivateUsage]

    inside, go = threading.Event(), threading.Event()

    def hold(db: Cursor) -> None:
        inside.set()
        go.wait(20)

    await append("alone")
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")  # so that the thread writes, and not the caller
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(journal._writer.write, hold)  # pyright: ignore[reportPrivateUsage]
            await anyio.lowlevel.checkpoint()
            blocker.execute("commit")
            # the thread is in the middle of a batch, so that what follows is the next one
            await anyio.to_thread.run_sync(inside.wait)
            group.start_soon(append, "before")
            group.start_soon(fail)
            group.start_soon(append, "after")
            await anyio.lowlevel.checkpoint()
            go.set()
    blocker.close()
    assert came == [2, "agent", "agent"]
    assert await writer.append([fact("b")]) == 3
    await journal.aclose()


async def test_who_closes_while_others_close_and_write_waits_for_both(path: Path) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    blocker = apsw.Connection(str(path))
    blocker.execute("begin immediate")
    firsts: list[int] = []

    async def append() -> None:
        firsts.append(await writer.append([fact("a")]))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(append)
            await anyio.lowlevel.checkpoint()
            for _ in range(4):
                group.start_soon(journal.aclose)
            for _ in range(300):  # they begin to wait
                await anyio.lowlevel.checkpoint()
            blocker.execute("commit")
    blocker.close()
    assert firsts == [2]
    again = SqliteJournal.open(path)
    assert len(await again.read("run_1")) == 2
    await again.aclose()


# ---------------------------------------------------------------- the index


async def test_what_ran_is_indexed_by_and_by_without_a_search(path: Path, look: Look) -> None:
    journal = SqliteJournal.open(path)
    count = 3 * journals.INDEXED_AT_ONCE + 1
    for n in range(count):
        await says(journal, f"run_{n}", f"needle {n}", "yes", session="ada")
    # nobody drives anything meanwhile
    await until(lambda: look("select count(*) from runs where indexed = 0") == [(0,)])
    assert look("select count(*) from said") == [(2 * count,)]
    await journal.aclose()


# ---------------------------------------------------------------- wishes to stop


async def test_a_wish_to_stop_is_heard_once(journal: SqliteJournal, path: Path, look: Look) -> None:
    other, heard = SqliteJournal.open(path), list[str]()
    journal.on_stop(heard.append)
    await journal.begin(started())
    await journal.begin(started("run_2"))
    assert await other.ask_to_stop("run_1")
    await until(lambda: bool(heard) and look("select * from stops") == [])
    assert await other.ask_to_stop("run_2")
    await until(lambda: len(heard) > 1)
    assert heard == ["run_1", "run_2"]
    await other.aclose()


async def test_a_wish_to_stop_is_heard_although_others_never_pause(
    journal: SqliteJournal, path: Path
) -> None:
    other, heard = SqliteJournal.open(path), list[str]()
    journal.on_stop(heard.append)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(writing.FEW + 1)]
    assert await other.ask_to_stop("run_1")
    with anyio.fail_after(10):
        while not heard:
            await writers[0].append([fact("a")])
    assert heard == ["run_1"]
    await other.aclose()


async def test_a_wish_to_stop_goes_with_the_end_of_its_run(
    journal: SqliteJournal, path: Path, look: Look
) -> None:
    other = SqliteJournal.open(path)
    for n in range(5):
        writer = await journal.begin(started(f"run_{n}"))
        assert await other.ask_to_stop(f"run_{n}")
        await writer.append([finished()])  # before anybody looked
        assert look("select * from stops") == []
    await other.aclose()


async def test_a_release_that_failed_is_tried_until_it_is_written_although_nobody_drives_or_writes(
    path: Path,
) -> None:
    disk = FailingDisk()
    journal, other = SqliteJournal.open(path), SqliteJournal.open(path)
    try:
        writer = await journal.begin(started())
        disk.write_fails = apsw.FullError
        await writer.release(waiting=True)
        tries = disk.failed
        await until(lambda: disk.failed > tries + 2)
        disk.write_fails = None
        with anyio.fail_after(10):
            while (await other.info("run_1")).status == "running":
                await anyio.lowlevel.checkpoint()
        assert (await other.info("run_1")).status == "waiting"
        await journal.aclose()
        await other.aclose()
    finally:
        disk.unregister()


# ---------------------------------------------------------------- space


async def test_all_that_was_freed_is_given_back_however_much_it_is(
    journal: SqliteJournal, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "FREED_AT_ONCE", 7)
    for n in range(3):
        writer = await journal.begin(started(f"run_{n}"))
        await writer.append([gives("c", f"{n}-" * 50_000), finished(minute=1)])
    pages = look("pragma page_count")[0][0]
    await journal.prune(at(5), apply=True)
    assert look("pragma freelist_count") == [(0,)]
    assert look("pragma page_count")[0][0] < pages - 60


async def test_more_than_one_transaction_takes_away_is_taken_away(journal: SqliteJournal) -> None:
    count = 2 * tables.PRUNED_AT_ONCE + 1
    for n in range(count):
        await says(journal, f"run_{n}", "hello", "hi", minute=1)
    freed = await journal.prune(at(5), apply=True)
    assert freed.runs == tuple(f"run_{n}" for n in range(count))
    assert await journal.runs() == []


async def test_a_file_that_cannot_shrink_is_pruned_all_the_same(
    journal: SqliteJournal, path: Path
) -> None:
    await says(journal, "old", "long " * 9_000, "hi", minute=1)
    await journal.aclose()
    other = apsw.Connection(str(path))
    for statement in (
        "pragma journal_mode = delete",
        "pragma auto_vacuum = none",
        "vacuum",
        "pragma journal_mode = wal",
    ):
        other.execute(statement).fetchall()
    assert other.execute("pragma auto_vacuum").get == 0
    other.close()
    again = SqliteJournal.open(path)
    with anyio.fail_after(10):
        assert (await again.prune(at(5), apply=True)).runs == ("old",)
    assert await again.runs() == []
    await again.aclose()


async def test_a_list_counts_what_pruning_left_of_a_session(journal: SqliteJournal) -> None:
    await says(journal, "old", "hello", "hi", session="ada", minute=1)
    await says(journal, "new", "and now?", "now", session="ada", minute=9)
    await says(journal, "other", "hello", "hi", session="eve", minute=9)
    assert {one.id: one.message_count for one in journal.sessions.list()} == {"ada": 4, "eve": 2}
    await journal.prune(at(5), apply=True)
    assert {one.id: one.message_count for one in journal.sessions.list()} == {"ada": 2, "eve": 2}


async def test_what_was_added_by_hand_goes_with_its_session_and_out_of_the_index(
    journal: SqliteJournal, look: Look
) -> None:
    for session in ("ada", "eve"):
        journal.sessions.create(session_id=session)
        journal.sessions.add_messages(
            session, [message(f"needle of {session}"), message("needle again")]
        )
    assert journal.sessions.delete("ada")
    assert [hit.session_id for hit in journal.sessions.search("needle")] == ["eve", "eve"]
    assert (
        look("select count(*) from said") == look("select count(*) from session_entries") == [(2,)]
    )
    assert look("select count(*) from words where words match 'needle'") == [(2,)]


async def test_a_pruned_fork_takes_what_only_it_needed_of_a_deleted_session_along_however_new_that_is(
    journal: SqliteJournal,
) -> None:
    await says(journal, "run_1", "hello", "hello", session="ada", minute=9)
    await says(journal, "run_2", "hello", "hello", session="other", minute=9)
    await says(
        journal,
        "fork",
        "and?",
        "so",
        session="eve",
        minute=1,
        fork=Fork(run_id="run_1", turn=1, seq=2),
    )
    journal.sessions.delete("ada")
    assert {run.run_id for run in await journal.runs()} == {"run_1", "run_2", "fork"}
    assert (await journal.prune(at(5), apply=True)).runs == ("fork",)
    assert [run.run_id for run in await journal.runs()] == ["run_2"]
    assert [one.id for one in journal.sessions.list()] == ["other"]
