"""Shared resources of runs, and every way to start, follow and end a run: the top of the library.

assembly.py makes plans, the loop executes them. Entry point: `Runtime`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Never, Self, get_args

import anyio
from anyio import to_thread

from treadle._internal import idle_threads
from treadle._internal.clock import Clock
from treadle._internal.other_names import hinted, missing
from treadle.agents.agent import Agent, Deps
from treadle.agents.registry import AgentRegistry
from treadle.config import Config, completed, load
from treadle.config.readers import span_of
from treadle.errors import AgentError
from treadle.events.hooks import Hook, checked_hooks
from treadle.events.hub import Hub
from treadle.events.telemetry.configured import ConfiguredTelemetry
from treadle.events.tracing import Tracer
from treadle.journal import LEASE_S, open_journal
from treadle.journal.engine import Engine
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.run_info import RunInfo
from treadle.messages.result import Out
from treadle.models.retry import PATIENT as PATIENT
from treadle.models.retry import RetryPolicy
from treadle.runtime.assembly import Assembly
from treadle.runtime.batched_runs import BatchedRuns
from treadle.runtime.closing_runs import close_orphans, kill_run
from treadle.runtime.continuing import ContinuingRuns
from treadle.runtime.facilities import Facilities
from treadle.runtime.past_runs import PastRuns
from treadle.runtime.session import Session
from treadle.runtime.session_control import SessionControl
from treadle.runtime.submit import QueuedRuns
from treadle.types import now

logger = logging.getLogger("treadle")

OnClose = Literal["let_go", "cancel"]
PRUNE_GRACE_S = 5.0


class Runtime(BatchedRuns, Facilities, PastRuns, QueuedRuns, SessionControl):
    """Shared resources of runs: journal, sessions, connections, hub. An async context manager;
    nothing outlives it.

    Runs may be started from any number of tasks of one event loop.

    Attributes:
        journal: Journal with all runs, for lists, search, costs and export.
        hub: Events of all runs of this runtime, for subscribers.
        agents: Agents by name, for runs that are resumed or forked without `agent=`.
        engine: Engine that delivers queued runs in this process, if it has a worker.
    """

    def __init__(
        self,
        *,
        config: Config | None = None,
        journal: Journal | None = None,
        clock: Clock | None = None,
        retries: RetryPolicy | None = None,
        tracer: Tracer | None = None,
        hooks: Sequence[Hook[Any]] = (),
        on_close: OnClose | None = None,
    ) -> None:
        """Create a runtime. Most applications use `Runtime.open`, which describes `config` and
        `on_close`.
        """
        idle_threads.end_at_exit()
        self.journal: Journal = journal if journal is not None else MemoryJournal()
        self._on_close = on_close or (
            "cancel" if isinstance(self.journal, MemoryJournal) else "let_go"
        )
        if self._on_close not in get_args(OnClose):
            raise AgentError(
                "invalid", f"on_close={on_close!r} is not one of: {', '.join(get_args(OnClose))}"
            )
        self.hub = Hub()
        self.agents = AgentRegistry(check=self._check_models)
        self.engine: Engine | None = None
        clock = clock or Clock()
        self._assembly = Assembly(
            load(files=False) if config is None else completed(config), self.journal, clock
        )
        self._assembly.hooks = checked_hooks(hooks)
        self._telemetry = ConfiguredTelemetry(self.config.telemetry, self.hub, tracer)
        self._assembly.toolboxes.tracer = self._telemetry.tracer
        self._runs = self._continuing = ContinuingRuns(
            self._assembly, self.hub, self.agents, clock, retries or RetryPolicy()
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            raise missing("Runtime", name)

        def __enter__(self) -> Never:
            raise TypeError("use `async with Runtime.open(…)`, or `with treadle.open(…)`")

        def __exit__(self, *exc: object) -> None: ...

    @classmethod
    @hinted
    def open(
        cls,
        url: str = "memory:",
        *,
        config: Config | None = None,
        durability: Literal["process", "power"] = "process",
        retries: RetryPolicy | None = None,
        tracer: Tracer | None = None,
        hooks: Sequence[Hook[Any]] = (),
        on_close: OnClose | None = None,
    ) -> Self:
        """Open a runtime over the journal at `url`: `memory:`, `sqlite:///FILE` (`sqlite:////FILE`
        from the root) or `postgresql://USER@HOST/DATABASE`.

        `config`: what it leaves at its default comes from the environment (keys, base URLs,
        TREADLE_MODEL). Files are not read: `treadle.config.load()` reads files too, `load({},
        files=False)` reads nothing. `durability`: whether acknowledged entries survive only the
        death of the process, or (slower) a power failure too. The start of a `once` call survives
        both. `retries`: policy for failed requests; None: three retries. `treadle.retry.PATIENT`
        waits out overloads. `tracer`: observer of runs, such as `treadle.telemetry.otel_tracer()`.
        `hooks`: hooks of all runs, called before those of their agents. `on_close`: effect of
        closing on runs in progress. "let_go" stops them so that they can be resumed immediately;
        "cancel" ends them as `cancelled`. None: "let_go", or "cancel" for a journal in memory.
        Raises AgentError(invalid) for a journal that cannot be opened.
        """
        lease_s = LEASE_S if config is None else config.workers.lease_s
        return cls(
            config=config,
            journal=open_journal(url, durability=durability, lease_s=lease_s),
            retries=retries,
            tracer=tracer,
            hooks=hooks,
            on_close=on_close,
        )

    async def __aenter__(self) -> Self:
        await self._assembly.served.enter()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
        await self._assembly.served.leave()

    async def aclose(self) -> None:
        """Stop the active runs as `on_close` specifies, wait for them, and close every connection.
        Idempotent.

        A call that still runs after a few seconds holds its run until this process ends.
        """
        with anyio.CancelScope(shield=True):
            await self._runs.aclose(lets_go=self._on_close == "let_go")
            await self._assembly.toolboxes.aclose()
            await self._assembly.served.aclose()
            await self._forget_old_runs()
            await self._assembly.models.aclose()
            await self.journal.aclose(keep_runs=True)
            self.hub.close()
            await self._telemetry.aclose()

    def let_go(self, run_id: str | None = None) -> bool:
        """Stop the active runs, or one of them with its children, at their next await, so that they
        can be resumed: `stopped` in the journal. Returns False if there is none.
        """
        return self._runs.let_go(run_id)

    async def release_left(self) -> None:
        """Release runs that have stopped without an end, once their last calls have ended."""
        await self._runs.late.store()

    async def _forget_old_runs(self) -> None:
        """Delete old runs as configured, for a few seconds at most."""
        if self.config.keep_runs is None or not self._runs.ran:
            return
        try:
            with anyio.move_on_after(PRUNE_GRACE_S):
                await close_orphans(self.journal)
                freed = await self.journal.prune(now() - span_of(self.config.keep_runs), apply=True)
                if (undo := self._assembly.toolboxes.undo) is not None:
                    await to_thread.run_sync(undo.forget, freed.runs)
                logger.info(
                    "keep_runs=%s: %d old runs were deleted", self.config.keep_runs, len(freed.runs)
                )
        except AgentError as e:
            logger.warning("old runs could not be deleted: %s", e.message)

    # ------------------------------------------------------------ running

    async def kill(self, run_id: str, *, force: bool = False) -> RunInfo:
        """End a run as `cancelled`, whichever process drives it. A run without a driver is closed
        here, and a finished one stays unchanged.

        Raises AgentError(busy) if its process does not respond; `force` then takes the run over.
        """
        return await kill_run(self.journal, self.engine, run_id, force=force)

    def session(
        self,
        session_id: str | None = None,
        *,
        agent: Agent[Deps, Out],
        limit: int | None = None,
    ) -> Session[Deps, Out]:
        """Return the session with this id, creating it if needed.

        `limit`: maximum number of earlier messages that its runs see, in whole exchanges; above it,
        the view shrinks to half. None: `MAX_SESSION_MESSAGES`.
        """
        if session_id is None or self.sessions.get(session_id) is None:
            session_id = self.sessions.create(session_id=session_id).id
        return Session(session_id, agent, self, limit=limit)
