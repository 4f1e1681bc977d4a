"""Waiting runs of one lane, and usage of its limits in this process. Entry point: `LaneState`."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from typing import TypeAlias

from treadle.journal.engine import QueueLimits
from treadle.journal.queue import Ticket
from treadle.types import Time

Place: TypeAlias = tuple[int, Time, int]
"""Sort key: priority, age, order of submission. The smallest goes first."""


class LaneState:
    def __init__(self, lane: QueueLimits) -> None:
        self.watched = False
        """True if a task is waiting for the rate limit to allow the next run."""
        self.waiting = 0
        self._lane = lane
        self._heaps: dict[str | None, list[tuple[Place, Ticket]]] = {}
        """Non-empty heaps, by tenant."""
        self._running: Counter[str | None] = Counter()
        self._began: deque[float] = deque()
        """Start times of the deliveries in the last period."""

    def add(self, ticket: Ticket, number: int) -> None:
        self.waiting += 1
        heapq.heappush(
            self._heaps.setdefault(ticket.tenant, []),
            ((-ticket.priority, ticket.queued_at, number), ticket),
        )

    def head(self, at: float) -> Place | None:
        """Return the sort key of the next run that may begin; None if none may."""
        return (
            min(
                (heap[0][0] for tenant, heap in self._heaps.items() if self._room_of(tenant) > 0),
                default=None,
            )
            if self._room(at) > 0
            else None
        )

    def take(self, at: float) -> Ticket:
        """Remove and return the run of `head`."""
        tenant = min(
            (heap[0][0], tenant)
            for tenant, heap in self._heaps.items()
            if self._room_of(tenant) > 0
        )[1]
        ticket = heapq.heappop(self._heaps[tenant])[1]
        if not self._heaps[tenant]:
            del self._heaps[tenant]
        self.waiting -= 1
        self._running[tenant] += 1
        if self._lane.rate is not None:
            self._began.append(at)
        return ticket

    def ended(self, ticket: Ticket) -> None:
        self._running[ticket.tenant] -= 1
        if not self._running[ticket.tenant]:
            del self._running[ticket.tenant]

    def drop(self, run_id: str) -> list[Ticket]:
        dropped = [
            ticket for heap in self._heaps.values() for _, ticket in heap if ticket.run_id == run_id
        ]
        for ticket in dropped:
            left = [held for held in self._heaps[ticket.tenant] if held[1] is not ticket]
            heapq.heapify(left)
            self.waiting -= 1
            if left:
                self._heaps[ticket.tenant] = left
            else:
                del self._heaps[ticket.tenant]
        return dropped

    def ready(self, at: float) -> int:
        """Return the number of waiting runs that could begin if there were enough slots."""
        room = self._room(at)
        return (
            int(
                min(
                    room,
                    sum(
                        min(len(heap), self._room_of(tenant))
                        for tenant, heap in self._heaps.items()
                    ),
                )
            )
            if self.waiting
            else 0
        )

    def has_room(self, at: float) -> bool:
        """Return True if the lane's own limits, excluding those per tenant, allow another run."""
        return self._room(at) > 0

    def opens_in(self, at: float) -> float | None:
        """Return the seconds until the rate limit allows a waiting run; None if none waits."""
        if not self.waiting or self._rate_left(at) > 0:
            return None
        return max(self._began[0] + self._lane.period_s - at, 0.0)

    def _room(self, at: float) -> float:
        most = self._lane.concurrency
        return min(
            float("inf") if most is None else most - self._running.total(), self._rate_left(at)
        )

    def _room_of(self, tenant: str | None) -> float:
        most = self._lane.per_tenant
        return float("inf") if most is None else most - self._running[tenant]

    def _rate_left(self, at: float) -> float:
        if self._lane.rate is None:
            return float("inf")
        while self._began and self._began[0] <= at - self._lane.period_s:
            self._began.popleft()
        return self._lane.rate - len(self._began)
