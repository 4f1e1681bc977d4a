"""The engine inside a worker keeps its limits under any load, and time is its clock's."""

from __future__ import annotations

from collections import Counter, deque
from datetime import timedelta

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.journal.engine import QueueLimits
from treadle.journal.queue import Ticket
from treadle.testing import FakeClock
from treadle.types import now
from treadle.workers.engines.local import HELD_MOST, MORE, LocalEngine

limit = st.none() | st.integers(1, 4)
limited = st.builds(QueueLimits, concurrency=limit, per_tenant=limit)
rated = st.builds(
    QueueLimits,
    concurrency=limit,
    per_tenant=limit,
    rate=limit,
    period_s=st.sampled_from([1.0, 5.0]),
)
lanes = st.fixed_dictionaries({"a": rated}, optional={"b": limited})
"""One with a rate: of two that wait, the clock of a test would jump for one while the other begins.
"""
loads = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from([None, "x", "y"]),
        st.integers(-2, 2),
        st.integers(0, 3),
    ),
    max_size=40,
)


@settings(max_examples=50, deadline=None)
@given(lanes, loads, st.integers(1, 6))
def test_any_load_is_delivered_once_within_every_limit(
    lanes: dict[str, QueueLimits], load: list[tuple[str, str | None, int, int]], slots: int
) -> None:
    begun = now()
    tickets = [
        Ticket(
            run_id=f"run_{n}",
            queue=queue,
            tenant=tenant,
            priority=priority,
            delivery=1,
            queued_at=begun + timedelta(microseconds=n),
        )
        for n, (queue, tenant, priority, _) in enumerate(load)
        if queue in lanes
    ]
    anyio.run(
        _deliver_all,
        lanes,
        tickets,
        {f"run_{n}": steps for n, (*_, steps) in enumerate(load)},
        slots,
    )


async def _deliver_all(
    lanes: dict[str, QueueLimits], tickets: list[Ticket], steps: dict[str, int], slots: int
) -> None:
    clock, under_way, got = FakeClock(), list[Ticket](), list[str]()
    began: dict[str, deque[float]] = {queue: deque() for queue in lanes}
    done = anyio.Event()

    async def deliver(ticket: Ticket) -> None:
        under_way.append(ticket)
        began[ticket.queue].append(clock.monotonic())
        _check(lanes, under_way, began, clock.monotonic(), slots)
        for _ in range(steps[ticket.run_id]):
            await checkpoint()
        under_way.remove(ticket)
        got.append(ticket.run_id)
        if len(got) == len(tickets):
            done.set()

    engine = LocalEngine(clock=clock)
    async with engine.delivering("worker", lanes, deliver, slots=slots):
        await engine.submit(tickets)
        with anyio.fail_after(10):
            await (done.wait() if tickets else checkpoint())
    assert sorted(got) == sorted(ticket.run_id for ticket in tickets)
    assert engine.free() == 0


def _check(
    lanes: dict[str, QueueLimits],
    under_way: list[Ticket],
    began: dict[str, deque[float]],
    at: float,
    slots: int,
) -> None:
    assert len(under_way) <= slots
    for queue, lane in lanes.items():
        mine = [ticket for ticket in under_way if ticket.queue == queue]
        assert lane.concurrency is None or len(mine) <= lane.concurrency
        assert (
            lane.per_tenant is None
            or max(Counter(ticket.tenant for ticket in mine).values(), default=0) <= lane.per_tenant
        )
        assert (
            lane.rate is None
            or len([time for time in began[queue] if time > at - lane.period_s]) <= lane.rate
        )


def _tickets(count: int, **what: object) -> list[Ticket]:
    kinds = {
        "queue": "default",
        "priority": 0,
        "tenant": None,
        "delivery": 1,
        "queued_at": now(),
        **what,
    }
    return [Ticket(run_id=f"run_{n}", **kinds) for n in range(count)]  # pyright: ignore[reportArgumentType]


async def test_it_takes_as_many_as_it_has_slots_and_a_few_more() -> None:
    async def hold(_: Ticket) -> None:
        await anyio.sleep_forever()

    engine = LocalEngine()
    assert engine.free() == 0
    with anyio.CancelScope() as scope:
        async with engine.delivering("worker", {"default": QueueLimits()}, hold, slots=4):
            assert engine.free() == 4 + MORE
            await engine.submit(_tickets(3))
            assert engine.free() == 1 + MORE
            await engine.submit(_tickets(6))
            assert engine.free() == 0
            scope.cancel()
            await checkpoint()


async def test_what_its_limits_hold_back_does_not_keep_others_from_being_fetched() -> None:
    async def hold(_: Ticket) -> None:
        await anyio.sleep_forever()

    engine = LocalEngine()
    with anyio.CancelScope() as scope:
        async with engine.delivering(
            "worker", {"default": QueueLimits(per_tenant=1)}, hold, slots=4
        ):
            await engine.submit(_tickets(20, tenant="floods"))
            assert engine.free() == 3 + MORE
            await engine.submit([*_tickets(HELD_MOST + 20, tenant="floods")])
            assert engine.free() == 3 + MORE
            # so many and no more: what is held here is with no other worker
            assert not engine.takes("default")
            scope.cancel()
            await checkpoint()


async def test_a_queue_that_lets_nobody_through_is_not_fetched_from_and_others_are() -> None:
    async def hold(_: Ticket) -> None:
        await anyio.sleep_forever()

    engine = LocalEngine()
    with anyio.CancelScope() as scope:
        async with engine.delivering(
            "worker", {"full": QueueLimits(concurrency=1), "other": QueueLimits()}, hold, slots=4
        ):
            await engine.submit(_tickets(MORE, queue="full"))
            assert engine.takes("full")
            await engine.submit(_tickets(2 * MORE, queue="full")[MORE:])
            assert not engine.takes("full")
            assert engine.takes("other")
            assert engine.free() == 3 + MORE
            scope.cancel()
            await checkpoint()


async def test_time_is_that_of_its_clock() -> None:
    clock, came = FakeClock(), anyio.Event()

    async def deliver(_: Ticket) -> None:
        came.set()

    engine = LocalEngine(clock=clock)
    async with engine.delivering("worker", {"default": QueueLimits()}, deliver, slots=4):
        await engine.wake(_tickets(1)[0], now() + timedelta(hours=1))
        with anyio.fail_after(20):
            await came.wait()
    assert clock.time_s == pytest.approx(3600, abs=5)
