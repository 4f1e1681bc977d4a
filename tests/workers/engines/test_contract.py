"""What every engine keeps to: the one inside a worker, and DBOS over SQLite and PostgreSQL."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.workers.engines.conftest import KEEPING, kill, opened
from treadle.errors import AgentError
from treadle.journal.engine import Engine, QueueLimits
from treadle.journal.queue import Ticket
from treadle.types import now

keeping_engines = pytest.mark.parametrize("kind", KEEPING, indirect=True)
LANES = {"default": QueueLimits()}


def tickets(count: int, *, prefix: str = "run", **what: object) -> list[Ticket]:
    begun = now()
    kinds = {"queue": "default", "priority": 0, "tenant": None, "delivery": 1, **what}
    return [
        Ticket(run_id=f"{prefix}_{n:04}", queued_at=begun + timedelta(microseconds=n), **kinds)
        for n in range(count)
    ]  # pyright: ignore[reportArgumentType]


class Deliveries:
    """Remembers what came; `hold` keeps deliveries under way until it is let go."""

    def __init__(self, *, hold: bool = False) -> None:
        self.got: list[Ticket] = []
        self.now: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        """Of each tenant, and all together as `*`."""
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
        with anyio.fail_after(30):
            while len(self.got) < count:
                await self._changed.wait()
        return [ticket.run_id for ticket in self.got]


async def settled(engine: Engine, done: Iterable[Ticket]) -> None:
    """Until the engine has noted that it is done with them."""
    left = list(done)
    with anyio.fail_after(30):
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
        await engine.submit(
            [
                *(
                    Ticket(**{**{f: getattr(t, f) for f in t.__struct_fields__}, "queue": "narrow"})
                    for t in given
                )
            ]
        )
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
    assert {thread.name for thread in threading.enumerate()} - before <= {"AnyIO worker thread"}


@keeping_engines
async def test_what_is_kept_is_there_for_the_next_worker(engine: Engine) -> None:
    given, first, second = tickets(6), Deliveries(hold=True), Deliveries()
    async with engine.delivering("worker_a", LANES, first, slots=2):
        await engine.submit(given)
        await first.come(2)
        first.let_go()
    async with engine.delivering("worker_b", LANES, second, slots=2):
        await second.come(6 - len(first.got))
        await settled(engine, given)
    assert sorted(
        [*(ticket.run_id for ticket in first.got), *(ticket.run_id for ticket in second.got)]
    ) == [ticket.run_id for ticket in given]


@keeping_engines
async def test_what_a_worker_had_that_was_killed_is_delivered_again(
    engine: Engine, holder: Callable[[str], subprocess.Popen[str]]
) -> None:
    given, deliveries = tickets(6), Deliveries()
    process = holder("worker_dead")
    await engine.submit(given)
    assert process.stdout is not None
    had = {(await to_thread.run_sync(process.stdout.readline)).strip() for _ in range(4)}
    kill(process)
    async with engine.delivering("worker_b", LANES, deliveries, slots=6):
        assert set(await deliveries.come(2)) == {ticket.run_id for ticket in given} - had
        assert await engine.forgotten(given[:0]) == []
        await engine.rescue({"worker_b"})
        await engine.rescue({"worker_b"})
        await deliveries.come(6)
        await settled(engine, given)
    assert sorted(ticket.run_id for ticket in deliveries.got) == [ticket.run_id for ticket in given]


@keeping_engines
async def test_what_a_living_worker_has_is_left_to_it(
    engine: Engine, holder: Callable[[str], subprocess.Popen[str]]
) -> None:
    given, deliveries = tickets(4), Deliveries()
    process = holder("worker_living")
    await engine.submit(given)
    assert process.stdout is not None
    for _ in range(4):
        await to_thread.run_sync(process.stdout.readline)
    async with engine.delivering("worker_b", LANES, deliveries, slots=6):
        await engine.rescue({"worker_b", "worker_living"})
        await engine.submit(tickets(1, prefix="next"))
        assert await deliveries.come(1) == ["next_0000"]
        assert await engine.forgotten(given) == []
    kill(process)


@keeping_engines
async def test_limits_hold_over_all_workers(
    engine: Engine, url: str, holder: Callable[[str], subprocess.Popen[str]]
) -> None:
    """One has 4 of the 5 that may run at once; here there is room for one."""
    process = holder("worker_living")
    await engine.submit(tickets(4))
    assert process.stdout is not None
    for _ in range(4):
        await to_thread.run_sync(process.stdout.readline)
    deliveries = Deliveries(hold=True)
    async with engine.delivering(
        "worker_b", {"default": QueueLimits(concurrency=5)}, deliveries, slots=6
    ):
        await engine.submit(tickets(3, prefix="next"))
        await deliveries.come(1)
        with anyio.move_on_after(0.3):
            await deliveries.come(2)
        assert len(deliveries.got) == 1
        kill(process)
        deliveries.let_go()


@keeping_engines
async def test_what_dbos_has_for_a_living_worker_and_lost_is_delivered_again(
    engine: Engine, holder: Callable[[str], subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are those of the worker here, as a server leaves them that dies between a claim and
    what follows.
    """
    monkeypatch.setattr("treadle.workers.engines.dbos.engine.LOST_S", 0.05)
    given = tickets(2)
    async with engine.delivering("worker_a", {"other": QueueLimits()}, Deliveries(), slots=2):
        taker = holder("worker_a")
        assert taker.stdout is not None
        await engine.submit(given)
        assert {(await to_thread.run_sync(taker.stdout.readline)).strip() for _ in given}
        kill(taker)
        rows: Any = engine
        with anyio.fail_after(20):
            while len(await to_thread.run_sync(rows._store._rows, "ENQUEUED")) < len(given):
                await anyio.sleep(0.02)


