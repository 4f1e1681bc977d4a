"""Engine inside one worker: queues runs in memory, and counts the limits in this process.

It stores nothing; the worker's claims are in the journal. Entry point: `LocalEngine`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from anyio.abc import TaskGroup

from treadle._internal.clock import Clock
from treadle.errors import AgentError
from treadle.journal.engine import Deliver, Engine, QueueLimits
from treadle.journal.queue import Ticket
from treadle.types import Time, now
from treadle.workers.engines.bare_group import bare_group
from treadle.workers.engines.lane_state import LaneState

MORE: Final = 2
"""Number of runs taken beyond the free slots, so that no slot waits for a claim."""
HELD_MOST: Final = 256
"""Approximate maximum of waiting runs in a lane. It exceeds the slots, because runs of tenants
below their limits may be queued behind others.
"""


class LocalEngine:
    """Engine for one worker, in one event loop."""

    name = "local"
    keeps = False
    counts_globally = False

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._lanes: dict[str, LaneState] = {}
        self._known: set[tuple[str, int]] = set()
        """Id and delivery number of each run that waits, sleeps or is being driven."""
        self._slots = self._running = self._submitted = 0
        self._deliver: Deliver | None = None
        """None before and after `delivering`, when no run begins."""
        self._deliveries: TaskGroup | None = None
        self._sleepers: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    @asynccontextmanager
    async def delivering(
        self, worker: str, lanes: Mapping[str, QueueLimits], deliver: Deliver, *, slots: int
    ) -> AsyncGenerator[None]:
        if self._lanes:
            raise AgentError(
                "busy", f"this engine already delivers to another worker: create one for {worker}"
            )
        self._lanes = {name: LaneState(lane) for name, lane in lanes.items()}
        self._slots, self._deliver = slots, deliver
        try:
            async with bare_group() as self._deliveries, bare_group() as self._sleepers:
                try:
                    yield
                finally:
                    self._deliver = None
                    self._sleepers.cancel_scope.cancel()
        finally:
            self._lanes, self._running = {}, 0
            self._known.clear()

    def free(self) -> int:
        if self._deliver is None:
            return 0
        could = sum(lane.ready(self._clock.monotonic()) for lane in self._lanes.values())
        return max(0, self._slots + MORE - self._running - could)

    def takes(self, queue: str) -> bool:
        """Return True if the engine should take more runs of the queue.

        Other workers cannot drive runs that wait here, so a blocked lane takes only a few.
        """
        lane = self._lanes.get(queue)
        return lane is not None and lane.waiting < (
            HELD_MOST if lane.has_room(self._clock.monotonic()) else MORE
        )

    async def submit(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self._lane(ticket)
        for ticket in tickets:
            if self._is_new(ticket):
                self._add(ticket)
        self._begin()

    async def wake(self, ticket: Ticket, at: Time) -> None:
        self._lane(ticket)
        assert self._sleepers is not None, "there is a lane only while it delivers"
        self._sleepers.start_soon(self._later, ticket, (at - now()).total_seconds())

    async def cancel(self, run_id: str) -> None:
        for lane in self._lanes.values():
            for ticket in lane.drop(run_id):
                self._known.discard((run_id, ticket.delivery))

    async def rescue(self, living: Collection[str]) -> None:
        """Do nothing: the journal makes the claims of dead workers ready again."""

    async def forgotten(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        return [ticket for ticket in tickets if (ticket.run_id, ticket.delivery) not in self._known]

    # ------------------------------------------------------------ delivery

    def _lane(self, ticket: Ticket) -> LaneState:
        if (lane := self._lanes.get(ticket.queue)) is None:
            known = ", ".join(sorted(self._lanes)) or "none: it delivers only inside `delivering`"
            raise AgentError(
                "invalid",
                (
                    f"this engine does not deliver the queue {ticket.queue!r} of run "
                    f"{ticket.run_id}; its queues: {known}"
                ),
            )
        return lane

    def _is_new(self, ticket: Ticket) -> bool:
        key = (ticket.run_id, ticket.delivery)
        if key in self._known:
            return False
        self._known.add(key)
        return True

    def _add(self, ticket: Ticket) -> None:
        self._submitted += 1
        self._lane(ticket).add(ticket, self._submitted)

    async def _later(self, ticket: Ticket, seconds: float) -> None:
        await self._clock.sleep(max(seconds, 0.0))
        if self._deliver is not None:
            # the delivery that delayed the run may still be active
            self._known.add((ticket.run_id, ticket.delivery))
            self._add(ticket)
            self._begin()

    def _begin(self) -> None:
        """Start all runs that may begin now, in order."""
        if self._deliver is None or self._deliveries is None:
            return
        while self._running < self._slots:
            at = self._clock.monotonic()
            heads = [
                (head, name)
                for name, lane in self._lanes.items()
                if (head := lane.head(at)) is not None
            ]
            if not heads:
                break
            lane = self._lanes[min(heads)[1]]
            ticket = lane.take(at)
            self._running += 1
            self._deliveries.start_soon(partial(self._drive, self._deliver, lane, ticket))
        self._begin_later()

    def _begin_later(self) -> None:
        """Schedule the next start of each lane that waits for its rate limit."""
        at = self._clock.monotonic()
        for lane in self._lanes.values():
            if (
                (seconds := lane.opens_in(at)) is not None
                and not lane.watched
                and self._sleepers is not None
            ):
                lane.watched = True
                self._sleepers.start_soon(self._reopen, lane, seconds)

    async def _reopen(self, lane: LaneState, seconds: float) -> None:
        await self._clock.sleep(seconds)
        lane.watched = False
        self._begin()

    async def _drive(self, deliver: Deliver, lane: LaneState, ticket: Ticket) -> None:
        try:
            await deliver(ticket)
        finally:
            self._running -= 1
            self._known.discard((ticket.run_id, ticket.delivery))
            lane.ended(ticket)
            self._begin()


if TYPE_CHECKING:
    _: Engine = LocalEngine()
