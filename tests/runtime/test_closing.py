"""What closing a runtime does with the runs under way: nothing that is in a journal on disk is
lost, and nothing runs twice.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from tests.doubles import Gate, agent, asks, call, gives, hook, says
from tests.service.database.postgres import PostgresServer, postgres_server  # noqa: F401  fixture
from treadle import tool
from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.events.hooks import HookedRun
from treadle.journal.entries import ToolFinished
from treadle.journal.sessions import SessionView
from treadle.models.model import ModelRequest
from treadle.runtime import runs
from treadle.runtime.runtime import OnClose, Runtime
from treadle.testing import ScriptedModel

AGAIN = [says("answered before the runtime was closed"), says("done")]
SITE = """
import os, sys
from contextlib import asynccontextmanager, suppress

import anyio, uvicorn
from starlette.applications import Starlette
from tests.doubles import agent, asks, call, says
from treadle import AgentError, Runtime, tool

@tool(effect="idempotent")
async def wait() -> str:
    print("in the call", flush=True)
    await anyio.sleep_forever()

async def drive(rt):
    with suppress(AgentError):
        await rt.run(agent([asks(call("wait"))], wait), "go", run_id="ordered")

@asynccontextmanager
async def lifespan(app):
    async with anyio.create_task_group() as group, Runtime.open(sys.argv[1]) as rt:
        group.start_soon(drive, rt)
        yield

uvicorn.run(Starlette(lifespan=lifespan), host="127.0.0.1", port=0, log_level="warning")
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The journal on disk, empty."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/runs.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"t{uuid4().hex}"
    server.sql(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    ("kept", "on_close", "status"),
    [
        (True, None, "stopped"),
        (True, "cancel", "finished"),
        (False, None, "finished"),
        (False, "let_go", "stopped"),
    ],
    ids=["on disk", "on disk, cancelled", "in memory", "in memory, let go"],
)
async def test_closing_leaves_runs_on_disk_to_be_resumed_and_cancels_those_in_memory(
    url: str, *, kept: bool, on_close: OnClose | None, status: str
) -> None:
    rt, gate = (
        Runtime.open(url if kept else "memory:", on_close=on_close),
        Gate(effect="idempotent"),
    )
    seen = list[str]()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(
                _driven,
                rt,
                agent([asks(call("gate"), call("look")), says("done")], gate.tool, gives("look")),
                seen,
            )
            await gate.reached.wait()
            info = await rt.journal.info("r")
            assert info.status == "running"
            await rt.aclose() if kept else await rt._runs.aclose(lets_go=on_close == "let_go")  # pyright: ignore[reportPrivateUsage]  the journal is gone with it
        if kept:
            gate.opened.set()
            async with Runtime.open(url) as again:
                assert (await again.journal.info("r")).status == status
                end = await again.resume("r", agent(AGAIN, gate.tool, gives("look")))
                assert end.outcome == ("completed" if status == "stopped" else "cancelled")
        else:
            assert (await rt.journal.info("r")).status == status
    assert seen == ["cancelled" if status == "finished" else "raised cancelled"]


async def _driven(rt: Runtime, worker: Agent[None, str], seen: list[str]) -> None:
    try:
        seen.append((await rt.run(worker, "go", run_id="r")).outcome.value)
    except AgentError as e:
        seen.append(f"raised {e.kind.value}")


def test_an_on_close_that_is_none_is_refused() -> None:
    with pytest.raises(AgentError, match="on_close='wait' is not one of: let_go, cancel"):
        Runtime.open(on_close="wait")  # pyright: ignore[reportArgumentType]  wrong on purpose


async def test_a_result_that_is_known_is_stored_before_its_run_is_left(url: str) -> None:
    rt, gate, times = Runtime.open(url), Gate(), list[str]()

    async def second(run: HookedRun, request: ModelRequest) -> None:
        if times:
            await gate.stop()

    @tool
    def charge() -> str:
        """Has no probe."""
        times.append("charged")
        return "charged"

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(
                _driven,
                rt,
                agent([asks(call("charge"))], charge, hooks=[hook(before_model=second)]),
                list[str](),
            )
            await gate.reached.wait()
            await rt.aclose()
        async with Runtime.open(url) as again:
            model = ScriptedModel(AGAIN)
            assert (await again.resume("r", agent(model, charge))).outcome == "completed"
            entries = [record.entry for record in await again.journal.read("r")]
    assert [
        (entry.status, entry.result.text) for entry in entries if isinstance(entry, ToolFinished)
    ] == [("ok", "charged")]
    assert times == ["charged"]


async def test_a_result_that_comes_as_the_runtime_closes_is_stored(url: str) -> None:
    """Nothing is awaited between the result and the close: the last result of a turn rides with the
    next append, which does not come.
    """
    rt = Runtime.open(url)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            @tool
            async def charge() -> str:
                """Has no probe."""
                group.start_soon(rt.aclose)
                return "charged"

            group.start_soon(_driven, rt, agent([asks(call("charge"))], charge), list[str]())
        async with Runtime.open(url) as again:
            entries = [record.entry for record in await again.journal.read("r")]
    assert [
        (entry.status, entry.result.text) for entry in entries if isinstance(entry, ToolFinished)
    ] == [("ok", "charged")]


