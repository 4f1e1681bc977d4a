"""Contract of an engine, which delivers queued runs to workers, and again when a worker dies.

The journal decides who drives: an engine's errors cost time, never an effect. Implementations are
in workers/engines/. Entry points: `Engine`, `QueueLimits`, `Deliver`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self, TypeAlias

from treadle.journal.queue import Ticket
from treadle.types import Time, Value


class QueueLimits(Value, frozen=True, kw_only=True):
    """Limits of a queue; None: no limit."""

    concurrency: int | None = None
    """Runs at once, over all workers where the engine can count them (`Engine.counts_globally`),
    else per worker.
    """
    per_tenant: int | None = None
    """Runs at once for one tenant; None: no limit. Runs without a tenant are counted together."""
    rate: int | None = None
    """Deliveries in `period_s` seconds; None: no limit."""
    period_s: float = 60.0


Deliver: TypeAlias = Callable[[Ticket], Awaitable[None]]
"""Drives the run until it is finished, waits, or was let go; raises nothing but what cancels the
task.
"""


class Engine(Protocol):
    """Usable inside `async with`. It belongs to one event loop, whatever threads it has."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def keeps(self) -> bool:
        """True if submitted runs are kept when this process dies: the queue marks them `sent`."""
        ...

    @property
    def counts_globally(self) -> bool: ...

    def delivering(
        self, worker: str, lanes: Mapping[str, QueueLimits], deliver: Deliver, *, slots: int
    ) -> AbstractAsyncContextManager[None]:
        """Context in which runs of the queues in `lanes` are delivered here, at most `slots` at
        once. `worker`: id of this worker.

        Leaving it starts no more deliveries and waits for those in progress: the caller makes sure
        that they end.
        """
        ...

    def free(self) -> int:
        """Maximum number of runs that it accepts now: unbounded for an engine that keeps them; else
        free slots and a few more.
        """
        ...

    def takes(self, queue: str) -> bool:
        """Return True if it accepts more runs of this queue, which must not block those of others."""
        ...

    async def submit(self, tickets: Sequence[Ticket]) -> None:
        """Each is to be delivered to some worker of its queue. Idempotent by run and delivery.

        All or nothing is known where it raises AgentError.
        """
        ...

    async def wake(self, ticket: Ticket, at: Time) -> None:
        """The same, not before that time: of a run that could not be driven where it was delivered."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Drops what was not delivered of it.

        Best effort: the delivery of a run that is over does nothing.
        """
        ...

    async def rescue(self, living: Collection[str]) -> None:
        """Delivers again what workers other than these had under way: they are dead. Idempotent."""
        ...

    async def forgotten(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Return the tickets that it will not deliver: unknown or finished ones."""
        ...
