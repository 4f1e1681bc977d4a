"""A database of users' rows: one transaction at a time, in a thread, in one user's scope.

Two locks keep users apart. The first: every statement over `Owned` rows is narrowed to the session's scope, and refused where there is none; what is
written must be the scope's own. The second, on PostgreSQL: row-level security. Entry: `Database`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import to_thread
from sqlmodel import Session

from treadle.database.guard import scoped
from treadle.database.scope import Scope

T = TypeVar("T")

THREADS_MOST = 8


class Database:
    """Hands out transactions. Usable from any task of one event loop."""

    def __init__(self, session_factory: Callable[[], Session]) -> None:
        """`session_factory` gives a fresh session each time, over a database that has our tables."""
        self._session_factory = session_factory
        self._limiter = anyio.CapacityLimiter(THREADS_MOST)

    async def run(self, scope: Scope, work: Callable[[Session], T]) -> T:
        """`work` in a transaction of its own, committed when it returns, rolled back where it raises. May be repeated: it has no other effects.

        Raises AgentError(network) where the database does not answer. Cancellation: waits for the transaction to end, which then stays.
        """
        return await to_thread.run_sync(self._in_transaction, scope, work, limiter=self._limiter)

    async def run_unscoped(self, work: Callable[[Session], T]) -> T:
        """The same for what belongs to nobody: accounts and logins. Statements over `Owned` rows are refused."""
        return await to_thread.run_sync(self._in_transaction, None, work, limiter=self._limiter)

    def _in_transaction(self, scope: Scope | None, work: Callable[[Session], T]) -> T:
        with self._session_factory() as session, session.begin():
            scoped(session, scope)
            return work(session)
