"""Everything that requests share, opened with the application and closed with it. Entry:

`Service`, found at `request.app.state.service`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import anyio

from treadle.config import Config
from treadle.events.telemetry.workers import QueueDepths
from treadle.models.model import Model
from treadle.runtime.runtime import Runtime
from treadle.service.accounts import Accounts
from treadle.service.attempts import Attempts
from treadle.service.database.database import Database
from treadle.service.elsewhere import RemoteRuns
from treadle.service.limits import UserLimits
from treadle.service.live import LiveRuns
from treadle.service.metrics import ServiceMetrics
from treadle.service.open_streams import OpenStreams
from treadle.service.readiness import Readiness
from treadle.service.tokens import Tokens
from treadle.types import now

if TYPE_CHECKING:
    from treadle.apps.assistant.runner import AgentRunner
    from treadle.apps.assistant.server import MCPToolServer


class Service:
    """An async context manager: `create_app`'s lifespan enters it. Nothing outlives it."""

    def __init__(
        self,
        config: Config,
        database: Database,
        runtime: Runtime,
        *,
        key: bytes,
        model: Model | str | None = None,
        agents: Sequence[str] = (),
        on_loopback: bool = True,
        journal: str = "",
    ) -> None:
        """`database` and `runtime` are entered and closed here. `key`: signs tokens. `model`: of
        the task assistant; None: the embedded one.

        `agents`: names of the runtime's agents that are served beside `tasks`. `on_loopback`: only
        this machine reaches its address. `journal`: a name of the runtime's journal that no other
        has: what was asked of it before and never began is begun when the service opens.
        """
        self.config = config
        self.settings = config.service
        self.database = database
        self.runtime = runtime
        self.model = model
        self.agents = tuple(agents)
        self.tokens = Tokens(key)
        self.metrics = ServiceMetrics(QueueDepths(runtime.journal.queue))
        self.limits = UserLimits(self.settings, database, self.metrics)
        self.open_streams = OpenStreams(database)
        self.attempts = Attempts(
            self.limits.refused, accounts_per_hour=self.settings.totals.accounts_per_hour
        )
        self.accounts = Accounts(database, self.tokens, self.limits.totals)
        self.journal = journal
        self.opened_at = now()
        self.readiness = Readiness(self)
        reached = not on_loopback or bool(self.settings.hosts or self.settings.public_url)
        self.is_open = (
            self.settings.open_docs if self.settings.open_docs is not None else not reached
        )
        """Whether the document and the metrics need no token."""
        self.stopping = anyio.Event()
        """Set when the service is about to end: open streams close, and tell their readers to come
        again; no run begins.
        """
        self.live = LiveRuns(self.stopping, grace_s=self.settings.grace_s, let_go=runtime.let_go)
        self.elsewhere = RemoteRuns(self)
        self.metrics.running.set_function(lambda: len(self.live))
        self.tools: MCPToolServer
        self.runner: AgentRunner
        """Both set once it is open."""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Raises AgentError where the database or the journal cannot be used."""
        from treadle.apps.assistant.runner import AgentRunner  # noqa: PLC0415  with the tools, what an application needs last
        from treadle.apps.assistant.server import MCPToolServer  # noqa: PLC0415  likewise

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.database)
            await stack.enter_async_context(self.runtime)
            self.tools = MCPToolServer(self.database, changed=self.live.tasks_changed)
            self.runner = AgentRunner(self.database, self.tools, self.model, runtime=self.runtime)
            await stack.enter_async_context(self.live.opened())
            self.live.spawn(self.open_streams.watch)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.stopping.set()
        await self._stack.aclose()
