"""Contract of engines, over the fixture `engine`: an open `Engine`, with its own journal if it needs
one. Import its tests: `from treadle.testing.contracts.engines import *`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from treadle.errors import AgentError
from treadle.journal.engine import Engine, QueueLimits
from treadle.journal.queue import Ticket
from treadle.types import now

LANES = {"default": QueueLimits()}


def tickets(count: int, *, prefix: str = "run", **what: Any) -> list[Ticket]:
    begun = now()
    kinds: dict[str, Any] = {
        "queue": "default",
        "priority": 0,
        "tenant": None,
        "delivery": 1,
        **what,
    }
    return [
        Ticket(run_id=f"{prefix}_{n:04}", queued_at=begun + timedelta(microseconds=n), **kinds)
        for n in range(count)
    ]


class Deliveries:
    """Record of deliveries. With `hold`, each lasts until `let_go`."""

    def __init__(self, *, hold: bool = False) -> None:
        self.got: list[Ticket] = []
        self.now: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        """Highest count of each tenant, and of all together as `*`."""
        self._changed = anyio.Event()
        self._go = anyio.Event()
        if not hold:
            self._go.set()

    async def __call__(self, ticket: Ticket) -> None:
        self.got.append(ticket)
        self.now.update([ticket.tenant, "*"])
        self.most |= self.now
        self._changed.set()
        self._changed = anyio.Event()
        try:
            await self._go.wait()
            await anyio.lowlevel.checkpoint()
        finally:
            self.now.subtract([ticket.tenant, "*"])

    def let_go(self) -> None:
        self._go.set()

    async def come(self, count: int) -> list[str]:
        with anyio.fail_after(80):
            while len(self.got) < count:
                await self._changed.wait()
        return [ticket.run_id for ticket in self.got]


async def settled(engine: Engine, done: Iterable[Ticket]) -> None:
    """Wait until the engine has noted the end of these deliveries."""
    left = list(done)
    with anyio.fail_after(80):
        while len(await engine.forgotten(left)) < len(left):
            await anyio.sleep(0.01)


async def test_each_run_that_was_submitted_is_delivered_once(engine: Engine) -> None:
    given, deliveries = tickets(60), Deliveries()
    async with engine.delivering("worker_a", LANES, deliveries, slots=8):
        await engine.submit(given)
        await deliveries.come(60)
        await settled(engine, given)
    assert sorted(ticket.run_id for ticket in deliveries.got) == [ticket.run_id for ticket in given]
    assert {ticket for ticket in deliveries.got} == set(given)
    assert deliveries.most["*"] <= 8


async def test_a_run_that_is_submitted_twice_is_delivered_once(engine: Engine) -> None:
    given, deliveries = tickets(5), Deliveries(hold=True)
    async with engine.delivering("worker_a", LANES, deliveries, slots=20):
        await engine.submit(given)
        await engine.submit(given)
        await deliveries.come(5)
        await engine.submit([*given, *tickets(1, prefix="other")])
        assert len(set(await deliveries.come(6))) == 6
        deliveries.let_go()
    assert len(deliveries.got) == 6


async def test_a_further_delivery_of_a_run_is_one_of_its_own(engine: Engine) -> None:
    deliveries = Deliveries()
    async with engine.delivering("worker_a", LANES, deliveries, slots=2):
        await engine.submit(tickets(1))
        await deliveries.come(1)
        await engine.submit(tickets(1, delivery=2))
        await deliveries.come(2)
    assert [ticket.delivery for ticket in deliveries.got] == [1, 2]


async def test_the_higher_priority_goes_first(engine: Engine) -> None:
    deliveries = Deliveries()
    given = [
        ticket
        for priority in (0, -1000, 5, 1000, -3)
        for ticket in tickets(1, prefix=f"p{priority}", priority=priority)
    ]
    blocker = tickets(1, prefix="first", priority=1000, queue="narrow")
    lanes = {"narrow": QueueLimits(concurrency=1)}
    gate = Deliveries(hold=True)

    async def deliver(ticket: Ticket) -> None:
        await (gate if ticket.run_id == "first_0000" else deliveries)(ticket)

    async with engine.delivering("worker_a", lanes, deliver, slots=4):
        await engine.submit(blocker)
        await gate.come(1)
        await engine.submit([msgspec.structs.replace(ticket, queue="narrow") for ticket in given])
        gate.let_go()
        came = await deliveries.come(5)
    assert came == ["p1000_0000", "p5_0000", "p0_0000", "p-3_0000", "p-1000_0000"]


async def test_a_queue_runs_no_more_at_once_than_it_allows_and_others_go_on(engine: Engine) -> None:
    narrow, wide = Deliveries(), Deliveries()
    lanes = {"narrow": QueueLimits(concurrency=2), "wide": QueueLimits()}

    async def deliver(ticket: Ticket) -> None:
        await (narrow if ticket.queue == "narrow" else wide)(ticket)

    async with engine.delivering("worker_a", lanes, deliver, slots=10):
        await engine.submit(
            [
                *tickets(12, prefix="narrow", queue="narrow"),
                *tickets(12, prefix="wide", queue="wide"),
            ]
        )
        await narrow.come(12)
        await wide.come(12)
    assert narrow.most["*"] <= 2


async def test_a_tenant_that_floods_a_queue_does_not_hold_up_the_others(engine: Engine) -> None:
    deliveries = Deliveries(hold=True)
    async with engine.delivering(
        "worker_a", {"default": QueueLimits(per_tenant=2)}, deliveries, slots=10
    ):
        await engine.submit(
            [
                *tickets(20, prefix="a", tenant="a"),
                *tickets(3, prefix="b", tenant="b"),
                *tickets(3, prefix="none"),
            ]
        )
        await deliveries.come(6)
        assert Counter(ticket.tenant for ticket in deliveries.got) == {"a": 2, "b": 2, None: 2}
        deliveries.let_go()
        await deliveries.come(26)
    assert max(deliveries.most[tenant] for tenant in ("a", "b", None)) <= 2


async def test_a_queue_delivers_no_more_in_a_period_than_its_rate(engine: Engine) -> None:
    deliveries = Deliveries()
    async with engine.delivering(
        "worker_a", {"default": QueueLimits(rate=3, period_s=3600)}, deliveries, slots=10
    ):
        await engine.submit(tickets(10))
        await deliveries.come(3)
        with anyio.move_on_after(0.3):
            await deliveries.come(4)
    assert len(deliveries.got) == 3


async def test_what_the_rate_held_back_comes_in_the_next_period(engine: Engine) -> None:
    deliveries = Deliveries()
    async with engine.delivering(
        "worker_a", {"default": QueueLimits(rate=3, period_s=0.2)}, deliveries, slots=10
    ):
        await engine.submit(tickets(7))
        await deliveries.come(7)


async def test_a_run_that_was_put_off_comes_at_its_time_and_not_before(engine: Engine) -> None:
    deliveries, (ticket,) = Deliveries(), tickets(1)
    async with engine.delivering("worker_a", LANES, deliveries, slots=2):
        await engine.submit([ticket])
        await deliveries.come(1)
        at = now() + timedelta(seconds=0.5)
        await engine.wake(ticket, at)
        assert await engine.forgotten([ticket]) == [] or not engine.keeps
        await deliveries.come(2)
        assert now() >= at


async def test_a_cancelled_run_is_not_delivered(engine: Engine) -> None:
    first, second = Deliveries(hold=True), Deliveries()
    lanes = {"default": QueueLimits(concurrency=1)}

    async def deliver(ticket: Ticket) -> None:
        await (first if not first.got else second)(ticket)

    async with engine.delivering("worker_a", lanes, deliver, slots=4):
        await engine.submit(tickets(1, prefix="holds"))
        await first.come(1)
        await engine.submit(tickets(3))
        await engine.cancel("run_0001")
        await engine.cancel("run_9999")
        assert [ticket.run_id for ticket in await engine.forgotten(tickets(3))] == ["run_0001"]
        first.let_go()
        assert await second.come(2) == ["run_0000", "run_0002"] or sorted(await second.come(2)) == [
            "run_0000",
            "run_0002",
        ]
        await settled(engine, tickets(3))
    assert len(second.got) == 2


async def test_what_it_never_heard_of_and_what_it_is_done_with_is_forgotten(engine: Engine) -> None:
    deliveries, held = Deliveries(), Deliveries(hold=True)

    async def deliver(ticket: Ticket) -> None:
        await (held if ticket.run_id.startswith("held") else deliveries)(ticket)

    done, under_way, unknown = (
        tickets(2, prefix="done"),
        tickets(2, prefix="held"),
        tickets(2, prefix="unknown"),
    )
    async with engine.delivering("worker_a", LANES, deliver, slots=4):
        await engine.submit([*done, *under_way])
        await deliveries.come(2)
        await held.come(2)
        await settled(engine, done)
        assert await engine.forgotten([*done, *under_way, *unknown]) == [*done, *unknown]
        assert await engine.forgotten([]) == []
        held.let_go()


async def test_leaving_waits_for_what_is_under_way_and_begins_nothing_more(engine: Engine) -> None:
    deliveries = Deliveries(hold=True)
    left = anyio.Event()

    async def leave() -> None:
        async with engine.delivering("worker_a", LANES, deliveries, slots=2):
            await engine.submit(tickets(6))
            await deliveries.come(2)
        left.set()

    async with anyio.create_task_group() as group:
        group.start_soon(leave)
        await deliveries.come(2)
        with anyio.move_on_after(0.2):
            await left.wait()
        assert not left.is_set()
        deliveries.let_go()
    assert left.is_set()
    assert len(deliveries.got) == 2


async def test_what_goes_wrong_inside_comes_out_as_it_was_raised(engine: Engine) -> None:
    async def go_wrong() -> None:
        async with engine.delivering("worker_a", LANES, Deliveries(hold=True), slots=2):
            await engine.submit(tickets(3))
            raise AgentError("agent", "as it was")

    with pytest.raises(AgentError, match="as it was"):
        await go_wrong()


async def test_who_is_cancelled_leaves_no_thread_behind(engine: Engine) -> None:
    before, deliveries = {thread.name for thread in threading.enumerate()}, Deliveries(hold=True)
    with anyio.CancelScope() as scope:
        async with engine.delivering("worker_a", LANES, deliveries, slots=2):
            await engine.submit(tickets(3))
            await deliveries.come(2)
            scope.cancel()
            await anyio.sleep_forever()
    before.add("AnyIO worker thread")
    with anyio.fail_after(80):  # a journal that connects again has a timer meanwhile
        while {thread.name for thread in threading.enumerate()} - before:
            await anyio.sleep(0.01)
