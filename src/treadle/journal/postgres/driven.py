"""Runs that this process drives: stop requests, and releases that the journal has not accepted yet.
Entry point: `Driven`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.notifier import QUEUE, Notifier, run_topic
from treadle.journal.postgres import driving
from treadle.journal.postgres.connections import PostgresServer, begin, end
from treadle.journal.postgres.workers import LEASE_S, PostgresWorkers
from treadle.journal.postgres.writer import PostgresWriter
from treadle.journal.sessions import ViewMark
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.tables.stopping import HeldRuns, wish


class Driven:
    """Part of one journal. May be used from many tasks of many event loops."""

    def __init__(
        self,
        server: PostgresServer,
        writer: PostgresWriter,
        notifier: Notifier,
        *,
        lease_s: float = LEASE_S,
        ended: Callable[[], None],
    ) -> None:
        """Create the set of driven runs. `ended` is called when this process no longer drives a
        run. Raises AgentError(invalid) for a lease that is too short.
        """
        self.workers = PostgresWorkers(server, lease_s=lease_s, look=self._look)
        self._writer = writer
        self._notifier = notifier
        self._ended = ended
        self._lock = threading.Lock()
        """Guards the attribute below."""
        self._unwritten: list[Work[bool]] = []
        """Releases that the journal has not accepted yet."""
        self._held = HeldRuns()

    async def begin(
        self, started: RunStarted, *, found: ViewMark | None = None
    ) -> driving.PostgresRun:
        await self._write_releases()
        return self._hold(
            await driving.begin(self._writer, self.workers, started, self, found=found)
        )

    async def take_over(self, run_id: str, *, force: bool = False) -> driving.PostgresRun:
        await self._write_releases()
        return self._hold(
            await driving.take_over(self._writer, self.workers, run_id, self, force=force)
        )

    @property
    def holds_runs(self) -> bool:
        """True while this process drives a run."""
        return bool(self._held)

    def _hold(self, run: driving.PostgresRun) -> driving.PostgresRun:
        self._held.add(run.num, run.run_id, run.fence)
        self.appended(run.run_id)
        return run

    # ------------------------------------------------------------ callbacks of its runs

    def let_go(self, num: int, fence: int, unwritten: Work[bool] | None = None) -> None:
        self._held.remove(num, fence)
        if unwritten is not None:
            with self._lock:
                self._unwritten.append(unwritten)
        self._ended()

    def appended(self, run_id: str) -> None:
        self._notifier.tell(run_topic(run_id))

    def ready(self) -> None:
        self._notifier.tell(QUEUE)

    # ------------------------------------------------------------ stopping

    def on_stop(self, heard: Callable[[str], None]) -> None:
        self._held.heard = heard

    async def ask_to_stop(self, run_id: str) -> bool:
        return self._held.asked(
            await self._writer.write(
                lambda db: wish(db, run_id, self.workers.me, self.workers.of), stood=_asked_again
            )
        )

    # ------------------------------------------------------------ periodic work

    def _look(self, db: psycopg.Connection) -> None:
        """Check the leases, in the thread of the lease. Raises psycopg.Error."""
        with self._lock:
            unwritten = [*self._unwritten]
        if held := self._held.numbers():
            wanted = db.execute("select run from treadle.stops where run = any(%s)", (held,))
            for (num,) in wanted.fetchall():
                if self._held.tell(num):
                    db.execute("delete from treadle.stops where run = %s", (num,))
        for work in unwritten:
            try:
                self._release(db, work)
            finally:
                end(db)

    def _release(self, db: psycopg.Connection, work: Work[bool]) -> None:
        """Release a run. Checks its fence, so at worst it changes nothing."""
        is_ready = work(begin(db))
        db.execute("commit", prepare=False)
        with self._lock:
            if work in self._unwritten:
                self._unwritten.remove(work)
        if is_ready:
            self.ready()

    async def _write_releases(self) -> None:
        """Retry pending releases before a run starts, because the session's previous run may block
        it.
        """
        # the lease thread removes some concurrently
        while (work := next(iter(self._unwritten), None)) is not None:
            try:
                is_ready = await self._writer.write(work, stood=_asked_again)
            except AgentError:  # the journal still cannot be written
                return
            with self._lock:
                if work in self._unwritten:
                    self._unwritten.remove(work)
            if is_ready:
                self.ready()


def _asked_again(db: Cursor) -> None:
    """Repeat a release whose commit is unknown, which is harmless."""
