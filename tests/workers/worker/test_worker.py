"""A worker drives what is queued, leaves what it cannot, and goes without losing anything."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio import to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.doubles import asks, call, says
from tests.loop.test_once_failures import no_descriptors
from tests.workers.engines.needs import need_dbos
from tests.workers.worker.conftest import beside, greeter, until, working
from treadle import Agent, Runtime, ToolContext, tool
from treadle.config.serving import Schedule
from treadle.errors import AgentError
from treadle.journal.engine import Deliver, QueueLimits
from treadle.journal.entries import ToolFinished, ToolStarted
from treadle.journal.queue import FRUITLESS_MOST, WorkerCard, WorkerInfo
from treadle.testing import ScriptedModel
from treadle.types import Outcome, now
from treadle.workers.engines.local import LocalEngine
from treadle.workers.worker import Worker, driving
from treadle.workers.worker.sweep import AUDIT_S, SENIORS, _is_gone  # pyright: ignore[reportPrivateUsage]  a reason to look


async def test_a_hundred_runs_are_driven_each_once(url: str) -> None:
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        submitted = [await runtime.submit(greeter(), f"greet {n}") for n in range(100)]
        async with working(runtime, slots=8) as worker:
            for run_id in submitted:
                await until(runtime, run_id)
        assert worker.deliveries == 100
        assert (worker.running, worker.held_off) == (0, 0)
        for run_id in submitted:
            assert (await runtime.replay(run_id)).text == "hello"


async def test_a_run_that_is_submitted_while_it_waits_begins_without_the_poll(url: str) -> None:
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        async with working(runtime, poll_s=1000):
            await until(runtime, await runtime.submit(greeter(), "greet"))


async def test_it_is_listed_while_it_works_and_its_name_is_its_own(url: str) -> None:
    async with Runtime.open(url) as runtime, working(runtime, name="alpha", slots=3) as worker:
        (listed,) = await runtime.journal.queue.workers()
        assert (
            listed.worker,
            listed.card.name,
            listed.card.slots,
            listed.card.engine,
            listed.alive,
        ) == (worker.worker_id, "alpha", 3, "local", True)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_two_workers_of_one_name_are_one_too_many(url: str) -> None:
    async with (
        Runtime.open(url) as runtime,
        Runtime.open(url) as other,
        working(runtime, name="alpha"),
    ):
        with pytest.raises(AgentError, match="alpha") as caught:
            await Worker(other, name="alpha").work()
        assert caught.value.kind == "busy"


async def test_agents_and_deps_come_from_who_knows_them(url: str) -> None:
    seen: list[object] = []

    @tool
    async def look(ctx: ToolContext[Any]) -> str:
        """Looks."""
        seen.append(ctx.deps)
        return "seen"

    async def agent_of(info: Any) -> Agent[Any, Any]:
        return Agent(
            name=info.agent, model=ScriptedModel([asks(call("look")), says("done")]), tools=[look]
        )

    async def deps_of(info: Any) -> str:
        return f"deps of {info.agent}"

    async with Runtime.open(url) as runtime:
        run_id = await runtime.submit(
            Agent(name="looker", model=ScriptedModel([says("never")]), tools=[look]), "look"
        )
        async with working(runtime, agent_of=agent_of, deps_of=deps_of):
            await until(runtime, run_id)
    assert seen == ["deps of looker"]


async def test_a_run_of_an_unknown_agent_is_held_off_and_parked_with_its_reason(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "HELD_OFF_S", 0.0)
    async with Runtime.open(url) as elsewhere, beside(elsewhere, url) as runtime:
        run_id = await elsewhere.submit(greeter("stranger"), "greet")
        async with working(runtime) as worker:
            await until(runtime, run_id, lambda info: info.parked is not None)
            assert worker.held_off == FRUITLESS_MOST
        (parked,) = await runtime.journal.queue.parked()
        assert "'stranger'" in parked.why
        runtime.agents.register(greeter("stranger"))
        async with working(runtime):
            await runtime.wake(run_id)
            await until(runtime, run_id)


async def test_a_run_that_is_held_off_does_not_come_before_its_time(url: str) -> None:
    async with Runtime.open(url) as elsewhere, beside(elsewhere, url) as runtime:
        runtime.agents.register(greeter())
        stranger, known = (
            await elsewhere.submit(greeter("stranger"), "greet", priority=5),
            await runtime.submit(greeter(), "greet"),
        )
        begun = now()
        async with working(runtime) as worker:
            await until(runtime, known)
            await _has_held_off(worker)
        place = await runtime.journal.queue.place(stranger)
        assert place is not None
        assert place.ready_at is not None
        assert place.ready_at >= begun + timedelta(seconds=driving.HELD_OFF_S)


async def _has_held_off(worker: Worker) -> None:
    """Wait until a run is held off; another one that came later may have ended before."""
    with anyio.fail_after(20):
        while not worker.held_off:
            await anyio.sleep(0.01)


async def test_what_an_application_raises_does_not_end_the_worker(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent_of(info: Any) -> Agent[Any, Any]:
        if info.agent == "broken":
            raise ValueError("no such luck")
        return greeter()

    async with Runtime.open(url) as runtime:
        await runtime.submit(greeter("broken"), "greet", priority=5)
        run_id = await runtime.submit(greeter(), "greet")
        async with working(runtime, agent_of=agent_of):
            await until(runtime, run_id)
    assert "no such luck" in caplog.text


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_worker_without_descriptors_takes_no_run_of_the_living_and_claims_again(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool(effect="once")
    async def pay() -> str:
        """Pays."""
        begun.set()
        await go.wait()
        return "paid"

    payer = Agent(name="payer", model=ScriptedModel([asks(call("pay")), says("done")]), tools=[pay])
    async with Runtime.open(url) as first, Runtime.open(url) as second:
        for runtime in (first, second):
            runtime.agents.register(greeter())
        paying = await second.submit(payer, "pay")
        with anyio.fail_after(30):
            async with working(second, name="second"):
                await begun.wait()
                async with working(first, name="first"):
                    with no_descriptors():
                        while "cannot claim runs for now" not in caplog.text:
                            await anyio.sleep(0.01)
                    run_id = await first.submit(greeter(), "hello")
                    await until(first, run_id)
                    go.set()
                    assert (await until(first, paying)).turns == 2
    assert "raise `ulimit -n`" in caplog.text


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_what_a_worker_leaves_when_it_drains_another_one_ends(url: str) -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool(effect="pure")
    async def wait() -> str:
        """Waits."""
        begun.set()
        await go.wait()
        return "waited"

    def waiter() -> Agent[Any, Any]:
        return Agent(
            name="waiter", model=ScriptedModel([asks(call("wait")), says("done")] * 2), tools=[wait]
        )

    async with Runtime.open(url) as first, Runtime.open(url) as second:
        first.agents.register(waiter())
        second.agents.register(
            Agent(name="waiter", model=ScriptedModel([says("done")] * 10), tools=[wait])
        )
        run_id = await first.submit(waiter(), "wait")
        waiting = [await first.submit(waiter(), "wait") for _ in range(3)]
        async with working(first, name="first", slots=1, grace_s=0.0) as worker:
            with anyio.fail_after(10):
                await begun.wait()
            worker.drain()
        info = await first.journal.info(run_id)
        assert info.status == "queued"
        assert {(await first.journal.info(one)).status for one in waiting} == {"queued"}
        go.set()
        async with working(second, name="second"):
            await until(second, run_id)
        assert (await second.replay(run_id)).outcome is Outcome.COMPLETED


async def test_who_drains_lets_runs_end_within_its_grace(url: str) -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await go.wait()
        return "waited"

    agent = Agent(
        name="waiter", model=ScriptedModel([asks(call("wait")), says("done")]), tools=[wait]
    )
    async with Runtime.open(url) as runtime:
        runtime.agents.register(agent)
        run_id = await runtime.submit(agent, "wait")
        async with working(runtime) as worker:
            with anyio.fail_after(10):
                await begun.wait()
            worker.drain()
            worker.drain()
            late = await runtime.submit(agent, "wait")
            go.set()
            await until(runtime, run_id)
        assert (await runtime.journal.info(late)).status == "queued"
        assert (await runtime.replay(run_id)).outcome is Outcome.COMPLETED


async def test_a_run_whose_claim_was_under_way_at_the_drain_goes_to_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(name="quick", model=ScriptedModel([says("done")]))
    async with Runtime.open(url) as runtime:
        runtime.agents.register(agent)
        queue = type(runtime.journal.queue)
        claim, drained = queue.claim, anyio.Event()
        workers: list[Worker] = []

        async def claims(self: Any, *queues: Any, **options: Any) -> Any:
            tickets = await claim(self, *queues, **options)
            if tickets:
                workers[0].drain()
                drained.set()
            return tickets

        monkeypatch.setattr(queue, "claim", claims)
        async with working(runtime) as worker:
            workers.append(worker)
            run_id = await runtime.submit(agent, "go")
            with anyio.fail_after(10):
                await drained.wait()
        assert (await runtime.journal.info(run_id)).status == "queued"


async def test_a_worker_whose_task_is_cancelled_ends_no_run(url: str) -> None:
    begun = anyio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await anyio.sleep_forever()
        return "never"

    agent = Agent(name="waiter", model=ScriptedModel([asks(call("wait"))]), tools=[wait])
    async with Runtime.open(url) as runtime:
        runtime.agents.register(agent)
        run_id = await runtime.submit(agent, "wait")
        async with anyio.create_task_group() as group:
            group.start_soon(Worker(runtime, poll_s=0.05).work)
            with anyio.fail_after(10):
                await begun.wait()
            group.cancel_scope.cancel()
        assert (await runtime.journal.info(run_id)).status == "queued"


class Twice(LocalEngine):
    """Delivers each ticket twice at once."""

    def delivering(self, worker: str, lanes: Any, deliver: Deliver, *, slots: int) -> Any:
        async def twice(ticket: Any) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(deliver, ticket)
                group.start_soon(deliver, ticket)

        return super().delivering(worker, lanes, twice, slots=slots)


async def test_of_two_deliveries_of_one_ticket_one_drives(url: str) -> None:
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        submitted = [await runtime.submit(greeter(), "greet") for _ in range(20)]
        async with working(runtime, Twice()) as worker:
            for run_id in submitted:
                await until(runtime, run_id)
        assert worker.deliveries == 40
        for run_id in submitted:
            assert (await runtime.replay(run_id)).metrics.turns == 1


async def test_a_delivery_that_comes_again_or_late_is_ignored_with_its_reason(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "treadle")
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        run_id = await runtime.submit(greeter(), "greet")
        (ticket,) = await runtime.journal.queue.claim(["default"], engine="local", most=1)
        driver = driving.Driving(runtime, LocalEngine(), None, None)
        for _ in range(3):
            await driver.deliver(ticket)
        assert (await runtime.replay(run_id)).metrics.turns == 1
        await runtime.journal.remove([run_id])
        await driver.deliver(ticket)
        assert await runtime.journal.runs() == []
    said = [one.message for one in caplog.records if "ignored" in one.message]
    assert said == [
        *[f"ignored a delivery: run {run_id} is finished"] * 2,
        f"ignored a delivery: run {run_id} is no longer in the journal",
    ]
    assert driver.held_off == 0


async def test_a_run_that_waits_for_a_person_leaves_its_slot_and_goes_on_when_it_is_woken(
    url: str,
) -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    agent = Agent(
        name="payer",
        model=ScriptedModel([asks(call("pay", "c1", amount=5)), says("done")]),
        tools=[pay],
    )
    async with Runtime.open(url) as runtime:
        runtime.agents.register(agent)
        run_id = await runtime.submit(agent, "pay", on_ask="wait")
        async with working(runtime, slots=1) as worker:
            info = await until(runtime, run_id, lambda info: info.status in ("waiting", "finished"))
            if info.status == "waiting":
                await runtime.wake(run_id, approve=["c1"])
            await until(runtime, run_id)
            assert worker.held_off == 0
        assert (await runtime.replay(run_id)).outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queues": ["nightly"]}, "unknown queue 'nightly'"),
        ({"queues": []}, "at least"),
        ({"slots": 0}, "at least"),
        (
            {"name": "x" * 10_000},
            r"name must be one line of at most 100 visible characters, not 'x{59}…'$",
        ),
        ({"name": "a\nb\x1b[2J"}, r"not 'a b\\x1b\[2J'"),
        ({"name": "\u202ecod"}, r"not '\\u202ecod'"),
        ({"name": "\udcff"}, r"not '\\udcff'"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_what_cannot_be_is_said_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentError, match=words) as caught:
        Worker(Runtime(), **options)
    assert caught.value.kind == "invalid"


def test_an_option_that_no_worker_has_is_refused() -> None:
    options: dict[str, Any] = {"grace": 1.0}
    with pytest.raises(TypeError, match="unexpected keyword argument 'grace'"):
        Worker(Runtime(), **options)


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_a_call_that_ran_when_its_worker_was_killed_is_told_as_unknown_by_the_next_one(
    url: str, tmp_path: Path
) -> None:
    program = [sys.executable, "-m", "tests.workers.worker.dying", url, str(tmp_path / "effects")]
    process = subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src:."},
    )
    assert process.stdout is not None
    run_id = (await to_thread.run_sync(process.stdout.readline)).strip()
    assert await to_thread.run_sync(process.stdout.readline) == "called\n"
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    from tests.workers.worker.dying import caller

    async with Runtime.open(url) as runtime:
        runtime.agents.register(caller(tmp_path / "effects", script=[says("done")]))
        async with working(runtime):
            await until(runtime, run_id)
        entries = [record.entry for record in await runtime.journal.read(run_id)]
    assert (tmp_path / "effects").read_text() == "x"
    assert len([entry for entry in entries if isinstance(entry, ToolStarted)]) == 1
    (finished,) = [entry for entry in entries if isinstance(entry, ToolFinished)]
    assert finished.result.unknown


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_three_workers_make_one_run_of_a_tick(url: str) -> None:
    schedules = {"hourly": Schedule(agent="greeter", prompt="greet", cron="*/5 * * * *")}
    async with Runtime.open(url) as one, Runtime.open(url) as two, Runtime.open(url) as three:
        for runtime in (one, two, three):
            runtime.agents.register(greeter())
        async with (
            working(one, name="one", schedules=schedules),
            working(two, name="two", schedules=schedules),
            working(three, name="three", schedules=schedules),
        ):
            with anyio.fail_after(20):
                while not (found := await one.journal.runs()):
                    await anyio.sleep(0.01)
            await until(one, found[0].run_id)
        runs = await one.journal.runs()
    assert len(runs) in (1, 2)  # where a tick came in between
    assert all(run.run_id.startswith("hourly@") for run in runs)
    assert len({run.run_id for run in runs}) == len(runs)


async def test_a_schedule_whose_agent_is_unknown_is_told_and_ends_nothing(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    schedules = {"hourly": Schedule(agent="stranger", prompt="greet", cron="* * * * *")}
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        async with working(runtime, schedules=schedules):
            await until(runtime, await runtime.submit(greeter(), "greet"))
    assert "no agent 'stranger'" in caplog.text


class Absent:
    """A queue whose journal does not answer until it does."""

    def __init__(self, queue: Any) -> None:
        self._queue, self.away, self.asked = queue, False, 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def method(*args: Any, **kwargs: Any) -> Any:
            if self.away:
                self.asked += 1
                raise AgentError("agent", "the journal does not answer")
            return await getattr(self._queue, name)(*args, **kwargs)

        return method


async def test_a_journal_that_is_away_is_waited_for_and_told_once(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        absent = Absent(runtime.journal.queue)
        monkeypatch.setattr(runtime.journal, "queue", absent)
        async with working(runtime, poll_s=0.01):
            absent.away = True
            with anyio.fail_after(10), caplog.at_level(logging.WARNING):
                while absent.asked < 3:
                    await anyio.sleep(0.01)
                absent.away = False
                await until(runtime, await runtime.submit(greeter(), "greet"))
    told = [record.message for record in caplog.records if "claim" in record.message]
    assert len(told) == 2
    assert "cannot claim runs for now" in told[0]
    assert "claims runs again" in told[1]


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_with_dbos_the_runs_are_driven_too_and_what_it_forgot_is_delivered_all_the_same(
    url: str,
) -> None:
    need_dbos(url)
    from treadle.workers.engines.dbos import DbosEngine

    async with Runtime.open(url) as runtime, DbosEngine.open(url, poll_s=0.02) as engine:
        runtime.agents.register(greeter())
        lost = await runtime.submit(greeter(), "greet", queue="default")
        queue = runtime.journal.queue
        (ticket,) = await queue.claim(["default"], engine="dbos", most=1)
        await queue.sent([ticket.run_id], engine="dbos")
        submitted = [
            await runtime.submit(greeter(), "greet", tenant=f"t{n % 3}") for n in range(20)
        ]
        async with working(runtime, engine, lanes={"default": QueueLimits(per_tenant=4)}):
            for run_id in [*submitted, lost]:
                await until(runtime, run_id)
        assert await queue.backlogs() == []


# ---------------------------------------------------------------- nothing that was claimed is lost


class Failing(LocalEngine):
    """Does not take what is submitted first, and the journal goes at the same moment."""

    def __init__(self, absent: Absent) -> None:
        super().__init__()
        self.absent, self.failed = absent, False

    async def submit(self, tickets: Any) -> None:
        if not self.failed:
            self.failed = self.absent.away = True
            raise AgentError("agent", "the engine does not answer")
        await super().submit(tickets)


async def test_what_was_claimed_when_engine_and_journal_went_is_driven_once_they_are_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        monkeypatch.setattr(runtime.journal, "queue", absent := Absent(runtime.journal.queue))
        submitted = [await runtime.submit(greeter(), "greet") for _ in range(3)]
        async with working(runtime, Failing(absent), poll_s=0.01):
            with anyio.fail_after(10):
                while absent.asked < 3:
                    await anyio.sleep(0.01)
            absent.away = False
            for run_id in submitted:
                await until(runtime, run_id)


class Untold:
    """A queue that does not take the first word of what an engine has."""

    def __init__(self, queue: Any) -> None:
        self._queue, self.failed = queue, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    async def sent(self, run_ids: Any, *, engine: str) -> None:
        if not self.failed:
            self.failed = True
            raise AgentError("agent", "the journal does not answer")
        await self._queue.sent(run_ids, engine=engine)


class Holding(LocalEngine):
    """Keeps what it is given, and delivers none of it."""

    keeps = True

    async def submit(self, tickets: Any) -> None: ...

    async def forgotten(self, tickets: Any) -> list[Any]:
        return []


async def test_what_the_engine_has_is_told_to_the_journal_also_where_that_did_not_answer_first(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Runtime.open(url) as runtime:
        monkeypatch.setattr(runtime.journal, "queue", Untold(queue := runtime.journal.queue))
        run_id = await runtime.submit(greeter(), "greet")
        async with working(runtime, Holding(), poll_s=0.01):
            with anyio.fail_after(10):
                while [
                    ticket.run_id for ticket in await queue.with_engine(engine="local", most=10)
                ] != [run_id]:
                    await anyio.sleep(0.01)


async def test_two_workers_of_a_host_with_a_long_name_are_two(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 300)
    async with Runtime.open(url) as runtime, working(runtime):
        (info,) = await runtime.journal.queue.workers()
        assert info.card.name.endswith(f"-{os.getpid()}")


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_what_a_draining_worker_has_not_begun_is_not_kept_from_others_for_its_grace(
    url: str,
) -> None:
    begun, go = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        await go.wait()
        return "waited"

    waiter = Agent(
        name="waiter", model=ScriptedModel([asks(call("wait")), says("done")]), tools=[wait]
    )
    async with Runtime.open(url) as first, Runtime.open(url) as second:
        first.agents.register(waiter)
        second.agents.register(
            Agent(name="waiter", model=ScriptedModel([says("done")] * 10), tools=[wait])
        )
        await first.submit(waiter, "wait")
        waiting = [await first.submit(waiter, "wait") for _ in range(2)]
        async with working(first, name="first", slots=1, grace_s=1000) as worker:
            with anyio.fail_after(10):
                await begun.wait()
            async with working(second, name="second", slots=1):
                worker.drain()
                for run_id in waiting:
                    await until(second, run_id)
                assert worker.running == 1
            go.set()


async def test_a_worker_outlives_a_journal_that_is_away_for_days(url: str) -> None:
    async with Runtime.open(url) as runtime:
        worker = Worker(runtime, poll_s=1.0)
        sweep = worker._sweep  # pyright: ignore[reportPrivateUsage]  days of waiting in one step
        sweep._failures = 100_000  # pyright: ignore[reportPrivateUsage]
        worker.drain()
        await sweep._back_off(AgentError("agent", "away"))  # pyright: ignore[reportPrivateUsage]


def _listed(
    number: int, *, engine: str = "dbos", alive: bool = True, draining: bool = False
) -> WorkerInfo:
    card = WorkerCard(
        name=f"w{number}",
        host="h",
        pid=number,
        version="1",
        engine=engine,
        queues=("default",),
        slots=1,
    )
    since = datetime(2026, 11, 21, 12, number, tzinfo=UTC)
    return WorkerInfo(
        worker=f"w{number}",
        card=card,
        since=since,
        seen_at=since,
        alive=alive,
        draining=draining,
        running=0,
    )


@pytest.mark.parametrize("others", [{"draining": True}, {"engine": "local"}, {"alive": False}])
def test_who_cannot_see_to_the_dead_is_not_counted_on(others: dict[str, Any]) -> None:
    engine = Holding()
    engine.name = "dbos"
    runtime = Runtime()
    sweep = Worker(runtime, engine)._sweep  # pyright: ignore[reportPrivateUsage]  the rule alone
    sweep.worker = "w9"
    older = [_listed(number, **others) for number in range(5)]
    assert [one.worker for one in sweep._seniors([*older, _listed(9)])] == ["w9"]  # pyright: ignore[reportPrivateUsage]
    others_first = sweep._seniors([*map(_listed, range(3)), _listed(9)])  # pyright: ignore[reportPrivateUsage]
    assert "w9" not in {one.worker for one in others_first}


class Rescuing(Holding):
    """Counts the times at which it is to return what dead workers had."""

    name = "dbos"

    def __init__(self) -> None:
        super().__init__()
        self.rescued = anyio.Event()

    async def rescue(self, living: Any) -> None:
        self.rescued.set()


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_a_worker_sees_to_the_dead_at_once_when_those_it_relied_on_are_gone_from_its_host(
    url: str,
) -> None:
    """It is not one of the oldest three, and would look again after half a minute."""
    elders = await anyio.open_process(
        [sys.executable, "-m", "tests.workers.worker.elders", url],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src:."},
    )
    async with elders, Runtime.open(url) as runtime:
        assert elders.stdout is not None
        with anyio.fail_after(20):
            said = BufferedByteReceiveStream(elders.stdout)
            assert await said.receive_until(b"\n", 100) == b"registered"
        engine = Rescuing()
        async with working(runtime, engine) as worker:
            workers = runtime.journal.queue.workers
            assert len([one for one in await workers() if one.alive]) == SENIORS + 1
            with anyio.fail_after(10):
                while not worker._sweep._relied_on:  # pyright: ignore[reportPrivateUsage]  it has looked
                    await anyio.sleep(0.01)
            assert not engine.rescued.is_set()
            elders.kill()
            with anyio.fail_after(AUDIT_S / 2):
                await engine.rescued.wait()
            assert [one.worker for one in await workers() if one.alive] == [worker.worker_id]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no signal 0")
def test_only_a_process_of_this_host_is_known_to_be_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = msgspec.structs.replace(_listed(0).card, host=socket.gethostname(), pid=gone.pid)
    assert _is_gone(here)
    assert not _is_gone(msgspec.structs.replace(here, pid=os.getpid()))
    assert not _is_gone(msgspec.structs.replace(here, host="elsewhere"))


async def test_a_schedule_whose_agent_breaks_ends_no_worker(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> str:
        raise ValueError("no such luck")

    schedules = {"often": Schedule(agent="greeter", prompt="greet", cron="* * * * *")}
    async with Runtime.open(url) as runtime:
        runtime.agents.register(greeter())
        submit, runtime.submit = runtime.submit, broken
        async with working(runtime, schedules=schedules):
            await until(runtime, await submit(greeter(), "greet"))
    assert "no such luck" in caplog.text


async def test_the_engine_of_its_worker_is_told_of_a_run_that_is_killed(url: str) -> None:
    async with Runtime.open(url) as runtime:
        async with working(runtime, engine := Holding()):
            with anyio.fail_after(10):
                while runtime.engine is not engine:
                    await anyio.sleep(0.01)
        assert runtime.engine is None


async def test_a_delivery_that_came_second_does_not_wake_a_run_that_waits_for_a_person_by_now(
    url: str,
) -> None:
    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    agent = Agent(
        name="payer", model=ScriptedModel([asks(call("pay", "c1", amount=5))]), tools=[pay]
    )
    async with Runtime.open(url) as runtime:
        run_id = await runtime.submit(agent, "pay", on_ask="wait")
        (ticket,) = await runtime.journal.queue.claim(["default"], engine="local", most=1)
        await runtime.resume(run_id)
        assert (await runtime.journal.info(run_id)).status == "waiting"
        driver = driving.Driving(runtime, LocalEngine(), None, None)
        await driver._not_driven(ticket, AgentError("busy", "somebody drives it"))  # pyright: ignore[reportPrivateUsage]  two deliveries that meet
        assert (await runtime.journal.info(run_id)).status == "waiting"
        assert driver.held_off == 0
