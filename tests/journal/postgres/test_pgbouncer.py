"""Behind a real pgbouncer that gives each transaction another connection: all is kept, nothing is
left behind on one, and what it refuses is told.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import pytest

from tests.journal.runs import entries_of, fact, finished, message, refuses, resumed, started
from tests.service.database.pgbouncer import Pooler, program
from tests.service.database.postgres import PostgresServer
from treadle.journal import open_journal
from treadle.journal.entries import Entry
from treadle.journal.notifier import run_topic

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

import psycopg

from treadle.journal.postgres.checkup import checked

RUNS, APPENDS = 6, 12
"""Many more at once than the pool has connections, and so often that psycopg would prepare a
statement.
"""


@pytest.fixture(scope="module")
def pooler(postgres_server: PostgresServer) -> Iterator[Pooler]:
    if program() is None:
        pytest.skip("needs pgbouncer: apt install pgbouncer")
    (socket,) = parse_qs(urlsplit(postgres_server.url("postgres")).query)["host"]
    try:
        with Pooler(
            Path(socket), user="pgserver", default_pool_size="2", max_client_conn="40"
        ) as pooler:
            yield pooler
    except (OSError, subprocess.SubprocessError) as e:
        pytest.skip(f"pgbouncer does not start here: {e}")


@pytest.fixture
def url(pooler: Pooler, postgres_url: str) -> str:
    return pooler.url(urlsplit(postgres_url).path[1:])


async def test_many_runs_over_few_connections_keep_all_and_leave_nothing_on_them(url: str) -> None:
    journal = open_journal(url)
    entries: list[Entry] = [fact(str(number)) for number in range(APPENDS)]

    async def drive(run_id: str) -> None:
        writer = await journal.begin(started(run_id, session=f"session {run_id}"))
        for entry in entries:
            await writer.append([entry])
            assert len(await journal.read(run_id, after=1)) >= 1
        await writer.release()
        writer = await journal.take_over(run_id)
        await writer.append([resumed(writer.fence), finished()])

    async with anyio.create_task_group() as group:
        for number in range(RUNS):
            group.start_soon(drive, f"run_{number}")
    for number in range(RUNS):
        assert await entries_of(journal, f"run_{number}", after=1) == [
            *entries,
            resumed(2),
            finished(),
        ]
    assert journal.sessions.add_message("session run_0", message("by hand", message_id="h"))
    await journal.aclose()
    plain = psycopg.connect(url, autocommit=True)
    assert plain.execute(
        "select current_setting('search_path') like '%treadle%', current_setting('idle_in_transaction_session_timeout')"
    ).fetchone() == (
        False,
        "0",
    )
    assert plain.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)
    assert plain.execute(
        "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"
    ).fetchone() == (0,)
    plain.close()


async def test_when_its_connections_or_it_are_gone_and_come_back_it_goes_on(
    url: str, postgres_server: PostgresServer, pooler: Pooler
) -> None:
    journal = open_journal(url)
    writer = await journal.begin(started())
    postgres_server.sql(
        f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{urlsplit(url).path[1:]}'"
    )
    assert await writer.append([fact("a")]) == 2
    assert len(await journal.read("run_1")) == 2
    await anyio.to_thread.run_sync(pooler.kill)
    async with anyio.create_task_group() as group:
        group.start_soon(writer.append, [fact("b")])
        group.start_soon(journal.read, "run_1")
        await anyio.to_thread.run_sync(pooler.start)
    assert await writer.append([fact("c"), finished()]) == 4
    assert await entries_of(journal, after=1) == [fact("a"), fact("b"), fact("c"), finished()]
    await journal.aclose()


async def test_what_others_do_is_found_by_looking(url: str) -> None:
    journal, other = open_journal(url), open_journal(url)
    writer = await journal.begin(started())
    async with other.notifier.listen(run_topic("run_1")) as ear:
        await writer.append([fact("a")])
        with anyio.fail_after(20):
            assert await ear.wait() == []
    assert len(await other.read("run_1")) == 2
    await journal.aclose()
    await other.aclose()


def test_that_it_stands_between_is_seen_and_what_it_refuses_is_told(url: str) -> None:
    assert checked(url).is_pooled
    with refuses(
        "invalid",
        # from version 1.20 on, it reads the options itself
        r"refuses '(options|work_mem)': take it out of the URL, or name it in its ignore_startup_parameters",
    ):
        open_journal(f"{url}&options=-cwork_mem%3D1MB")
    with refuses("invalid", "there is no database"):
        open_journal(url.replace("?", "_?"))
