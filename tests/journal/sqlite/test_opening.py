"""Which files are journals, and how a file becomes one."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import apsw
import pytest

from tests.journal.processes import make_at_once
from tests.journal.runs import entries_of, finished, gives, refuses, says, started
from tests.journal.sqlite.conftest import Look
from treadle.errors import AgentError
from treadle.journal.entries import SCHEMA
from treadle.journal.sqlite import SqliteJournal, readers, schema
from treadle.journal.sqlite.schema import VERSION
from treadle.journal.tables.upcasting import UPCASTERS, upcast


async def test_a_newer_journal_is_refused_and_left_as_it_is(path: Path, look: Look) -> None:
    await SqliteJournal.open(path).aclose()
    look(f"pragma user_version = {VERSION + 1}")
    before = path.read_bytes()
    with refuses(
        "invalid", f"newer Treadle \\(version {VERSION + 1}; this one reads {VERSION}\\): upgrade"
    ):
        SqliteJournal.open(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "data",
    [b"hello, this is a text\n" * 500, b"\0" * 4096, b"SQLite format 3\0" + b"\xff" * 4080],
    ids=["text", "zeros", "a broken header"],
)
def test_what_is_no_database_is_refused_and_left_as_it_is(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with refuses("invalid", "journal.db"):
        SqliteJournal.open(path)
    assert path.read_bytes() == data


def test_another_programs_database_is_refused_and_left_as_it_is(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("create table things(a)")
    db.close()
    before = path.read_bytes()
    with refuses("invalid", "not a Treadle journal"):
        SqliteJournal.open(path)
    assert path.read_bytes() == before


async def test_an_empty_file_becomes_a_journal(path: Path) -> None:
    path.touch()
    journal = SqliteJournal.open(path)
    assert await journal.runs() == []
    await journal.aclose()


async def test_a_damaged_journal_is_told_and_not_used(path: Path) -> None:
    journal = SqliteJournal.open(path)
    await says(journal, "run_1", "hello", "hello")
    await journal.aclose()
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * 4000 + data[4100:])
    with refuses("invalid", "journal.db"):
        SqliteJournal.open(path)


async def test_what_is_damaged_further_inside_is_told_when_it_is_read(
    path: Path, look: Look
) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    for n in range(60):
        await writer.append([gives(f"call_{n}", "x" * 400)])
    await journal.aclose()
    ((page,),) = look("select max(pageno) from dbstat where name = 'entries'")
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xee" * 4096
    path.write_bytes(data)
    journal = SqliteJournal.open(path)
    with refuses("agent", "is damaged.*Restore a copy"):
        await journal.read("run_1")
    await journal.aclose()


CREATE = """
import sys
from treadle.journal.sqlite import SqliteJournal
sys.stdin.readline()
journal = SqliteJournal.open(sys.argv[1])
print(len(journal.sessions.list()))
journal.sessions.create(session_id=sys.argv[2])
"""


def test_any_number_may_create_it_at_once(path: Path) -> None:
    make_at_once(CREATE, str(path), 4)
    assert len(SqliteJournal.open(path).sessions.list()) == 4


async def test_a_file_is_brought_to_this_version(
    path: Path, monkeypatch: pytest.MonkeyPatch, look: Look
) -> None:
    journal = SqliteJournal.open(path)
    await says(journal, "run_1", "hello", "hello")
    await journal.aclose()
    monkeypatch.setattr(
        schema,
        "MIGRATIONS",
        (
            *schema.MIGRATIONS,
            "create table more(a); insert into more values(1)",
            "insert into more values(2)",
        ),
    )
    monkeypatch.setattr(schema, "VERSION", VERSION + 2)
    journal = SqliteJournal.open(path)
    assert len(await entries_of(journal)) == 3
    await journal.aclose()
    assert look("select a from more") == [(1,), (2,)]
    assert look("pragma user_version") == [(VERSION + 2,)]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, look: Look
) -> None:
    await SqliteJournal.open(path).aclose()
    with monkeypatch.context() as patch:
        patch.setattr(
            schema,
            "MIGRATIONS",
            (*schema.MIGRATIONS, "create table more(a); insert into nowhere values(1)"),
        )
        patch.setattr(schema, "VERSION", VERSION + 1)
        with refuses("agent", "nowhere"):
            SqliteJournal.open(path)
    assert look("select name from sqlite_schema where name = 'more'") == []
    await SqliteJournal.open(path).aclose()


async def test_readers_leave_nothing_behind(path: Path) -> None:
    journal = SqliteJournal.open(path)
    assert await journal.runs() == []
    assert journal.sessions.list() == []
    await journal.aclose()
    assert [one.name for one in path.parent.iterdir()] == ["journal.db"]


async def test_a_connection_that_read_is_kept_for_who_reads_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[apsw.Connection] = []
    real = readers.connect

    def connect(path: Path, *, busy_timeout_s: float) -> apsw.Connection:
        opened.append(real(path, busy_timeout_s=busy_timeout_s))
        return opened[-1]

    monkeypatch.setattr(readers, "connect", connect)
    journal = SqliteJournal.open(path)
    for _ in range(3):
        assert await journal.runs() == []
    assert len(opened) == 1
    with journal._readers.snapshot() as db:  # pyright: ignore[reportPrivateUsage]  the one who is reading
        await journal.aclose()
        assert db.execute("select count(*) from runs").get == 0, "who reads reads on"
    with pytest.raises(apsw.ConnectionClosedError):
        opened[0].execute("select 1")


async def test_closing_moves_the_log_into_the_file(path: Path) -> None:
    journal, other = SqliteJournal.open(path), SqliteJournal.open(path)
    await says(journal, "run_1", "hello", "hello")
    assert len(await other.runs()) == 1
    await journal.aclose()
    assert path.with_name("journal.db-wal").stat().st_size == 0
    await other.aclose()
    assert not path.with_name("journal.db-wal").exists()


async def test_a_closed_journal_says_so(path: Path) -> None:
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    await journal.aclose()
    for use in (
        lambda: journal.read("run_1"),
        lambda: journal.begin(started("run_2")),
        lambda: writer.append([finished()]),
    ):
        with refuses("invalid", "is closed: open it again"):
            await use()
    await writer.release()


# ---------------------------------------------------------------- entries of older schemas


def test_older_entries_are_made_into_todays_one_step_after_the_other() -> None:
    steps = {1: lambda data: data + b"b", 2: lambda data: data + b"c"}
    assert upcast(b"a", 1, upcasters=steps, to=3) == b"abc"
    assert upcast(b"a", 2, upcasters=steps, to=3) == b"ac"
    assert upcast(b"a", 3, upcasters=steps, to=3) == b"a"
    assert upcast(b"a", 4, upcasters=steps, to=3) == b"a"


def test_there_is_a_step_for_every_schema_before_this_one() -> None:
    assert set(UPCASTERS) == set(range(1, SCHEMA))


def test_a_journal_without_its_tables_is_told_when_it_is_opened(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute(
        f"pragma application_id = {schema.APPLICATION_ID}; pragma user_version = {VERSION}"
    ).fetchall()
    db.close()
    with refuses("agent", "no such table: runs"):
        SqliteJournal.open(path)


async def test_a_journal_that_was_taken_away_is_not_made_anew_by_who_reads(path: Path) -> None:
    journal = SqliteJournal.open(path)
    for one in [*path.parent.iterdir()]:
        one.unlink()
    with refuses(
        "agent",
        r"'.*journal.db' cannot be opened \(SQLITE_CANTOPEN.*\): nothing was changed. Check that its directory",
    ):
        await journal.runs()
    await journal.aclose()
    assert not path.exists()


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="only Linux tells a process's open files in a folder"
)
def test_a_file_that_was_refused_is_not_kept_open(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("create table things(a)")
    db.close()
    with pytest.raises(AgentError) as kept:
        SqliteJournal.open(path)
    assert [one for one in Path("/proc/self/fd").iterdir() if one.resolve() == path] == []
    assert "not a Treadle journal" in kept.value.message


async def test_who_has_the_file_in_another_mode_is_waited_for(path: Path) -> None:
    await SqliteJournal.open(path).aclose()
    other = apsw.Connection(str(path))
    other.execute("pragma journal_mode = delete").fetchall()
    other.execute("begin; select * from runs").fetchall()
    with refuses(
        "agent", "another process keeps the journal '.*journal.db' locked: it is not used"
    ):
        SqliteJournal.open(path, busy_timeout_s=0.01)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            opened: list[SqliteJournal] = []
            group.start_soon(
                anyio.to_thread.run_sync,
                lambda: opened.append(SqliteJournal.open(path, busy_timeout_s=20)),
            )
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            other.execute("commit")
    assert await opened[0].runs() == []
    assert other.execute("select count(*) from runs").get == 0
    assert other.execute("pragma journal_mode").get == "wal"
    other.close()
    await opened[0].aclose()