@keeping_engines
async def test_a_worker_that_comes_with_other_slots_tells_that_they_are_now_everybodys(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine.delivering("worker_a", {"default": QueueLimits()}, Deliveries(), slots=2):
        pass
    async with engine.delivering("worker_a", {"default": QueueLimits()}, Deliveries(), slots=2):
        assert caplog.messages == []
    async with engine.delivering(
        "worker_b", {"default": QueueLimits(), "new": QueueLimits()}, Deliveries(), slots=3
    ):
        (told,) = caplog.messages
    assert "'default'" in told
    assert "up to 3 runs at once" in told
    assert "gave 2" in told


@keeping_engines
async def test_what_a_long_rate_counts_is_not_forgotten_and_all_else_is(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliveries, (first, second) = Deliveries(), tickets(2)
    async with engine.delivering(
        "worker_a", {"default": QueueLimits(rate=1, period_s=86_400)}, deliveries, slots=2
    ):
        await engine.submit([first])
        await deliveries.come(1)
        await settled(engine, [first])
        monkeypatch.setattr("treadle.workers.engines.dbos.store.KEPT", timedelta(0))
        await engine.rescue(["worker_a"])
    async with engine.delivering(
        "worker_a", {"default": QueueLimits(rate=2, period_s=86_400)}, deliveries, slots=2
    ):
        await engine.submit([second])
        await deliveries.come(2)
        await settled(engine, [second])
    rows: Any = engine
    assert len(rows._store._rows("SUCCESS")) == 2
    async with engine.delivering("worker_a", LANES, deliveries, slots=2):
        await engine.rescue(["worker_a"])
    assert rows._store._rows("SUCCESS") == []


class Newer(Ticket, frozen=True, kw_only=True):
    """Of a version whose tickets this one cannot read."""

    def to_json(self) -> bytes:
        return b'{"runs":["run_0000"]}'


@keeping_engines
async def test_a_ticket_that_cannot_be_read_is_forgotten_and_holds_up_nothing(
    engine: Engine,
) -> None:
    deliveries = Deliveries()
    strange, known = tickets(2)
    with anyio.fail_after(30):
        async with engine.delivering("worker_a", LANES, deliveries, slots=1):
            await engine.submit(
                [
                    Newer(**{name: getattr(strange, name) for name in strange.__struct_fields__}),
                    known,
                ]
            )
            assert await deliveries.come(1) == [known.run_id]
            await settled(engine, [strange, known])


@pytest.mark.parametrize("kind", ["local"], indirect=True)
async def test_a_queue_that_nobody_here_drives_is_refused(engine: Engine) -> None:
    with pytest.raises(AgentError, match="delivers only inside"):
        await engine.submit(tickets(1))
    async with engine.delivering("worker_a", LANES, Deliveries(), slots=2):
        with pytest.raises(AgentError, match="its queues: default"):
            await engine.submit(tickets(1, queue="other"))


@pytest.mark.parametrize("journal", ["memory:", "sqlite:memory"])
def test_a_journal_that_no_other_process_sees_is_none_for_dbos(journal: str) -> None:
    with pytest.raises(AgentError, match="several processes share") as caught:
        opened(journal)
    assert caught.value.kind == "invalid"
