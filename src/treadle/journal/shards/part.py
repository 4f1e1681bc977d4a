"""The journal in one shard, with what a merge of several needs: times by the server's clock, reads
without a claim, and the directory of ids. Entry point: `PartJournal`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

import psycopg

from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.journal import PostgresJournal
from treadle.journal.postgres.workers import LEASE_S
from treadle.journal.queue import engine_mark
from treadle.journal.run_info import RunFilter, RunInfo
from treadle.journal.sessions import SessionInfo
from treadle.journal.shards.tables import has, reserve, where
from treadle.journal.tables.claiming import dead_workers, ready_rows
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.listing import selected
from treadle.journal.tables.rows import key_of, near
from treadle.journal.tables.sealing import Seal

_MADE = "select id, coalesce(made_at_us, started_at_us) from runs where id = any(?)"


class ReadyRun(NamedTuple):
    """Position of a run that can be claimed, among those of all shards."""

    order: int
    """Negated priority."""
    ready_at_us: int


class PartJournal(PostgresJournal):
    """Journal in one shard."""

    def __init__(
        self,
        server: PostgresServer,
        *,
        lease_s: float = LEASE_S,
        seal: Seal | None = None,
        reading: psycopg.Connection | None = None,
    ) -> None:
        super().__init__(server, lease_s=lease_s, seal=seal, reading=reading)
        assert server.shard is not None, "it is a shard"
        self._client = server.shard.client

    def close_now(self) -> None:
        """Close it, but block the calling thread."""
        self._close()

    # ------------------------------------------------------------ the directory

    async def where(self, kind: str, name: str) -> str | None:
        """Return the shard that has a run or session, as far as this one knows."""
        return await self._reading.read(lambda db: where(db, kind, name))

    def where_now(self, kind: str, name: str) -> str | None:
        """Look a run or session up like `where`, but block the calling thread."""
        return self._reading.read_now(lambda db: where(db, kind, name))

    async def has_run(self, run_id: str) -> bool:
        return await self._reading.read(lambda db: has(db, "run", run_id))

    async def near(self, run_id: str) -> list[str]:
        """Return ids that may have been meant by one that is unknown."""
        return await self._reading.read(lambda db: near(db, run_id))

    async def reserve(self, kind: str, name: str, shard: str) -> str:
        """Reserve an id for a shard, and return the shard that has it."""
        return await self._writing.write(lambda db: reserve(db, kind, name, shard, self._client))

    async def forget(self, kind: str, names: Collection[str]) -> None:
        """Remove reservations of deleted runs or sessions."""
        rows = [(f"{kind}:{key_of(name)}",) for name in names]
        await self._writing.write(
            lambda db: db.executemany("delete from shard_places where id = ?", rows).changed
        )

    def forget_now(self, kind: str, name: str) -> None:
        """Remove a reservation like `forget`, but block the calling thread."""
        key = f"{kind}:{key_of(name)}"
        self._writing.write_now(
            lambda db: db.execute("delete from shard_places where id = ?", (key,)).changed
        )

    # ------------------------------------------------------------ lists to be merged

    async def dated_runs(self, limit: int | None, only: RunFilter) -> list[tuple[int, RunInfo]]:
        """Return the runs that meet the conditions, newest first, each with the time at which it
        was stored.
        """
        most = sys.maxsize if limit is None else min(max(limit, 0), sys.maxsize)

        def read(db: Cursor) -> list[tuple[int, RunInfo]]:
            infos = selected(db, self._alive, only, limit=most)
            made = _made(db, [info.run_id for info in infos])
            return [(made[info.run_id], info) for info in infos]

        return await self._reading.read(read)

    async def made_at_us(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return the times at which runs were stored, by id."""
        return await self._reading.read(lambda db: _made(db, run_ids))

    def dated_sessions(self) -> list[tuple[int, SessionInfo]]:
        """Return the sessions, most recently changed first, each with the time of that change."""
        infos = self.sessions.list()
        touched = dict(
            self._reading.read_now(
                lambda db: db.execute(
                    "select id, coalesce(touched_at_us, updated_at_us) from sessions where id is "
                    "not null"
                ).fetchall()
            )
        )
        return [(touched.get(info.id, 0), info) for info in infos]

    async def ready(self, queues: Collection[str], *, engine: str, most: int) -> list[ReadyRun]:
        """Return the positions of the first claimable runs, without claiming them."""

        def read(db: Cursor) -> list[ReadyRun]:
            gone = dead_workers(db, self._driven.workers)
            rows = ready_rows(
                db, sorted(set(map(key_of, queues))), gone, engine_mark(engine), most, locking=False
            )
            return [ReadyRun(-row.priority, row.ready_at_us) for row in rows]

        return await self._reading.read(read)


def _made(db: Cursor, run_ids: Sequence[str]) -> dict[str, int]:
    return dict(db.execute(_MADE, ([*run_ids],)).fetchall()) if run_ids else {}
