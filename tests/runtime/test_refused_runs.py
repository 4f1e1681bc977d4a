"""Runs that end in an error because their journal refused an append, or closed: others may resume
them, but not while one of their calls still runs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import apsw
import pytest

from tests.doubles import Gate, agent, asks, call, gives, says
from treadle import Runtime, tool
from treadle.agents.agent import Agent
from treadle.config import Config
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.sqlite.journal import SqliteJournal
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned
from treadle.tools.tool import DidNotHappen, Happened
from treadle.workers.worker import Worker

BOTH = [asks(call("pay", "c1"), call("look", "c2")), says("done")]


class Payment:
    """A sync call that goes through only when it is let go, and a probe that tells the truth."""

    def __init__(self) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()
        self.paid: list[str] = []
        self.tool = tool(probe=self._probe)(self.pay)

    def pay(self) -> str:
        if not self.began.is_set():  # a second call goes through at once
            self.began.set()
            self.goes_on.wait(8)
        self.paid.append("once")
        return "paid"

    async def _probe(self, ctx: Any) -> Happened | DidNotHappen:
        return Happened("paid") if self.paid else DidNotHappen()


@pytest.fixture
def blocker(tmp_path: Path) -> Iterator[apsw.Connection]:
    """A connection that can keep the journal locked."""
    path = tmp_path / "runs.db"
    SqliteJournal.open(path)._close()  # pyright: ignore[reportPrivateUsage]  as aclose does
    connection = apsw.Connection(str(path))
    yield connection
    connection.close()


async def refused(rt: Runtime, payment: Payment, blocker: apsw.Connection) -> Agent[Any]:
    """A run whose second result its journal does not take, while the first call still runs."""
    locked: list[bool] = []

    @tool(effect="pure")
    async def look() -> str:
        await anyio.to_thread.run_sync(payment.began.wait)
        if not locked:
            locked.append(True)
            blocker.execute("begin immediate")  # pyright: ignore[reportUnknownMemberType]  apsw's own
        return "seen"

    one = agent([*BOTH], payment.tool, look)
    result = await rt.run(one, "go", run_id="r1")
    assert result.error is not None
    assert "locked: nothing was appended" in result.error.message
    blocker.execute("rollback")  # pyright: ignore[reportUnknownMemberType]  as above
    return one


async def test_a_run_that_its_journal_refused_is_not_resumed_while_one_of_its_calls_runs(
    tmp_path: Path, blocker: apsw.Connection
) -> None:
    payment, path = Payment(), tmp_path / "runs.db"
    async with Runtime.open(f"sqlite:///{path}", config=Config()) as other:
        async with Runtime(
            config=Config(), journal=SqliteJournal.open(path, busy_timeout_s=0.05)
        ) as rt:
            one = await refused(rt, payment, blocker)
            # what the journal did not take before is written before another run begins
            await rt.run(agent([says("done")]), "something else")
            with pytest.raises(AgentError, match="is being driven"):
                await other.resume("r1", one)
            payment.goes_on.set()
        result = await other.resume("r1", one)
    assert (result.outcome, payment.paid) == ("completed", ["once"])


async def test_a_worker_releases_it_when_its_last_call_has_ended(
    tmp_path: Path, blocker: apsw.Connection
) -> None:
    payment, path = Payment(), tmp_path / "runs.db"
    async with (
        Runtime.open(f"sqlite:///{path}", config=Config()) as other,
        Runtime(config=Config(), journal=SqliteJournal.open(path, busy_timeout_s=0.05)) as rt,
    ):
        one = await refused(rt, payment, blocker)
        worker = Worker(rt, poll_s=0.05)
        async with anyio.create_task_group() as group:
            group.start_soon(worker.work)
            await worker.registered.wait()
            payment.goes_on.set()
            assert not await wait_for_abandoned(abandoned_calls("r1"), 20)
            result = await other.resume("r1", one, wait=True)
            assert (result.outcome, payment.paid) == ("completed", ["once"])
            worker.drain()


async def test_a_runtime_that_closes_does_not_free_the_runs_of_another_one_over_its_journal(
    tmp_path: Path,
) -> None:
    url, gate = f"sqlite:///{tmp_path}/runs.db", Gate("pay")
    journal = open_journal(url)
    rt, closes = (Runtime(config=Config(), journal=journal) for _ in range(2))
    one = agent([asks(call("pay", "c1")), says("done")], gate.tool)
    async with Runtime.open(url, config=Config()) as other, anyio.create_task_group() as group:
        group.start_soon(rt.run, one, "go")
        await gate.reached.wait()
        await closes.aclose()
        (run,) = await other.journal.runs()
        with pytest.raises(AgentError, match="is being driven"):
            await other.resume(run.run_id, agent([], gives("pay")))
        gate.opened.set()
    await rt.aclose()
