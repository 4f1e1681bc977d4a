"""Transactions: kept or not, side by side, made once more, and what is told where the database
fails.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlmodel import Session, col, func, select

from tests.service.database.people import ADA, AT, BOB, row_of
from tests.service.database.postgres import PostgresServer
from treadle.apps.assistant.tables import Task
from treadle.errors import AgentError
from treadle.service.database import failures
from treadle.service.database.database import Database
from treadle.service.database.guard import connection_of
from treadle.service.database.scope import Identity, Scope
from treadle.service.database.tables import METADATA, Account, Spent


def count(session: Session) -> int:
    return session.exec(select(func.count()).select_from(Task)).one()


def add(title: str, session: Session) -> Task:
    task = Task(user_id="ada", title=title)
    session.add(task)
    return task


async def test_what_raises_is_rolled_back_and_what_returns_is_kept_and_read_afterwards(
    database: Database,
) -> None:
    def fail(session: Session) -> None:
        add("lost", session)
        session.flush()
        raise LookupError

    with pytest.raises(LookupError):
        await database.run(ADA, fail)
    assert (await database.run(ADA, partial(add, "kept"))).title == "kept"
    assert await database.read(
        ADA,
        lambda session: [
            (task.title, task.created_at.tzinfo is not None) for task in session.exec(select(Task))
        ],
    ) == [("kept", True)]


async def test_one_users_changes_are_made_one_after_the_other(database: Database) -> None:
    """What a transaction has read still holds when it writes."""

    def one_more(session: Session) -> None:
        row = session.exec(select(Spent)).first() or Spent(user_id="ada", day=AT.date(), tokens=0)
        row.tokens += 1
        session.add(row)

    async with anyio.create_task_group() as group:
        for _ in range(24):
            group.start_soon(database.run, ADA, one_more)
    assert await database.read(
        ADA, lambda session: session.exec(select(col(Spent.tokens))).all()
    ) == [24]


async def test_what_is_nobodys_is_changed_as_if_one_after_the_other(database: Database) -> None:
    def claim(number: int, session: Session) -> bool:
        if session.exec(select(Account)).first() is not None:
            return False
        session.add(Account(username=f"name {number}", password_hash="x"))
        return True

    made: list[bool] = []

    async def one(number: int) -> None:
        made.append(await database.run_unscoped(partial(claim, number)))

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(one, number)
    assert sorted(made) == [False, False, True]


async def test_readers_wait_for_no_writer(database_url: str) -> None:
    if database_url == "sqlite://":
        pytest.skip("a database in memory has one connection")
    async with Database.open(database_url) as database:
        writing, go_on = anyio.Event(), threading.Event()

        def write(session: Session) -> None:
            add("slow", session)
            session.flush()
            anyio.from_thread.run_sync(writing.set)
            assert go_on.wait(10)

        async with anyio.create_task_group() as group:
            group.start_soon(database.run, ADA, write)
            with anyio.fail_after(20):
                await writing.wait()
                assert await database.read(ADA, count) == 0
            go_on.set()
        assert await database.read(ADA, count) == 1


async def test_a_name_that_is_taken_is_the_callers_to_decide(database: Database) -> None:
    def name(session: Session) -> None:
        session.add(Account(username="ada", password_hash="a secret hash"))

    await database.run_unscoped(name)
    with pytest.raises(IntegrityError) as caught:
        await database.run_unscoped(name)
    assert "a secret hash" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://ada:hunter2@host/db",
        "sqlite://rows.db",
        "sqlite:///rows.db?mode=ro",
        "postgresql://ada:hunter2@host",
        "postgresql://ada:hunter2@host:port/db",
    ],
)
def test_an_address_that_is_none_is_told_without_being_repeated(url: str) -> None:
    with pytest.raises(AgentError) as caught:
        Database.open(url)
    assert caught.value.kind == "invalid"
    assert "hunter2" not in str(caught.value)
    assert "rows.db" not in str(caught.value)


async def test_the_file_and_its_folder_are_private(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.db"
    async with Database.open(f"sqlite:///{file}") as database:
        await database.run(ADA, partial(add, "x"))
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in (file.parent, *file.parent.iterdir())
        }
    assert modes.pop("new") == 0o700
    assert set(modes.values()) == {0o600}
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "rows.db").write_text("this is no database, but a text of some length\n" * 30)
    with pytest.raises(AgentError, match="not an SQLite database") as caught:
        await Database.open(f"sqlite:///{tmp_path / 'rows.db'}")
    assert caught.value.kind == "network"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
async def test_a_file_that_may_only_be_read_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rows.db'}"
    async with Database.open(url):
        pass
    (tmp_path / "rows.db").chmod(0o400)
    with pytest.raises(AgentError, match="read-only"):
        async with Database.open(url) as database:
            await database.run(ADA, partial(add, "x"))


async def test_a_full_database_is_told_and_what_was_there_stays(tmp_path: Path) -> None:
    async with Database.open(f"sqlite:///{tmp_path / 'rows.db'}") as database:
        await database.run(ADA, partial(add, "kept"))

        def fill(session: Session) -> None:
            pages = connection_of(session).execute(text("PRAGMA page_count")).scalar_one()
            connection_of(session).execute(text(f"PRAGMA max_page_count = {pages}"))
            for _ in range(500):
                session.add(Task(user_id="ada", title="x" * 200, description="x" * 2000))
            session.flush()

        with pytest.raises(AgentError, match="disk is full") as caught:
            await database.run(ADA, fill)
        assert caught.value.kind == "network"
        assert await database.read(ADA, count) == 1


@pytest.mark.parametrize(
    "url", ["postgresql://ada:hunter2@127.0.0.1:1/db", "postgresql://ada:hunter2@/db?host=/nowhere"]
)
async def test_a_database_that_is_not_there_is_told_in_one_sentence(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(AgentError, match="does not respond") as caught:
        await Database.open(url)
    assert caught.value.kind == "network"
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'FATAL:  password authentication failed for user "ada"',
            "rejected this name and password",
        ),
        ("fe_sendauth: no password supplied", "rejected this name and password"),
        ('FATAL:  database "db" does not exist', "no such database: create it with `createdb`"),
        ("server does not support SSL, but SSL was required", "cannot be encrypted: .*sslmode"),
        ("connection refused", "does not respond"),
    ],
)
def test_why_a_connection_does_not_come_to_stand_is_told_without_its_address(
    said: str, told: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    error = failures.told(
        OperationalError(
            None,
            None,
            psycopg.OperationalError(f'connection to server at "127.0.0.1", port 1 failed: {said}'),
        )
    )
    assert error is not None
    assert re.search(told, error.message)
    assert "127.0.0.1" not in error.message


async def test_a_dead_connection_is_replaced_and_the_transaction_made_once_more(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with Database.open(postgres_url) as database:
        tries: list[int] = []

        def work(session: Session) -> None:
            tries.append(1)
            add("once", session)
            session.flush()
            if len(tries) == 1:
                pid = connection_of(session).execute(text("SELECT pg_backend_pid()")).scalar_one()
                postgres_server.sql(f"SELECT pg_terminate_backend({pid}, 5000)")
            session.exec(select(Task)).all()

        await database.run(ADA, work)
        assert len(tries) == 2
        assert await database.read(ADA, count) == 1


async def test_a_database_that_keeps_dying_is_told_and_is_used_again_when_it_is_back(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with Database.open(postgres_url) as database:

        def die(session: Session) -> None:
            pid = connection_of(session).execute(text("SELECT pg_backend_pid()")).scalar_one()
            postgres_server.sql(f"SELECT pg_terminate_backend({pid}, 5000)")
            session.exec(select(Task)).all()

        with pytest.raises(AgentError, match="does not respond"):
            await database.run(ADA, die)
        await database.ping()


async def test_a_connection_lost_while_a_change_is_kept_makes_nothing_twice(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with Database.open(postgres_url) as database:
        tries: list[int] = []

        def work(session: Session) -> None:
            tries.append(1)
            add("once", session)
            session.flush()
            pid = connection_of(session).execute(text("SELECT pg_backend_pid()")).scalar_one()
            postgres_server.sql(f"SELECT pg_terminate_backend({pid}, 5000)")

        with pytest.raises(AgentError, match="may or may not be saved"):
            await database.run(ADA, work)
        assert len(tries) == 1


@pytest.mark.parametrize("way", ["there", "back"])
async def test_wherever_a_connection_is_reset_a_change_is_made_once_or_may_have_been_made(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, way: Literal["there", "back"]
) -> None:
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
    from tests.crash.resets import Resets

    number, unknown, struck = 0, 0, True
    async with Database.open(postgres_url) as database:
        resets = Resets(monkeypatch, way)
        while struck:
            number, before = number + 1, await database.read(ADA, count)
            resets.at(number)
            error = ""
            try:
                await database.run(ADA, partial(add, f"task {number}"))
            except AgentError as e:
                error = e.message
            struck = resets.has_struck
            resets.at(0)
            made = await database.read(ADA, count) - before
            unknown += bool(error)
            assert made == 1 or (made == 0 and error)
            assert not error or "may or may not be saved" in error
    assert number > 4
    assert unknown


async def test_a_conflict_is_tried_three_times_more_and_then_told(postgres_url: str) -> None:
    async with Database.open(postgres_url) as database:
        tries: list[int] = []

        def work(session: Session) -> None:
            tries.append(1)
            connection_of(session).execute(
                text("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")
            )

        with pytest.raises(AgentError, match="kept changing the same rows"):
            await database.run(ADA, work)
        assert len(tries) == 4


async def test_a_statement_that_takes_too_long_is_stopped_and_told(postgres_url: str) -> None:
    async with Database.open(postgres_url) as database:

        def sleep(session: Session) -> Any:
            connection_of(session).execute(text("SET LOCAL statement_timeout = 20"))
            connection_of(session).execute(text("SELECT pg_sleep(30)"))

        with pytest.raises(AgentError, match="took too long"):
            await database.run(ADA, sleep)
        await database.ping()


async def test_a_value_that_the_database_does_not_take_is_told(postgres_url: str) -> None:
    async with Database.open(postgres_url) as database:
        for title in ("nul \0", "x" * 201):
            with pytest.raises(AgentError, match="rejected a value as invalid") as caught:
                await database.run(ADA, partial(add, title))
            assert caught.value.kind == "invalid"


async def test_an_applications_own_sessions_work_as_ours_do(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with Database.open(postgres_url) as ours:
        assert ours._engines is not None
        theirs = Database(partial(Session, ours._engines.writing, expire_on_commit=False))
        await theirs.run(ADA, partial(add, "x"))
        assert await theirs.read(BOB, count) == 0
        assert await ours.read(ADA, count) == 1


async def test_many_users_side_by_side_see_their_own(database: Database) -> None:
    async def use(name: str) -> None:
        scope = Scope(Identity(name, "caller"))
        for number in range(4):
            await database.run(
                scope,
                lambda session, number=number: session.add(
                    Task(user_id=name, title=f"{name}{number}")
                ),
            )  # type: ignore[misc]
            titles = await database.read(
                scope, lambda session: session.exec(select(Task.title)).all()
            )
            assert len(titles) == number + 1
            assert {title[: len(name)] for title in titles} == {name}

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(use, f"user {number:02}")


def test_every_table_of_ours_is_of_users_or_named_here() -> None:
    assert {table.name for table in METADATA.sorted_tables if "user_id" not in table.c} == {
        "account",
        "login",
        "reserved",
        "spentbyall",
    }
    assert row_of(Task, "ada").user_id == "ada"
