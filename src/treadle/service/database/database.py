"""Database of users' rows: transactions in threads, each in one user's scope.

Two mechanisms isolate users. First, every statement over `Owned` rows is restricted to the
session's scope, and rejected without one; written rows must belong to the scope (guard.py). Second,
on PostgreSQL, row-level security (row_security.py). Entry point: `Database.open`.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import anyio
from anyio import to_thread
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session, col, select

from treadle.errors import AgentError
from treadle.service.database import row_security
from treadle.service.database.engines import THREADS, Engines, connected, take_turns
from treadle.service.database.failures import is_conflict, is_lost, told
from treadle.service.database.guard import GuardedSession, connection_of, scoped
from treadle.service.database.migrating import newest
from treadle.service.database.scope import Scope
from treadle.service.database.tables import Account

T = TypeVar("T")

CONFLICTS_MOST: Final = 3
"""Number of retries of a transaction after a conflict with another one."""


class Database:
    """Source of transactions. Usable from any task of one event loop."""

    def __init__(self, session_factory: Callable[[], Session]) -> None:
        """Create a database. `session_factory` returns a new session each time, over a database
        that has our tables. To open a database by URL, use `Database.open`.
        """
        self._sessions: Callable[[Scope | None, bool], Session] = lambda scope, reads: (
            session_factory()
        )
        self._engines: Engines | None = None
        self._limiter = self._writers = anyio.CapacityLimiter(THREADS)
        self._is_open = True
        self._bypasses: bool | None = None
        """True if the login bypasses row-level security, so that transactions assume the role; None
        until known.
        """
        self.owes_log = False
        """True while SQLite's write-ahead log may contain deleted rows, because a reader prevented
        emptying it or an earlier process died. `scrub` tries again.
        """

    @classmethod
    def open(cls, url: str) -> Self:
        """Connect and upgrade the schema to the newest version, under a lock: `await
        Database.open(url)`, or `async with Database.open(url)`.

        `sqlite:///FILE`, `sqlite://` (in memory) or `postgresql://…`. Raises AgentError(invalid)
        for another URL, a missing library or a schema that is newer than this code; when awaited or
        entered, AgentError(network) for a database that does not respond, is locked, full or
        read-only.
        """
        database = cls(Session)
        database._bind(connected(url))
        return database

    def _bind(self, engines: Engines) -> None:
        self._engines = engines
        self._is_open = False
        self._limiter = self._writers = anyio.CapacityLimiter(engines.readers)
        if engines.writers is not None:
            self._writers = anyio.CapacityLimiter(engines.writers)
        strict = engines.strict

        def session(scope: Scope | None, reads: bool) -> Session:
            return GuardedSession(
                engines.reading if reads else strict if scope is None else engines.writing,
                expire_on_commit=False,
            )

        self._sessions = session

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        if not self._is_open and self._engines is not None:
            try:
                await to_thread.run_sync(self._prepare, self._engines.writing)
            except BaseException:
                await self.aclose()
                raise
            self._is_open = True
            self.owes_log = not self._engines.is_postgres
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Those of a `session_factory` belong to the caller.

        Does not wait for transactions: end them first.
        """
        if self._engines is not None:
            with anyio.CancelScope(shield=True):
                if self.owes_log:
                    with suppress(AgentError):
                        await self.scrub(wait_s=0)
                await to_thread.run_sync(self._engines.writing.dispose)

    async def run(self, scope: Scope, work: Callable[[Session], T]) -> T:
        """Run `work` in a transaction, committed when it returns, rolled back if it raises. It may
        be retried, so it must have no other effects.

        Returned rows can be read afterwards. Raises AgentError(network) if the database does not
        respond, is locked, full or read-only; a constraint violation raises SQLAlchemy's
        IntegrityError. Cancellation waits for the transaction to end, and does not undo a commit.
        """
        return await to_thread.run_sync(
            self._transaction, scope, work, False, limiter=self._writers
        )

    async def read(self, scope: Scope, work: Callable[[Session], T]) -> T:
        """Run `work` in a read-only transaction, which does not wait for writers. Changes are
        refused.
        """
        return await to_thread.run_sync(self._transaction, scope, work, True, limiter=self._limiter)

    async def run_unscoped(self, work: Callable[[Session], T]) -> T:
        """Run `work` like `run`, for tables without an owner: accounts and logins.

        Statements over `Owned` rows are refused.
        """
        return await to_thread.run_sync(self._transaction, None, work, False, limiter=self._writers)

    async def read_unscoped(self, work: Callable[[Session], T]) -> T:
        return await to_thread.run_sync(self._transaction, None, work, True, limiter=self._limiter)

    async def scrub(self, *, wait_s: float = 1) -> None:
        """Remove deleted rows from SQLite's write-ahead log, and return once that is durable.
        PostgreSQL reclaims their space automatically.

        If a reader prevents it for longer than `wait_s` seconds, `owes_log` is set: call this again
        until it is not.
        """
        if self._engines is not None and not self._engines.is_postgres:
            await to_thread.run_sync(
                self._empty_log, self._engines.writing, wait_s, limiter=self._writers
            )

    async def ping(self) -> None:
        """Read one row. Raises AgentError(network) on failure."""
        await self.read_unscoped(
            lambda session: session.exec(select(col(Account.id)).limit(1)).first()
        )

    # ---------------------------------------------------------------- in a thread

    def _empty_log(self, engine: Engine, wait_s: float) -> None:
        prevented = True
        connection = engine.raw_connection()
        try:
            cursor = connection.cursor()
            ((before,),) = cursor.execute("PRAGMA busy_timeout").fetchall()
            cursor.execute(f"PRAGMA busy_timeout = {int(wait_s * 1000)}")
            try:
                ((prevented, _, _),) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {before}")
        except sqlite3.Error as e:
            raise AgentError(
                "network", f"the log of the database cannot be emptied now: {e}"
            ) from e
        finally:
            self.owes_log = bool(prevented)
            connection.close()

    def _prepare(self, engine: Engine) -> None:
        def prepare() -> None:
            newest(engine)
            if engine.dialect.name == "postgresql":
                with engine.begin() as connection:
                    self._bypasses = row_security.takes_role(connection)

        _persistently(prepare)

    def _transaction(self, scope: Scope | None, work: Callable[[Session], T], reads: bool) -> T:
        assert self._is_open, "this database is not open: await it, or enter it with `async with`"
        return _persistently(partial(self._once, scope, work, reads))

    def _once(self, scope: Scope | None, work: Callable[[Session], T], reads: bool) -> T:
        with self._sessions(scope, reads) as session:
            transaction = session.begin()
            with transaction:
                scoped(session, scope, reads=reads)
                self._lock(session, scope, reads)
                result = work(session)
                session.flush()
                _commit(transaction)
                return result

    def _lock(self, session: Session, scope: Scope | None, reads: bool) -> None:
        connection = connection_of(session)
        if connection.dialect.name == "sqlite" and not reads:
            take_turns(connection)
        if connection.dialect.name != "postgresql":
            return
        if self._bypasses is None:
            self._bypasses = row_security.look(connection)
        row_security.lock(connection, scope, role=self._bypasses, alone=not reads)


def _commit(transaction: Any) -> None:
    """Commit. If the connection is lost meanwhile, the result is unknown, so the transaction is not
    retried.
    """
    try:
        transaction.commit()
    except DBAPIError as e:
        if is_lost(e):
            raise AgentError(
                "network",
                (
                    "the database connection was lost during a commit, so the change may or may "
                    "not be saved: check it, then try again"
                ),
            ) from e
        raise


def _persistently(work: Callable[[], T]) -> T:
    """Run `work`. Retry once on a new connection if the old one was dead, and up to three times
    after a conflict.
    """
    lost, conflicts = 0, 0
    while True:
        try:
            return work()
        except PoolTimeout as e:
            raise cast("AgentError", told(e)) from e
        except DBAPIError as e:
            lost, conflicts = lost + is_lost(e), conflicts + is_conflict(e)
            again = (is_lost(e) and lost <= 1) or (is_conflict(e) and conflicts <= CONFLICTS_MOST)
            if not again:
                raise (told(e) or e) from (e if told(e) else e.__cause__)
            time.sleep(
                random.uniform(0.005, 0.02) * conflicts
            )  # random, so that the two do not collide again
