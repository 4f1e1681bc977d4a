"""A worker, from its registration to its end. Entry point: `Worker`."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final, Self

import anyio

from treadle import __version__
from treadle._internal.terminal_text import one_line, revealed
from treadle.config.serving import Schedule
from treadle.errors import AgentError
from treadle.journal.engine import Engine, QueueLimits
from treadle.journal.queue import DEFAULT_QUEUE, WorkerCard
from treadle.runtime.runtime import Runtime
from treadle.workers.engines.bare_group import bare_group
from treadle.workers.engines.local import LocalEngine
from treadle.workers.worker.driving import AgentOf, DepsOf, Driving
from treadle.workers.worker.sweep import Sweep
from treadle.workers.worker.ticking import Ticking

logger = logging.getLogger("treadle")

NAME_MOST: Final = 100
"""Characters."""


class Worker:
    """Drives runs of its queues, at most `slots` at once: `async with Worker(runtime) as worker:
    await worker.work()`.

    One for a runtime; it belongs to the runtime's event loop. When it ends, what it still drove is
    ready for other workers.
    """

    def __init__(  # noqa: PLR0913  what one says of a worker, each with a default
        self,
        runtime: Runtime,
        engine: Engine | None = None,
        *,
        name: str | None = None,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        slots: int = 8,
        agent_of: AgentOf | None = None,
        deps_of: DepsOf | None = None,
        grace_s: float = 30.0,
        poll_s: float = 1.0,
        lanes: Mapping[str, QueueLimits] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
    ) -> None:
        """`engine`: an open one; None: one inside this worker. `name`: unique among living workers.
        `agent_of`, `deps_of`: agent and deps of a run; None: the agent of its name among
        `runtime.agents`, without deps. `grace_s`: time for runs to end when it drains. `poll_s`:
        interval of polling without notifications. `lanes`: limits of queues; None: from the
        configuration. `schedules`: by name; their agents are among `runtime.agents`.

        Raises AgentError(invalid) for a name that lists cannot show, an unknown queue, or an
        impossible schedule.
        """
        self.slots, self.worker_id = slots, ""
        """`worker_id`: what owns its runs in the journal; empty before it works."""
        self._runtime, self._engine, self._grace_s = runtime, engine or LocalEngine(), grace_s
        self._queues = _checked(queues, runtime, slots)
        self._lanes = {
            queue: (_configured(runtime) if lanes is None else lanes).get(queue, QueueLimits())
            for queue in self._queues
        }
        self._name = (
            _plain(name)
            if name
            else f"{one_line(socket.gethostname(), NAME_MOST - 20)}-{os.getpid()}"
        )
        self._driving = Driving(runtime, self._engine, agent_of, deps_of)
        self._sweep = Sweep(
            runtime.journal, self._engine, self._driving, self._queues, poll_s=poll_s
        )
        self._ticking = Ticking(runtime, schedules or {})
        self.registered = anyio.Event()
        """Its name is its own, and it takes runs."""
        self._draining, self._at_once = anyio.Event(), anyio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.drain(at_once=True)

    @property
    def running(self) -> int:
        """Runs that it drives now."""
        return self._driving.running

    @property
    def deliveries(self) -> int:
        """Since it began."""
        return self._driving.deliveries

    @property
    def held_off(self) -> int:
        """Deliveries of runs that it could not drive, since it began."""
        return self._driving.held_off

    def drain(self, *, at_once: bool = False) -> None:
        """Claim no more runs, give running ones the grace to end (`at_once`: none), and leave the
        rest to others; then `work` returns. Idempotent.
        """
        self._sweep.end()
        self._draining.set()
        if at_once:
            self._at_once.set()

    async def work(self) -> None:
        """Work until `drain`; cancelled, drain at once.

        Raises AgentError if it cannot begin: its name is taken, the journal does not answer.
        """
        queue = self._runtime.journal.queue
        self.worker_id = self._sweep.worker = await queue.register(self._card())
        self.registered.set()
        try:
            async with bare_group() as group:
                group.start_soon(self._ticking.run)
                group.start_soon(self._end_of_grace)
                async with self._engine.delivering(
                    self.worker_id, self._lanes, self._driving.deliver, slots=self.slots
                ):
                    self._runtime.engine = self._engine
                    await self._until_drained()
                group.cancel_scope.cancel()
        finally:
            self._runtime.engine = None
            with anyio.CancelScope(shield=True):
                await self._give_back()

    async def _until_drained(self) -> None:
        try:
            await self._sweep.run()
            self._driving.closed = True
            await self._give_back()  # others take it while what runs here has its grace
            await self._say_that_it_drains()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._driving.leave()
            raise
        if self._at_once.is_set():
            await self._driving.leave()

    async def _give_back(self) -> None:
        try:
            await self._driving.give_back()
        except AgentError as e:
            logger.warning(
                "what worker %s had claimed is ready again when this process has ended: %s",
                self._name,
                e.message,
            )

    async def _say_that_it_drains(self) -> None:
        try:
            await self._runtime.journal.queue.drain()
        except AgentError as e:
            logger.warning(
                "worker %s drains; the journal could not be told: %s", self._name, e.message
            )

    async def _end_of_grace(self) -> None:
        await self._draining.wait()
        with anyio.move_on_after(self._grace_s):
            await self._at_once.wait()
        await self._driving.leave()

    def _card(self) -> WorkerCard:
        return WorkerCard(
            name=self._name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            engine=self._engine.name,
            queues=tuple(self._queues),
            slots=self.slots,
        )


def _plain(name: str) -> str:
    """Return True if the name is plain text: it appears in lists and logs, and nothing in it may
    hide, reverse or break a line.
    """
    if one_line(name, NAME_MOST) != name:
        reason = (
            f"a worker's name is one line of at most {NAME_MOST} characters, none of which hides "
            f"or controls, not '{one_line(revealed(name), 60)}'"
        )
        raise AgentError("invalid", reason)
    return name


def _checked(queues: Sequence[str], runtime: Runtime, slots: int) -> Sequence[str]:
    known = runtime.config.queue_names
    for queue in queues:
        if queue not in known:
            raise AgentError(
                "invalid",
                (
                    f"there is no queue {queue!r}: the configuration (`queues:`) has "
                    f"{', '.join(sorted(known))}"
                ),
            )
    if not queues or slots < 1:
        raise AgentError("invalid", "a worker has a queue and a slot at least")
    return tuple(dict.fromkeys(queues))


def _configured(runtime: Runtime) -> dict[str, QueueLimits]:
    return {
        name: QueueLimits(
            concurrency=queue.concurrency,
            per_tenant=queue.per_tenant,
            rate=queue.rate,
            period_s=queue.period_s,
        )
        for name, queue in runtime.config.queues.items()
    }
