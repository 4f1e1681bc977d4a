"""Many read at once over few connections."""

from __future__ import annotations

import threading

import anyio
import pytest

from treadle.journal.tables.database import Cursor

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.readers import READING_MAX, PostgresReaders


async def test_many_reads_share_few_connections(postgres_url: str) -> None:
    lock, gate = threading.Lock(), threading.Event()
    under_way: list[int] = [0]
    peak = 0

    def look(db: Cursor) -> None:
        nonlocal peak
        with lock:
            under_way[0] += 1
            peak = max(peak, under_way[0])
        assert db.execute("select 1").get == 1
        gate.wait(30)
        with lock:
            under_way[0] -= 1

    with PostgresReaders(PostgresServer(postgres_url)) as readers, anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(5 * READING_MAX):
                group.start_soon(readers.read, look)
            while under_way[0] < READING_MAX:
                await anyio.sleep(0.005)
            gate.set()
    assert peak == READING_MAX
