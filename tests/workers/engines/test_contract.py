"""What every engine keeps to: the one inside a worker, and DBOS over SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.workers.engines.conftest import KEEPING, Holder, opened
from treadle.apps.testing.contracts.engines import *  # noqa: F403  every test of the contract
from treadle.apps.testing.contracts.engines import LANES, Deliveries, settled, tickets
from treadle.errors import AgentError
from treadle.journal.engine import Engine, QueueLimits
from treadle.journal.queue import Ticket

keeping_engines = pytest.mark.parametrize("kind", KEEPING, indirect=True)


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
    engine: Engine, holder: Callable[[str], Holder]
) -> None:
    given, deliveries = tickets(6), Deliveries()
    process = holder("worker_dead")
    await engine.submit(given)
    had = {(await to_thread.run_sync(process.stdout.readline)).strip() for _ in range(4)}
    process.kill()
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
    engine: Engine, holder: Callable[[str], Holder]
) -> None:
    given, deliveries = tickets(4), Deliveries()
    process = holder("worker_living")
    await engine.submit(given)
    for _ in range(4):
        await to_thread.run_sync(process.stdout.readline)
    async with engine.delivering("worker_b", LANES, deliveries, slots=6):
        await engine.rescue({"worker_b", "worker_living"})
        await engine.submit(tickets(1, prefix="next"))
        assert await deliveries.come(1) == ["next_0000"]
        assert await engine.forgotten(given) == []
    process.kill()


@keeping_engines
async def test_limits_hold_over_all_workers(
    engine: Engine, url: str, holder: Callable[[str], Holder]
) -> None:
    """One has 4 of the 5 that may run at once; here there is room for one."""
    process = holder("worker_living")
    await engine.submit(tickets(4))
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
        process.kill()
        deliveries.let_go()


@keeping_engines
async def test_what_dbos_has_for_a_living_worker_and_lost_is_delivered_again(
    engine: Engine, holder: Callable[[str], Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are those of the worker here, as a server leaves them that dies between a claim and
    what follows.
    """
    monkeypatch.setattr("treadle.workers.engines.dbos.engine.LOST_S", 0.05)
    given = tickets(2)
    async with engine.delivering("worker_a", {"other": QueueLimits()}, Deliveries(), slots=2):
        taker = holder("worker_a")
        await engine.submit(given)
        assert {(await to_thread.run_sync(taker.stdout.readline)).strip() for _ in given}
        taker.kill()
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
    assert "up to 3 concurrent runs" in told
    assert "2 before" in told


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


def test_a_journal_over_several_databases_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"in one database.*use the engine `local`") as caught:
        opened(f"postgresql+shards:///{tmp_path}/shards.yaml")
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("journal", ["memory:", "sqlite:memory"])
def test_a_journal_that_no_other_process_sees_is_none_for_dbos(journal: str) -> None:
    with pytest.raises(AgentError, match="several processes share") as caught:
        opened(journal)
    assert caught.value.kind == "invalid"
