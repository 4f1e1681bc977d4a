"""Contract of an engine, which delivers queued runs to workers, and redelivers them when a worker
dies.

The journal decides who drives: an engine's errors cost time, but never repeat an effect.
Implementations are in workers/engines/. Entry points: `Engine`, `QueueLimits`, `Deliver`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, TypeAlias

from treadle.journal.queue import Ticket
from treadle.types import Time, Value


class QueueLimits(Value, frozen=True, kw_only=True):
    """Limits of a queue; None means no limit."""

    concurrency: int | None = None
    """Concurrent runs, over all workers if the engine can count them (`Engine.counts_globally`),
    else per worker.
    """
    per_tenant: int | None = None
    """Concurrent runs of one tenant; None: no limit. Runs without a tenant are counted together."""
    rate: int | None = None
    """Deliveries per `period_s` seconds; None: no limit."""
    period_s: float = 60.0


Deliver: TypeAlias = Callable[[Ticket], Awaitable[None]]
"""Function that drives the run until it is finished, waits, or is released. Raises only on
cancellation of the task.
"""


class Engine(Protocol):
    """Engine, used inside `async with`. It belongs to one event loop, even if it has threads."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def keeps(self) -> bool:
        """True if submitted runs survive the death of this process: the queue marks them `sent`."""
        ...

    @property
    def counts_globally(self) -> bool: ...

    def delivering(
        self, worker: str, lanes: Mapping[str, QueueLimits], deliver: Deliver, *, slots: int
    ) -> AbstractAsyncContextManager[None]:
        """Open the context in which runs of the queues in `lanes` are delivered to this worker, at
        most `slots` concurrently. `worker`: its id.

        Leaving it starts no more deliveries and waits for those in progress; the caller makes sure
        that they end.
        """
        ...

    def free(self) -> int:
        """Return the maximum number of runs that the engine accepts now: unbounded for an engine
        with its own storage, else its free slots and a few more.
        """
        ...

    def takes(self, queue: str) -> bool:
        """Return True if it accepts more runs of this queue. A full queue must not block the
        others.
        """
        ...

    async def submit(self, tickets: Sequence[Ticket]) -> None:
        """Submit runs for delivery, each to a worker of its queue. Idempotent by run and delivery.

        AgentError means that none was submitted.
        """
        ...

    async def wake(self, ticket: Ticket, at: Time) -> None:
        """Submit a run that could not be driven where it was delivered, for delivery at `at` or
        later.
        """
        ...

    async def cancel(self, run_id: str) -> None:
        """Drop undelivered tickets of a run.

        Best effort, because delivering a finished run has no effect.
        """
        ...

    async def rescue(self, living: Collection[str]) -> None:
        """Redeliver the runs in progress at workers other than `living`, which are dead.
        Idempotent.
        """
        ...

    async def forgotten(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Return the tickets that it will not deliver, because they are unknown to it or
        finished.
        """
        ...
