"""The life of a worker, from registration to drain. Entry point: `Worker`."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Final, Self, TypedDict

import anyio
from typing_extensions import Unpack

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
"""Maximum length of a worker's name, in characters."""
LEASES_MOST: Final = 1000
"""Maximum number of runs whose leases a worker reads when it begins."""


class WorkerOptions(TypedDict, total=False):
    """Further options of a `Worker`."""

    deps_of: DepsOf | None
    """Function that returns the deps of a run; None: no run has deps."""
    grace_s: float
    """Seconds for active runs to end after `drain`; 30 if not given."""
    poll_s: float
    """Polling interval in seconds; 1 if not given."""
    lanes: Mapping[str, QueueLimits] | None
    """Limits of queues; None: from the configuration."""
    schedules: Mapping[str, Schedule] | None
    """Schedules by name; their agents must be in `runtime.agents`."""


class Worker:
    """Worker that drives runs of its queues, at most `slots` concurrently.

    `async with Worker(runtime) as worker: await worker.work()`.

    A runtime can have one worker, in its event loop. When the worker ends, runs that it still
    drives become ready for other workers.
    """

    def __init__(
        self,
        runtime: Runtime,
        engine: Engine | None = None,
        *,
        name: str | None = None,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        slots: int = 8,
        agent_of: AgentOf | None = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Create a worker. `engine`: an open engine; None: one inside this worker. `name`: unique
        among living workers. `agent_of`: returns the agent of a run; None: the agent of that name
        in `runtime.agents`. `options`: see `WorkerOptions`.

        Raises AgentError(invalid) for an unprintable name, an unknown queue or an invalid schedule.
        """
        if unknown := options.keys() - WorkerOptions.__annotations__.keys():
            raise TypeError(f"Worker() got an unexpected keyword argument {min(unknown)!r}")
        lanes = options.get("lanes")
        self.slots, self.worker_id = slots, ""
        """`worker_id`: the worker's id in the journal; empty before `work`."""
        self._runtime, self._engine = runtime, engine or LocalEngine()
        self._grace_s = options.get("grace_s", 30.0)
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
        self._driving = Driving(runtime, self._engine, agent_of, options.get("deps_of"))
        poll_s = options.get("poll_s", 1.0)
        self._sweep = Sweep(
            runtime.journal, self._engine, self._driving, self._queues, poll_s=poll_s
        )
        self._ticking = Ticking(runtime, options.get("schedules") or {})
        self.registered = anyio.Event()
        """Set when the worker is registered and takes runs."""
        self._draining, self._at_once = anyio.Event(), anyio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.drain(at_once=True)

    @property
    def running(self) -> int:
        """Number of runs that it drives now."""
        return self._driving.running

    @property
    def deliveries(self) -> int:
        """Number of deliveries since it began."""
        return self._driving.deliveries

    @property
    def held_off(self) -> int:
        """Number of deliveries whose run could not be driven."""
        return self._driving.held_off

    def drain(self, *, at_once: bool = False) -> None:
        """Claim no more runs, and let active ones end within `grace_s` (`at_once`: without grace).
        The others become ready for other workers; then `work` returns. Idempotent.
        """
        self._sweep.end()
        self._draining.set()
        if at_once:
            self._at_once.set()

    async def work(self) -> None:
        """Work until `drain`. Cancellation drains without grace.

        Raises AgentError if the name is taken or the journal does not respond.
        """
        queue = self._runtime.journal.queue
        self.worker_id = self._sweep.worker = await queue.register(self._card())
        self.registered.set()
        await self._log_leases()
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

    async def _log_leases(self) -> None:
        """Log for how long dead processes on other hosts may still hold their runs."""
        with suppress(AgentError):
            driven = await self._runtime.journal.under_way(limit=LEASES_MOST)
            leases = [info.lease_s for info in driven if info.lease_s is not None]
            if leases:
                logger.info(
                    "%d runs are driven on other hosts: if one of these processes has died, the "
                    "last of their leases ends in %d s, and their runs are ready then",
                    len(leases),
                    max(ceil(max(leases)), 1),
                )

    async def _until_drained(self) -> None:
        try:
            await self._sweep.run()
            self._driving.closed = True
            await self._give_back()  # lets others drive these runs during the grace period
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
                "runs claimed by worker %s will be ready again when this process ends: %s",
                self._name,
                e.message,
            )

    async def _say_that_it_drains(self) -> None:
        try:
            await self._runtime.journal.queue.drain()
        except AgentError as e:
            logger.warning(
                "worker %s drains, but the journal could not record it: %s", self._name, e.message
            )

    async def _end_of_grace(self) -> None:
        """Stop the runs when their grace is over, or when the worker's task is cancelled."""
        try:
            await self._draining.wait()
            with anyio.move_on_after(self._grace_s):
                await self._at_once.wait()
        finally:
            with anyio.CancelScope(shield=True):
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
    """Return the name. Raises AgentError(invalid) if it contains invisible or control characters,
    because lists and logs show it.
    """
    if one_line(name, NAME_MOST) != name:
        reason = (
            f"a worker's name must be one line of at most {NAME_MOST} visible characters, "
            f"not '{one_line(revealed(name), 60)}'"
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
                    f"unknown queue {queue!r}: the configuration (`queues:`) has "
                    f"{', '.join(sorted(known))}"
                ),
            )
    if not queues or slots < 1:
        raise AgentError("invalid", "a worker needs at least one queue and one slot")
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
