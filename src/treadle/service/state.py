"""State shared by all requests, opened and closed with the application. Entry point: `Service`,
available at `request.app.state.service`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

import anyio

from treadle.config import Config
from treadle.config.serving import Service as ServiceSettings
from treadle.errors import AgentError
from treadle.events.telemetry.workers import QueueDepths
from treadle.runtime.runtime import Runtime
from treadle.service.accounts import Accounts
from treadle.service.application import Application, EventView, ServiceHost
from treadle.service.attempts import Attempts
from treadle.service.database.database import Database
from treadle.service.database.scope import Scope
from treadle.service.database.tables import ServedRun
from treadle.service.elsewhere import RemoteRuns
from treadle.service.limits import UserLimits
from treadle.service.live import LiveRuns
from treadle.service.metrics import ServiceMetrics
from treadle.service.open_streams import OpenStreams
from treadle.service.tokens import Tokens
from treadle.types import now

logger = logging.getLogger("treadle.service")

LOOK_S = 2.0
"""Timeout of the readiness checks of the database and the journal, in seconds."""
FRESH_S = 1.0
"""Seconds for which a readiness result is cached."""


class Service:
    """State of the service: an async context manager that the lifespan of `create_app` enters.
    Nothing outlives it.
    """

    def __init__(
        self,
        config: Config,
        database: Database,
        runtime: Runtime,
        *,
        key: bytes,
        application: Application,
        agents: Sequence[str] = (),
        on_loopback: bool = True,
        journal: str = "",
    ) -> None:
        """Create a service. `database` and `runtime` are entered and closed here. `key` signs
        tokens. `application`: the mounted application.

        `agents`: names of further agents of the runtime to serve. `on_loopback`: True if only this
        machine reaches the service's address. `journal`: a unique name of the runtime's journal;
        its requested runs that never began are started when the service opens.
        """
        self.config = config
        self.settings = config.service
        self.database = database
        self.runtime = runtime
        self.application = application
        self.agents = _registered(application, runtime, agents)
        self.tokens = Tokens(key)
        self.metrics = ServiceMetrics(QueueDepths(runtime.journal.queue))
        self.limits = UserLimits(self.settings, database, self.metrics, application.shares)
        self.open_streams = OpenStreams(database)
        self.attempts = Attempts(
            self.limits.refused, accounts_per_hour=self.settings.totals.accounts_per_hour
        )
        self.accounts = Accounts(database, self.tokens, self.limits.totals)
        self.journal = journal
        self.opened_at = now()
        self.is_open = _is_open(self.settings, on_loopback=on_loopback)
        """True if the OpenAPI document and the metrics need no token."""
        self.stopping = anyio.Event()
        """Set when the service shuts down. Open streams then close and ask their readers to
        reconnect, and no run begins.
        """
        self.live = LiveRuns(self.stopping, grace_s=self.settings.grace_s, let_go=runtime.let_go)
        self.readiness = Readiness(database, runtime, self.stopping)
        self.elsewhere = RemoteRuns(self.live, database, runtime, self.view_of)
        self.host = ServiceHost(database, runtime, self.live.notify, self.stopping)
        self.chat = application.chat(self.host)
        self.metrics.running.set_function(lambda: len(self.live))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the service. Raises AgentError if the database or the journal is unavailable."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.database)
            await stack.enter_async_context(self.runtime)
            await stack.enter_async_context(self.live.opened())
            self.live.spawn(self.open_streams.watch)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stopping.set()
        await self._stack.aclose()

    def view_of(self, scope: Scope, run: ServedRun) -> EventView | None:
        """Return the event filter of a chat run; None for other runs, whose events are all
        visible.
        """
        return self.chat.view(scope.user_id) if run.agent == self.application.name else None


def _is_open(settings: ServiceSettings, *, on_loopback: bool) -> bool:
    if settings.open_docs is not None:
        return settings.open_docs
    return on_loopback and not (settings.hosts or settings.public_url or settings.proxies)


def _registered(
    application: Application, runtime: Runtime, names: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of all served agents other than the chat's."""
    for one in application.agents:
        if one.agent.name not in runtime.agents:
            runtime.agents.register(one.agent)
    return tuple(dict.fromkeys((*names, *(one.agent.name for one in application.agents))))


class Readiness:
    """Readiness of the service: its database and journal answer, and it is not shutting down.
    Results are cached.
    """

    def __init__(self, database: Database, runtime: Runtime, stopping: anyio.Event) -> None:
        self._database, self._runtime, self._stopping = database, runtime, stopping
        self._looked_at = float("-inf")
        self._found = False
        self._looking = anyio.Lock()
        """Lock for one check at a time. Concurrent callers share its result."""

    async def is_ready(self) -> bool:
        if self._stopping.is_set():
            return False
        async with self._looking:
            if time.monotonic() - self._looked_at > FRESH_S:
                self._found = await self._look()
                self._looked_at = time.monotonic()
        return self._found

    async def _look(self) -> bool:
        with anyio.move_on_after(LOOK_S):
            try:
                await self._database.ping()
                await self._runtime.journal.runs(limit=1)
            except (AgentError, OSError):
                return False
            except (
                Exception
            ):  # boundary of a check, which fails for example if the database lacks our tables
                logger.exception("the readiness check failed")
                return False
            return True
        return False
