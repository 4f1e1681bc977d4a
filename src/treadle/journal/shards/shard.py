"""A shard: its journal while its server answers, and the error that names it while it does not.

A thread looks for a missing server until it is back. Entry points: `Shard`, `ask_all`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

import anyio
import psycopg
from typing_extensions import override

from treadle.errors import AgentError
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.queue import WorkerCard
from treadle.journal.run_info import UnknownRun
from treadle.journal.shards.membership import PING_S
from treadle.journal.shards.part import PartJournal
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import run_in_thread, start

T = TypeVar("T")
logger = logging.getLogger("treadle.journal")

DOUBT_S: Final = 1.0
"""Seconds after which a shard that has not answered is pinged."""
LOOK_MOST_S: Final = 2.0
"""Maximum seconds between pings of a missing server."""


class MissingShard(AgentError):
    """Raised if the server of a shard does not answer."""

    def __init__(self, shard: str, why: str) -> None:
        super().__init__("agent", f"shard {shard!r} of the journal does not answer: {why}")
        self.why = why


class Shard:
    """One of a journal's shards. May be used from any thread and event loop."""

    def __init__(
        self,
        name: str,
        server: PostgresServer,
        *,
        lease_s: float,
        check: Callable[[], Seal | None],
    ) -> None:
        """`check` returns its keys, once its server answers, or raises AgentError."""
        self.name = name
        self.server = server
        self.card: WorkerCard | None = None
        """Card under which this process is registered there."""
        self.uncertain = False
        """True if a claim failed there, so that its runs may belong to this process."""
        self._lease_s, self._check = lease_s, check
        self._heard: Callable[[str], None] | None = None
        self._lock = threading.Lock()
        """Guards the attributes below."""
        self._journal: PartJournal | None = None
        self._missing: MissingShard | None = None
        self._watching: threading.Thread | None = None
        self._closed = threading.Event()

    @override
    def __repr__(self) -> str:
        return f"Shard({self.name!r})"

    @property
    def journal(self) -> PartJournal:
        """Its journal. Raises MissingShard while its server does not answer."""
        with self._lock:
            if self._missing is not None:
                raise MissingShard(self.name, self._missing.why)
            assert self._journal is not None, "it is open, or missing"
            return self._journal

    @property
    def opened(self) -> PartJournal | None:
        """Its journal, also while its server does not answer; None if it never did."""
        return self._journal

    @property
    def missing(self) -> MissingShard | None:
        """Reason why it is missing; None if it is not."""
        return self._missing

    # ------------------------------------------------------------ availability

    def open(self, seal: Seal | None, reading: psycopg.Connection | None = None) -> None:
        """Open its journal. `reading`: a connection for its reads, which it closes. Raises
        AgentError.
        """
        journal = PartJournal(self.server, lease_s=self._lease_s, seal=seal, reading=reading)
        if self._heard is not None:
            journal.on_stop(self._heard)
        self._journal = journal

    def on_stop(self, heard: Callable[[str], None]) -> None:
        """Register a callback for stop requests, as `Journal.on_stop` does."""
        self._heard = heard
        if self._journal is not None:
            self._journal.on_stop(heard)

    def lose(self, why: str) -> None:
        """Treat the shard as missing until its server answers. Idempotent."""
        with self._lock:
            if self._missing is not None or self._closed.is_set():
                return
            self._missing = MissingShard(self.name, why)
            self._watching = thread = threading.Thread(
                target=self._watch, name="treadle-shard", daemon=True
            )
        logger.warning(
            "%s. Lists lack its runs, and these runs wait; the other shards work",
            self._missing.message,
        )
        try:
            start(thread)
        except AgentError:  # it is asked again by the next operation
            self._found()

    def _watch(self) -> None:
        pause_s = 0.1
        while not self._closed.wait(pause_s):
            pause_s = min(pause_s * 2, LOOK_MOST_S)
            if not self.server.is_there(PING_S):
                continue
            try:
                if self._journal is None:
                    self.open(self._check())
            except AgentError as e:
                self._stays_missing(e.message)
                continue
            self._found()
            logger.warning("shard %r of the journal answers again", self.name)
            return

    def _stays_missing(self, why: str) -> None:
        """Replace the reason, because the server answers but cannot be used."""
        with self._lock:
            is_new = self._missing is None or self._missing.why != why
            self._missing = MissingShard(self.name, why)
        if is_new:
            logger.warning("shard %r of the journal cannot be opened: %s", self.name, why)

    def _found(self) -> None:
        with self._lock:
            self._missing = None

    async def doubt(self, error: AgentError) -> None:
        """Check a shard after an error that may come from a missing server."""
        if error.kind == "agent":
            await run_in_thread(lambda: self.doubt_now(error), abandon=True)

    def doubt_now(self, error: AgentError) -> None:
        """Check a shard like `doubt`, but block the calling thread."""
        if error.kind == "agent" and not self.server.is_there(PING_S):
            self.lose(error.message)

    def stop_looking(self) -> None:
        """Stop looking for its server. Idempotent."""
        self._closed.set()
        if self._watching is not None and self._watching.is_alive():
            self._watching.join()

    # ------------------------------------------------------------ asking

    async def do(self, work: Callable[[PartJournal], Awaitable[T]]) -> T:
        """Run one operation on it, with the patience of a journal of one database. Raises
        MissingShard, and the errors of the operation.
        """
        try:
            return await work(self.journal)
        except (MissingShard, UnknownRun):
            raise
        except AgentError as e:
            await self.doubt(e)
            raise

    async def ask(self, work: Callable[[PartJournal], Awaitable[T]]) -> T:
        """Run a read, and give up as soon as its server is found missing, which raises
        MissingShard.
        """
        journal = self.journal
        answers: list[T] = []
        errors: list[AgentError] = []

        async def run() -> None:
            try:
                answers.append(await work(journal))
            except AgentError as e:
                errors.append(e)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while True:
                await anyio.sleep(DOUBT_S)
                if not await run_in_thread(lambda: self.server.is_there(PING_S), abandon=True):
                    self.lose("its server is unreachable")
                    break
            group.cancel_scope.cancel()
        if answers:
            return answers[0]
        if errors:
            await self.doubt(errors[0])
        if errors and self._missing is None:
            raise errors[0]
        raise MissingShard(self.name, "" if self._missing is None else self._missing.why)


async def ask_all(
    shards: Collection[Shard], work: Callable[[PartJournal], Awaitable[T]]
) -> list[tuple[Shard, T]]:
    """Ask shards at the same time. Returns the answers of those that are not missing; raises the
    first error of another kind.
    """
    answers: dict[str, T] = {}
    errors: list[AgentError] = []

    async def ask(shard: Shard) -> None:
        try:
            answers[shard.name] = await shard.ask(work)
        except MissingShard:
            pass
        except AgentError as e:
            errors.append(e)

    async with anyio.create_task_group() as group:
        for shard in shards:
            if shard.missing is None:
                group.start_soon(ask, shard)
    if errors:
        raise errors[0]
    return [(shard, answers[shard.name]) for shard in shards if shard.name in answers]


def first_missing(shards: Sequence[Shard]) -> MissingShard | None:
    """Return the error of a missing shard; None if all of them answer."""
    return next((shard.missing for shard in shards if shard.missing is not None), None)
