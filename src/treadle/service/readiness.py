"""Whether the service can work: its database and its journal answer, and it is not about to end.

Entry: `Readiness`.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import anyio

from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.service.state import Service

logger = logging.getLogger("treadle.service")

LOOK_S = 2.0
"""How long the database and the journal may take to answer."""
FRESH_S = 1.0
"""So long one look counts."""


class Readiness:
    """Looks now and then."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looked_at = float("-inf")
        self._found = False
        self._looking = anyio.Lock()
        """One look at a time: many who ask get the same."""

    async def is_ready(self) -> bool:
        if self._service.stopping.is_set():
            return False
        async with self._looking:
            if time.monotonic() - self._looked_at > FRESH_S:
                self._found = await self._look()
                self._looked_at = time.monotonic()
        return self._found

    async def _look(self) -> bool:
        with anyio.move_on_after(LOOK_S):
            try:
                await self._service.database.ping()
                await self._service.runtime.journal.runs(limit=1)
            except (AgentError, OSError):
                return False
            except Exception:  # the edge of a look: a database without our tables, say
                logger.exception("it cannot be seen whether the service can work")
                return False
            return True
        return False
