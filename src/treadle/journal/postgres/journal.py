"""The journal in PostgreSQL. Entry point: `PostgresJournal.open`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, Self, get_args

import anyio
import psycopg

from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.journal import Journal, RunWriter
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.driven import Driven
from treadle.journal.postgres.encrypting import opened_seal
from treadle.journal.postgres.indexing import Indexing
from treadle.journal.postgres.notifier import PostgresNotifier
from treadle.journal.postgres.readers import PostgresReaders
from treadle.journal.postgres.schema import make_ready
from treadle.journal.postgres.workers import LEASE_S
from treadle.journal.postgres.writer import PostgresWriter
from treadle.journal.sessions import ViewMark
from treadle.journal.tables.journal import TableJournal
from treadle.journal.tables.queue import TableQueue
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import run_in_thread

Durability = Literal["process", "power"]


class PostgresJournal(TableJournal):
    """Journal in a database that any number of processes on many machines can share. Created by
    `open`.
    """

    def __init__(
        self,
        server: PostgresServer,
        *,
        lease_s: float = LEASE_S,
        seal: Seal | None = None,
        reading: psycopg.Connection | None = None,
    ) -> None:
        """Create the journal. `reading`: a connection for its reads, which it closes. Raises
        AgentError(invalid) for a lease that is too short.
        """
        self._readers = PostgresReaders(server, seal, reading)
        self._writer = PostgresWriter(server, seal)
        self.notifier = PostgresNotifier(server, seal=seal)
        self._indexing = Indexing(self._writer)
        try:
            self._driven = Driven(
                server, self._writer, self.notifier, lease_s=lease_s, ended=self._indexing.wake
            )
        except AgentError:
            self.notifier.close()
            raise
        workers = self._driven.workers
        super().__init__(self._writer, self._readers, workers.of)
        self.queue = TableQueue(
            self._writer, self._readers, workers, self.notifier, append=self._writer.write
        )
        self._server = server
        self._keeps_runs = False

    @classmethod
    def open(
        cls,
        url: str,
        *,
        durability: Durability = "process",
        lease_s: float = LEASE_S,
        keys: Sequence[bytes] = (),
    ) -> Self:
        """Open the journal in that database, in its own schema `treadle`, which is created if
        missing. Connects, and blocks until then.

        `durability`: both values have the same effect here. A confirmed commit is in the server's
        log on disk (`synchronous_commit` is on for entries) and survives the death of this process,
        a crash of the server and a power loss; a failover keeps what the promoted standby has
        (docs/runs.md). `lease_s`: seconds after its last renewal for which a process keeps its
        runs; afterwards they can be taken over. `keys`: of an encrypted journal, the current one
        first. Raises AgentError(invalid) for a URL, a server or a
        database that cannot be used; no error shows a password.
        """
        if durability not in get_args(Durability):
            raise AgentError("invalid", f"durability is 'process' or 'power', not {durability!r}")
        server = PostgresServer(url)
        try:
            db = server.connect()
            try:
                with server.silence.over(db):
                    make_ready(db, server.place)
                    seal = opened_seal(db, server.place, keys)
                return cls(server, lease_s=lease_s, seal=seal, reading=db)
            except BaseException:
                db.close()
                raise
        except psycopg.Error as e:
            raise server.unusable(e) from e

    def __repr__(self) -> str:
        return f"PostgresJournal({self._server.place!r})"

    @property
    def renewals_missed(self) -> int:
        """Number of late or failed renewals of this process's lease since the journal was opened."""
        return self._driven.workers.renewals_missed

    async def aclose(self, *, keep_runs: bool = False) -> None:
        self._keeps_runs |= keep_runs
        with anyio.CancelScope(shield=True):
            await run_in_thread(self._close, or_here=True)

    def _close(self) -> None:
        self.hurry()
        self.notifier.close()
        self._readers.close()
        self._writer.close()
        self._indexing.close()
        # otherwise its thread renews the lease until the process ends
        if not (self._keeps_runs and self._driven.holds_runs):
            self._driven.workers.leave()

    async def begin(self, started: RunStarted, *, found: ViewMark | None = None) -> RunWriter:
        return await self._driven.begin(started, found=found)

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        return await self._driven.take_over(run_id, force=force)

    def on_stop(self, heard: Callable[[str], None]) -> None:
        self._driven.on_stop(heard)

    def hurry(self) -> None:
        self._server.hurry()

    async def ask_to_stop(self, run_id: str) -> bool:
        return await self._driven.ask_to_stop(run_id)


if TYPE_CHECKING:
    _: type[Journal] = PostgresJournal
