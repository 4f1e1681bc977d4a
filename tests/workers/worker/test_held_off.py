"""Runs that a worker has claimed and does not drive: what others did with them meanwhile stays, and
only deliveries count.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest

from tests.doubles import asks, call, says
from tests.journal.runs import resumed
from tests.workers.worker.conftest import beside, greeter, until, working
from treadle import Agent, Runtime, tool
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.queue import FRUITLESS_MOST, Ticket
from treadle.journal.run_info import RunInfo
from treadle.testing import ScriptedModel
from treadle.types import now
from treadle.workers.engines.local import LocalEngine
from treadle.workers.worker import Worker, sweep


async def held_off(worker: Worker) -> None:
    with anyio.fail_after(20):
        while not worker.held_off or worker.running:
            await anyio.sleep(0.01)


async def test_a_run_that_came_to_wait_meanwhile_goes_on_waiting(url: str) -> None:
    @tool(effect="once", needs_approval=True)
    def send() -> str:
        """Sends."""
        return "sent"

    asking = Agent(name="asker", model=ScriptedModel([asks(call("send", "c1"))]), tools=[send])
    async with Runtime.open(url) as here, beside(here, url) as there:
        run_id = await here.submit(asking, "go", on_ask="wait")

        async def deps_of(_: object) -> None:
            assert (await here.resume(run_id, asking)).waiting
            raise AgentError("agent", "the database of deps is down")

        async with working(there, deps_of=deps_of) as worker:
            await held_off(worker)
            assert (await here.journal.info(run_id)).status == "waiting"


async def test_a_run_that_was_woken_for_later_meanwhile_stays_for_later(url: str) -> None:
    at = now() + timedelta(hours=1)
    async with Runtime.open(url) as here, beside(here, url) as there:
        run_id = await here.submit(greeter(), "go")

        async def deps_of(_: object) -> None:
            await here.wake(run_id, at=at)
            raise AgentError("agent", "the database of deps is down")

        async with working(there, deps_of=deps_of) as worker:
            await held_off(worker)
            place = await here.journal.queue.place(run_id)
            assert place is not None
            assert place.ready_at == at


async def test_an_engine_that_takes_no_runs_parks_none(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(LocalEngine):
        tries = 0

        async def submit(self, tickets: Sequence[Ticket]) -> None:
            self.tries += 1
            raise AgentError("agent", "the engine's store does not answer")

    monkeypatch.setattr(sweep, "BACKOFF_MOST_S", 0.01)
    engine = Refusing()
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        run_id = await runtime.submit(greeter(), "greet")
        async with working(runtime, engine):
            with anyio.fail_after(20):
                while engine.tries < FRUITLESS_MOST + 2:
                    assert (await runtime.journal.info(run_id)).parked is None
                    await anyio.sleep(0.01)


async def test_workers_that_are_restarted_park_no_run_that_they_did_not_begin(url: str) -> None:
    """It stood behind another one in each of them."""
    begun, gate = anyio.Event(), anyio.Event()

    @tool(effect="pure")
    async def work() -> str:
        """Works."""
        begun.set()
        await gate.wait()
        return "worked"

    answers = [asks(call("work", "c1")), says("done")]
    busy = Agent(name="busy", model=ScriptedModel(answers), tools=[work])
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        runtime.agents.register(busy)
        await runtime.submit(busy, "work", priority=9)
        second = await runtime.submit(greeter(), "greet")
        for _ in range(FRUITLESS_MOST + 1):
            begun = anyio.Event()
            async with working(runtime, slots=1) as worker:
                with anyio.fail_after(20):
                    await begun.wait()
                    while not worker._driving.waiting:
                        await anyio.sleep(0.01)
                worker.drain(at_once=True)
            assert (await runtime.journal.info(second)).parked is None
        gate.set()


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_run_whose_driver_lived_again_and_died_is_driven_by_whoever_had_claimed_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver was suspended for as long as its lease, woke up and was killed."""
    psycopg = pytest.importorskip("psycopg")

    def renew(seconds: int) -> None:
        with psycopg.connect(url) as db:
            db.execute(
                "update treadle.workers set lease_until_us = treadle.now_us() + %s where id = "
                "(select owner from treadle.runs)",
                (seconds * 1_000_000,),
            )

    other = open_journal(url, lease_s=3600)
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        run_id = await runtime.submit(greeter(), "greet")
        driver = await other.take_over(run_id)
        await driver.append([resumed(driver.fence)])
        renew(-1)
        info, ignored = runtime.journal.info, anyio.Event()

        async def just_awake(run_id: str) -> RunInfo:
            if not ignored.is_set():
                renew(60)
                ignored.set()
            return await info(run_id)

        monkeypatch.setattr(runtime.journal, "info", just_awake)
        async with working(runtime) as worker:
            await ignored.wait()
            with anyio.fail_after(20):
                while worker.running:
                    await anyio.sleep(0.01)
            renew(-1)
            await until(runtime, run_id)
    await other.aclose()
