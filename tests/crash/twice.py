"""An engine that delivers too much: tickets twice at once, and again when they are long over.

Entry: `Twice`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio
import anyio.abc

from treadle.journal.engine import Deliver, Engine, QueueLimits
from treadle.journal.queue import Ticket
from treadle.types import Time


class Twice:
    """What `engine` delivers, and now and then once more, at once or later."""

    def __init__(self, engine: Engine, *, later_s: float = 2.0, seed: int | None = None) -> None:
        self._engine, self._later_s = engine, later_s
        self._chance = random.Random(seed)
        self.doubled = 0

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._engine.__aexit__(*exc)

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def keeps(self) -> bool:
        return self._engine.keeps

    @property
    def counts_globally(self) -> bool:
        return self._engine.counts_globally

    @asynccontextmanager
    async def delivering(
        self, worker: str, lanes: Mapping[str, QueueLimits], deliver: Deliver, *, slots: int
    ) -> AsyncGenerator[None]:
        further: list[anyio.abc.TaskGroup] = []

        async def again(ticket: Ticket, after_s: float) -> None:
            await anyio.sleep(after_s)
            await deliver(ticket)

        async def too_much(ticket: Ticket) -> None:
            for after_s in (0.0, self._chance.uniform(0, self._later_s)):
                if further and self._chance.random() < 0.5:
                    self.doubled += 1
                    further[0].start_soon(again, ticket, after_s)
            await deliver(ticket)

        async with (
            self._engine.delivering(worker, lanes, too_much, slots=slots),
            anyio.create_task_group() as group,
        ):
            further.append(group)
            try:
                yield
            finally:
                further.clear()
                group.cancel_scope.cancel()

    def takes(self, queue: str) -> bool:
        return self._engine.takes(queue)

    def free(self) -> int:
        return self._engine.free()

    async def submit(self, tickets: Sequence[Ticket]) -> None:
        await self._engine.submit(tickets)
        await self._engine.submit([ticket for ticket in tickets if self._chance.random() < 0.3])

    async def wake(self, ticket: Ticket, at: Time) -> None:
        await self._engine.wake(ticket, at)

    async def cancel(self, run_id: str) -> None:
        await self._engine.cancel(run_id)

    async def rescue(self, living: Collection[str]) -> None:
        await self._engine.rescue(living)
        await self._engine.rescue(living)

    async def forgotten(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        return await self._engine.forgotten(tickets)
