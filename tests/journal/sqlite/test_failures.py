"""A store that fails: the append says so, nothing of it is there, and the next one goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import apsw
import pytest

from tests.doubles import agent, call
from tests.doubles import asks as calls
from tests.journal.runs import (
    asks,
    begun,
    entries_of,
    fact,
    finished,
    gives,
    refuses,
    says,
    started,
    steers,
)
from tests.journal.sqlite.failing_disk import FailingDisk
from treadle import Runtime, tool
from treadle.errors import AgentError
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.failures import translated
from treadle.tools.tool import ToolDeferred

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the failing disk stands on the Unix one"
)


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    made = FailingDisk()
    yield made
    gc.collect()  # what is open on it is closed first
    made.unregister()


@pytest.fixture
def locked(path: Path) -> Iterator[apsw.Connection]:
    """Another process, which writes and does not come to an end."""
    db = apsw.Connection(str(path))
    yield db
    db.close()


async def test_a_run_that_could_not_be_let_go_is_free_once_the_disk_works(
    path: Path, disk: FailingDisk
) -> None:
    """Though the process that drove it lives on."""
    journal, other = SqliteJournal.open(path), SqliteJournal.open(path)
    writer, third = await journal.begin(started()), await journal.begin(started("run_3"))
    disk.write_fails = apsw.FullError
    await writer.release()
    await third.release()
    disk.write_fails = None
    assert (await journal.take_over("run_1")).fence == 2
    with anyio.fail_after(20):
        while (await other.info("run_3")).status == "running":
            await anyio.lowlevel.checkpoint()
    assert (await other.take_over("run_3")).fence == 2
    await journal.aclose()
    await other.aclose()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            apsw.FullError,
            "no space left for the journal '.*journal.db': nothing was appended. Free some space",
        ),
        (
            apsw.IOError,
            "the disk failed under the journal '.*journal.db' .*: nothing was appended. Check the disk",
        ),
        (
            apsw.ReadOnlyError,
            "'.*journal.db' cannot be written: nothing was appended. Make the file",
        ),
    ],
)
async def test_a_disk_that_fails_is_told_and_the_journal_goes_on_afterwards(
    path: Path, disk: FailingDisk, error: type[apsw.Error], said: str
) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    disk.write_fails = error
    for _ in range(2):
        with refuses("agent", said):
            await writer.append([fact("b"), fact("c")])
    with refuses("agent", said.split("appended")[0][:20]):
        await journal.begin(started("run_2"))
    assert await entries_of(journal, after=1) == [fact("a")]
    disk.write_fails = None
    assert await writer.append([fact("d")]) == 3
    await journal.begin(started("run_2"))
    await journal.aclose()

    journal = SqliteJournal.open(path)
    assert await entries_of(journal, after=1) == [fact("a"), fact("d")]
    assert journal.sessions.list() == []
    await journal.aclose()


async def test_the_start_of_a_once_call_that_cannot_be_made_durable_is_no_start(
    path: Path, disk: FailingDisk
) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    disk.sync_fails = apsw.IOError
    await writer.append([begun("free", effect="pure")])
    with refuses("agent", "the disk failed"):
        await writer.append([begun("c")])
    assert await entries_of(journal, after=1) == [begun("free", effect="pure")]
    disk.sync_fails = None
    assert await writer.append([begun("c")]) == 3
    await journal.aclose()


async def test_when_a_commit_fails_all_that_was_in_it_fails(path: Path, disk: FailingDisk) -> None:
    journal = SqliteJournal.open(path)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(8)]
    failed: list[int] = []

    async def append(number: int) -> None:
        try:
            await writers[number].append([fact("a"), begun("c"), fact("b")])
        except AgentError:
            failed.append(number)

    disk.sync_fails = apsw.IOError
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(append, number)
    assert sorted(failed) == list(range(8))
    disk.sync_fails = None
    for number, writer in enumerate(writers):
        assert await writer.append([fact("c")]) == 2
        assert await entries_of(journal, f"run_{number}", after=1) == [fact("c")]
    await journal.aclose()


async def test_a_run_that_failed_to_end_can_end(path: Path, disk: FailingDisk) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started(session="ada"))
    await writer.append(asks(1, "c"))
    disk.write_fails = apsw.FullError
    with refuses("agent", "no space"):
        await writer.append([gives("c"), steers("quick!"), finished(turns=1, tool_calls=1)])
    disk.write_fails = None
    await writer.append([gives("c"), finished(turns=1, tool_calls=1)])
    assert (await journal.info("run_1")).status == "finished"
    assert [one.message_count for one in journal.sessions.list()] == [3]
    await journal.aclose()


async def test_letting_go_raises_nothing_where_the_disk_fails(
    path: Path, disk: FailingDisk
) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    disk.write_fails = apsw.IOError
    await writer.release()
    disk.write_fails = None
    await journal.aclose()
    journal = SqliteJournal.open(path)
    assert (await journal.take_over("run_1")).fence == 2
    await journal.aclose()


async def test_a_checkpoint_that_fails_is_nobodys_failure(path: Path, disk: FailingDisk) -> None:
    journal = SqliteJournal.open(path)
    disk.only = "journal.db"
    disk.write_fails = apsw.IOError
    writer = await journal.begin(started())
    for n in range(200):
        await writer.append([fact(f"{n} " + "x" * 2_000)])
    assert disk.failed > 0
    assert len(await journal.read("run_1")) == 201
    disk.write_fails = None
    await journal.aclose()
    assert path.with_name("journal.db-wal").exists() is False


async def test_who_writes_for_a_moment_is_waited_for(path: Path, locked: apsw.Connection) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    locked.execute("begin immediate")

    async def append() -> None:
        assert await writer.append([fact("a")]) == 2

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(append)
            assert await entries_of(journal, after=1) == []  # readers wait for nobody
            locked.execute("commit")
    assert await entries_of(journal, after=1) == [fact("a")]
    await journal.aclose()


async def test_who_writes_for_too_long_is_not(path: Path, locked: apsw.Connection) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=0.05)
    writer = await journal.begin(started())
    locked.execute("begin immediate")
    for _ in range(2):
        with refuses(
            "agent", "another process keeps the journal '.*journal.db' locked: nothing was appended"
        ):
            await writer.append([fact("a")])
    assert await entries_of(journal, after=1) == []
    locked.execute("commit")
    assert await writer.append([fact("b")]) == 2
    await journal.aclose()


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_an_append_that_waits_for_others_is_finished_although_it_is_cancelled(
    path: Path, locked: apsw.Connection, how: str
) -> None:
    journal = SqliteJournal.open(path, busy_timeout_s=20)
    writer = await journal.begin(started())
    locked.execute("begin immediate")
    tasks: list[asyncio.Task[object] | None] = []
    came: list[object] = []

    async def append() -> None:
        tasks.append(asyncio.current_task())
        came.append(await writer.append([fact("a")]))
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(append)
            await anyio.lowlevel.checkpoint()
            if how == "scope":
                group.cancel_scope.cancel()
            elif tasks[0] is not None:
                tasks[0].cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()  # the cancellation arrives, and is held back
            assert came == []
            locked.execute("commit")
    assert came == [2]
    assert await entries_of(journal, after=1) == [fact("a")]
    await journal.aclose()


# ---------------------------------------------------------------- torn files


async def _torn(path: Path) -> tuple[bytes, bytes, int]:
    """A journal whose last transaction is in the log only: the file, the log, and where that
    transaction begins in it.
    """
    journal = SqliteJournal.open(path)
    await says(journal, "run_0", "hello", "hello")
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    log = path.with_name("journal.db-wal")
    begins = log.stat().st_size
    await writer.append([fact("b"), fact("c")])
    copies = path.read_bytes(), log.read_bytes(), begins
    await journal.aclose()
    assert len(copies[1]) > begins
    return copies


def _words(path: Path) -> list[str]:
    """What a fresh connection finds, which leaves the log as it is."""
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    assert db.execute("pragma integrity_check").get == "ok"
    words = [
        word
        for (word,) in db.execute(
            "select body ->> 'model' from (select cast(body as text) as body from entries where type = 'model.switched')"
        )
    ]
    db.close()
    return words


async def test_a_log_that_is_cut_anywhere_in_its_last_transaction_holds_all_before_it(
    path: Path, tmp_path: Path
) -> None:
    data, log, begins = await _torn(path)
    cut = tmp_path / "cut.db"
    cut.write_bytes(data)
    wal = tmp_path / "cut.db-wal"
    wal.write_bytes(log)
    assert _words(cut) == ["a", "b", "c"]
    places = {
        begins + place for place in range(len(log) - begins) if place % 4120 < 32 or place % 23 == 0
    }
    for place in sorted(places, reverse=True):
        os.truncate(wal, place)
        assert _words(cut) == ["a"], f"the log was cut after {place} bytes"


@pytest.mark.parametrize("tear", ["zeros", "noise", "the header"])
async def test_a_torn_last_page_costs_its_transaction_only(
    path: Path, tmp_path: Path, tear: str
) -> None:
    data, log, begins = await _torn(path)
    spoiled = bytearray(log)
    if tear == "the header":
        spoiled[-4120:-4096] = b"\x11" * 24
    else:
        spoiled[-2000:] = (b"\0" if tear == "zeros" else b"\xa5") * 2000
    torn = tmp_path / "torn.db"
    torn.write_bytes(data)
    (tmp_path / "torn.db-wal").write_bytes(spoiled)
    journal = SqliteJournal.open(torn)
    writer = await journal.take_over("run_1")
    assert await entries_of(journal, after=1) == [fact("a")]
    assert await writer.append([fact("d"), finished()]) == 3
    assert (await journal.info("run_1")).status == "finished"
    await journal.aclose()
    assert _words(torn) == ["a", "d"]
    assert begins < len(log)


# ---------------------------------------------------------------- words


def test_no_room_for_the_file_beside_it_is_no_fault_of_the_disk() -> None:
    error = apsw.IOError("why")
    error.extendedresult = apsw.SQLITE_IOERR_SHMSIZE
    assert translated(error, Path("j"), "done").message.startswith(
        "there is no space left for the journal 'j': done. Free some space"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            apsw.FullError,
            "there is no space left for the journal 'j': done. Free some space, then resume",
        ),
        (
            apsw.LockedError,
            "another process keeps the journal 'j' locked: done. See who uses the file, then try again",
        ),
        (
            apsw.PermissionsError,
            "the journal 'j' cannot be written: done. Make the file and its directory writable",
        ),
        (
            apsw.NotADBError,
            "the journal 'j' is damaged (NotADBError: why): done. Restore a copy, or use another file; `sqlite3 FILE .recover` saves",
        ),
        (
            apsw.CantOpenError,
            "the journal 'j' cannot be opened (CantOpenError: why): done. Check that its directory exists and is writable",
        ),
        (
            apsw.IOError,
            "the disk failed under the journal 'j' (IOError: why): done. Check the disk, then resume",
        ),
        (
            apsw.ConstraintError,
            "the journal 'j' rejected the operation (ConstraintError: why): done",
        ),
        (
            apsw.NoMemError,
            "the process is out of memory: the journal 'j' failed, done. Free some, or raise its limit",
        ),
        (apsw.TooBigError, "the journal 'j' failed (TooBigError: why): done"),
    ],
)
def test_each_failure_says_what_happened_and_what_to_do(error: type[apsw.Error], said: str) -> None:
    told = translated(error("why"), Path("j"), "done")
    assert told.kind == "agent"
    assert told.message.startswith(said)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("select nothing", "SQLITE_ERROR: "),
        ("create table t(a unique); insert into t values(1), (1)", "SQLITE_CONSTRAINT_UNIQUE: "),
    ],
)
def test_a_failure_is_named_as_sqlite_names_it(statement: str, name: str) -> None:
    with pytest.raises(apsw.Error) as caught:
        apsw.Connection(":memory:").execute(statement)
    assert f"({name}" in translated(caught.value, Path("j")).message


async def test_an_error_that_cannot_be_told_is_told_as_what_went_wrong_then(
    path: Path, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those who wait for the writing thread wait for ever."""

    def fails(*_: object) -> AgentError:
        raise ValueError("no words for it")

    journal = SqliteJournal.open(path)
    writers = [await journal.begin(started(f"run_{n}")) for n in range(8)]
    monkeypatch.setattr("treadle.journal.sqlite.writer.as_told", fails)
    told: list[str] = []

    async def append(number: int) -> None:
        try:
            await writers[number].append([fact("a"), begun("c")])
        except ValueError as e:
            told.append(str(e))

    disk.sync_fails = apsw.IOError
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(append, number)
    assert told == ["no words for it"] * 8
    disk.sync_fails = None
    monkeypatch.undo()
    assert await writers[0].append([fact("b")]) == 2
    await journal.aclose()


