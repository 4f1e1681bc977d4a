"""Somebody holds a part of the tables, or all of a process's threads: what has nothing to do with
it goes on, and what is read afterwards is whole.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.journal.postgres.conftest import Look
from tests.journal.postgres.test_races import held, until_wait
from tests.journal.runs import asks, at, entries_of, fact, finished, gives, refuses, started
from tests.service.database.postgres import PostgresServer as PostgresInMemory
from treadle.journal.journal import Journal
from treadle.journal.postgres import PostgresJournal, connections
from treadle.journal.postgres.connections import PostgresServer, begin
from treadle.journal.queue import QueuePlace
from treadle.journal.tables import pruning
from treadle.journal.tables.database import Cursor

ADA = "select pg_advisory_xact_lock(hashtextextended('treadle ''session:ada''', 0))"
LONG = "long " * 3_000


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[PostgresJournal]:
    opened = PostgresJournal.open(postgres_url)
    yield opened
    await opened.aclose()


async def test_what_is_handed_in_right_behind_something_that_is_held_up_does_not_wait_for_it(
    journal: Journal, look: Look, postgres_url: str
) -> None:
    writer = await journal.begin(started("run_1"))
    appended = anyio.Event()

    async def append() -> None:
        await writer.append([fact("meanwhile")])
        appended.set()

    async with anyio.create_task_group() as group:
        with held(postgres_url, ADA):
            group.start_soon(journal.begin, started("run_2", session="ada"))
            group.start_soon(append)
            await until_wait(look, 1)
            with anyio.fail_after(10):
                await appended.wait()


async def test_where_no_further_connection_can_be_made_an_open_one_does_the_work(
    journal: PostgresJournal,
    postgres_server: PostgresInMemory,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread is busy, so that another one is started, which cannot connect."""
    writer = await journal.begin(started("run_1"))
    name = conninfo_to_dict(postgres_url)["dbname"]
    begun, refused, goes_on = threading.Event(), threading.Event(), threading.Event()
    connect, appended = psycopg.connect, anyio.Event()

    def seen(*arguments: Any, **options: Any) -> Any:
        try:
            return connect(*arguments, **options)
        finally:
            refused.set()

    def work(db: Cursor) -> None:
        begun.set()
        assert goes_on.wait(60)

    async def append() -> None:
        await writer.append([fact("meanwhile")])
        appended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(journal._writer.write, work)  # pyright: ignore[reportPrivateUsage]
        await anyio.to_thread.run_sync(begun.wait)
        postgres_server.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            monkeypatch.setattr("psycopg.connect", seen)
            with anyio.fail_after(20):
                async with anyio.create_task_group() as appending:
                    appending.start_soon(append)
                    # on a busy machine, another one may have connected before
                    while not (refused.is_set() or appended.is_set()):
                        await anyio.sleep(0.01)
                    goes_on.set()
        finally:
            goes_on.set()
            postgres_server.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert len(await entries_of(journal, "run_1")) == 2


async def test_who_falls_silent_in_a_transaction_holds_up_nobody_for_long(
    journal: PostgresJournal, other: PostgresJournal, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that was stopped, or whose machine is gone: the server waits for its next word."""
    quick = connections._BEGIN.replace("'5s'", "'300ms'")  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(connections, "_BEGIN", quick)
    await (await journal.begin(started("run_1"))).release()
    locked, goes_on = threading.Event(), threading.Event()
    fences: list[int] = []

    def work(db: Cursor) -> int:
        db.execute("update runs set priority = priority + 1 where id = 'run_1'")
        locked.set()
        goes_on.wait(20)
        return db.execute("select fence from runs").get

    async def stopped() -> None:
        fences.append(await journal._writer.write(work))  # pyright: ignore[reportPrivateUsage]

    async with anyio.create_task_group() as group:
        group.start_soon(stopped)
        await anyio.to_thread.run_sync(locked.wait)
        try:
            with anyio.fail_after(10):
                assert (await other.take_over("run_1")).fence == 2
        finally:
            goes_on.set()
    assert (fences, look("select priority from treadle.runs")) == ([2], [(1,)]), (
        "it finds its connection lost, and does it again"
    )


async def test_nothing_of_a_queue_or_a_conversation_waits_for_the_threads_that_tools_use(
    journal: Journal,
) -> None:
    await journal.queue.add([started("run_1")], QueuePlace())
    over = threading.Event()
    async with anyio.create_task_group() as group:
        limiter = anyio.to_thread.current_default_thread_limiter()
        for _ in range(int(limiter.total_tokens)):
            group.start_soon(anyio.to_thread.run_sync, over.wait)
        try:
            while limiter.available_tokens:
                await anyio.lowlevel.checkpoint()
            with anyio.fail_after(10):
                assert len(await journal.queue.claim(["default"], engine="local", most=1)) == 1
                assert list((await journal.view("ada")).messages) == []
        finally:
            over.set()


async def test_a_long_text_that_is_pruned_while_an_end_is_written_is_not_lost(
    journal: Journal, look: Look, postgres_url: str
) -> None:
    """Both runs hold it; the one goes between the two statements with which the other one comes to
    share it.
    """
    old = await journal.begin(started("run_1"))
    await old.append([*asks(1, "c"), gives("c", LONG), finished()])
    new = await journal.begin(started("run_2"))
    await new.append([*asks(1, "c")])
    ((num,),) = look("select num from treadle.runs where id = 'run_1'")
    with PostgresServer(postgres_url).connect() as db:
        cursor = begin(db)
        cursor.execute("lock table cuts in exclusive mode")
        async with anyio.create_task_group() as group:
            group.start_soon(new.append, [gives("c", LONG), finished()])
            await until_wait(look, 1)
            assert pruning.prune_some(cursor, at(60), {"run_1": num}, going={"run_1"}).keys() == {
                "run_1"
            }
            db.execute("commit")
    assert [record.entry for record in await journal.read("run_2")][-2:] == [
        gives("c", LONG),
        finished(),
    ]


async def test_calls_have_ids_as_long_as_somebody_makes_them(journal: Journal) -> None:
    """Gateways put whole thoughts into them."""
    long, alike = (f"call_{secrets.token_urlsafe(9_000)}" for _ in range(2))
    run = await journal.begin(started("run_1"))
    await run.append([*asks(1, long, alike), gives(long, "one"), gives(alike, "two")])
    assert [record.entry for record in await journal.read("run_1")][-2:] == [
        gives(long, "one"),
        gives(alike, "two"),
    ]
    with refuses("agent", "rejected the operation .*nothing was appended"):
        await run.append([gives(long, "again")])
