"""Open streams by the login that opened them. A stream ends when its login does, in any process.

One query looks up all logins with open streams: immediately when a login ends here, else every
`LOOK_S` seconds. It covers signing out, a changed password, a second use of a refresh token, an
expired login, and rows that an operator deletes. Entry point: `OpenStreams`.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import anyio
from sqlmodel import Session, col, select

from treadle.errors import AgentError
from treadle.service.database.database import Database
from treadle.service.database.tables import Login
from treadle.types import now

logger = logging.getLogger("treadle.service")

LOOK_S: Final = 2.0
"""Maximum seconds, plus the time of one query, that a stream outlives a login that ended in another
process.
"""
AT_ONCE: Final = 500
"""Number of logins in one query."""


class OpenStreams:
    """Open streams of one service. Usable from any task of one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[str, set[anyio.CancelScope]] = {}

    @contextmanager
    def opened(self, login_id: str, cut: anyio.CancelScope) -> Generator[None]:
        """Cancel `cut` if the login ends before the block does."""
        scopes = self._open.setdefault(login_id, set())
        scopes.add(cut)
        try:
            yield
        finally:
            scopes.discard(cut)
            if not scopes:
                self._open.pop(login_id, None)

    async def look(self) -> None:
        """End the streams of logins that have ended.

        Raises AgentError(network) if the database does not respond.
        """
        asked = [*self._open]
        if not asked:
            return
        alive = await self._database.read_unscoped(partial(_alive, asked))
        for login_id in asked:
            if login_id not in alive:
                for cut in tuple(self._open.get(login_id, ())):
                    cut.cancel()

    async def watch(self) -> None:
        """Look for ended logins periodically, until cancelled."""
        while True:
            await anyio.sleep(LOOK_S)
            try:
                await self.look()
            except AgentError as e:
                logger.warning("cannot look up the logins of open streams: %s", e.message)


def _alive(login_ids: Sequence[str], session: Session) -> set[str]:
    found: set[str] = set()
    for at in range(0, len(login_ids), AT_ONCE):
        good = (
            col(Login.id).in_(login_ids[at : at + AT_ONCE]),
            col(Login.revoked_at).is_(None),
            col(Login.expires_at) > now(),
        )
        found.update(session.exec(select(Login.id).where(*good)))
    return found