async def test_what_cannot_be_undone_keeps_nobody_waiting(path: Path) -> None:
    journal = SqliteJournal.open(path)
    writer = journal._writer  # pyright: ignore[reportPrivateUsage]  no caller of today has such a fault

    def fails(db: object) -> None:
        raise ValueError("the work")

    def fails_too() -> None:
        raise RuntimeError("its undoing")

    told: list[str] = []

    async def write(undo: Callable[[], None] | None) -> None:
        try:
            await writer.write(fails, undo=undo)
        except (ValueError, RuntimeError) as e:
            told.append(str(e))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for undo in (fails_too, None, fails_too):
                group.start_soon(write, undo)
        assert sorted(told) == ["its undoing", "its undoing", "the work"]
        assert await writer.write(lambda db: 1) == 1
    await journal.aclose()


async def test_a_run_whose_question_could_not_be_stored_is_stopped_and_does_not_wait(
    path: Path, disk: FailingDisk
) -> None:
    """Nobody could answer what is not in the journal."""

    @tool(effect="once")
    async def order() -> str:
        disk.write_fails = apsw.FullError
        raise ToolDeferred

    async with Runtime.open(f"sqlite:///{path}") as rt:
        told = await rt.run(agent([calls(call("order"))], order), "go", run_id="full")
        assert told.error is not None
        disk.write_fails = None
    async with Runtime.open(f"sqlite:///{path}") as rt:
        assert (await rt.journal.info("full")).status == "stopped"


async def test_a_journal_closes_although_the_disk_takes_nothing(
    path: Path, disk: FailingDisk
) -> None:
    """Its log keeps what was appended, and its guard is free."""
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    disk.write_fails = apsw.FullError
    await journal.aclose()
    disk.write_fails = None
    again = SqliteJournal.open(path)
    assert await entries_of(again, writer.run_id, after=1) == [fact("a")]
    await again.aclose()