async def test_a_run_that_is_being_prepared_as_the_runtime_closes_is_left_like_any_other(
    url: str,
) -> None:
    rt, gate, failures = Runtime.open(url), Gate(), list[ErrorKind]()
    view = rt.journal.view

    async def slow(session_id: str) -> SessionView:
        await gate.stop()
        return await view(session_id)

    async def drive() -> None:
        try:
            await rt.session("s", agent=agent([says("done")])).send("go")
        except AgentError as e:
            failures.append(e.kind)

    rt.journal.view = slow  # pyright: ignore[reportAttributeAccessIssue]  between the check and the first entry
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
            await gate.reached.wait()
            group.start_soon(rt.aclose)
            await anyio.wait_all_tasks_blocked()
            gate.opened.set()
        assert failures == [ErrorKind.CANCELLED]
        async with Runtime.open(url) as again:
            (info,) = await again.journal.runs()
            assert info.status == "stopped"
            result = await again.resume(info.run_id, agent([says("done")]))
            assert result.outcome == "completed"


class Threaded:
    """A once tool in a thread that cannot be stopped, and whose probe would say at once that it did
    not happen.
    """

    def __init__(self) -> None:
        self.begun, self.leave, self.effects = threading.Event(), threading.Event(), list[str]()

        @tool(effect="once")
        def charge() -> str:
            """Take the money."""
            self.begun.set()
            assert self.leave.wait(20)
            self.effects.append("charged")
            return "charged"

        self.tool = charge


async def test_a_run_whose_call_still_runs_in_a_thread_is_released_when_that_has_ended(
    url: str,
) -> None:
    rt, slow = Runtime.open(url), Threaded()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(_driven, rt, agent([asks(call("charge"))], slow.tool), list[str]())
            await anyio.to_thread.run_sync(slow.begun.wait)
            group.start_soon(rt.aclose)
            async with Runtime.open(url) as other:
                while rt._runs._jobs:  # pyright: ignore[reportPrivateUsage]
                    await anyio.sleep(0.005)
                with pytest.raises(AgentError, match="is being driven") as caught:
                    await other.resume("r", agent([says("no")], slow.tool))
                assert caught.value.kind is ErrorKind.BUSY
            slow.leave.set()
        model = ScriptedModel(AGAIN)
        async with Runtime.open(url) as after:
            assert (await after.resume("r", agent(model, slow.tool))).outcome == "completed"
    assert slow.effects == ["charged"]
    (message,) = [one for one in model.requests[0].messages if one.role == "tool"]
    assert [(one.text, one.unknown) for one in message.tool_results] == [("charged", False)]


async def test_a_call_that_outlasts_the_grace_keeps_its_run_until_the_process_ends(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CLOSE_GRACE_S", 0.01)
    rt, slow = Runtime.open(url), Threaded()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(_driven, rt, agent([asks(call("charge"))], slow.tool), list[str]())
            await anyio.to_thread.run_sync(slow.begun.wait)
            await rt.aclose()
        async with Runtime.open(url) as other:
            assert (await other.journal.info("r")).status == "running"
        slow.leave.set()


async def test_resume_waits_for_the_driver_where_it_is_told_to_and_gives_what_came_of_the_run(
    url: str,
) -> None:
    gate = Gate()
    worker = agent([asks(call("gate")), says("done")], gate.tool)
    async with (
        Runtime.open(url) as rt,
        Runtime.open(url) as other,
        anyio.create_task_group() as group,
    ):
        with anyio.fail_after(10):
            group.start_soon(_driven, rt, worker, list[str]())
            await gate.reached.wait()
            with pytest.raises(AgentError, match="is being driven"):
                await other.resume("r", worker)
            group.start_soon(_open_when_asked, other, gate)
            assert (await other.resume("r", worker, wait=True)).text == "done"


async def _open_when_asked(other: Runtime, gate: Gate) -> None:
    assert (await other.journal.info("r")).status == "running"
    gate.opened.set()


async def test_a_web_server_that_is_told_to_end_leaves_its_run_to_the_next_process(
    url: str,
) -> None:
    site = subprocess.Popen([sys.executable, "-c", SITE, url], stdout=subprocess.PIPE, text=True)
    try:
        assert site.stdout is not None
        assert await anyio.to_thread.run_sync(site.stdout.readline) == "in the call\n"
        site.send_signal(signal.SIGTERM)
        # uvicorn raises the signal again when it is done
        assert await anyio.to_thread.run_sync(lambda: site.wait(20)) in (0, -signal.SIGTERM)
    finally:
        site.kill()
        site.wait()
        assert site.stdout is not None
        site.stdout.close()
    async with Runtime.open(url) as rt:
        assert (await rt.journal.info("ordered")).status == "stopped"
        assert (
            await rt.resume("ordered", agent(AGAIN, gives("wait", effect="idempotent")))
        ).text == "done"
