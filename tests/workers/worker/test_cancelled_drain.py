"""Workers whose task is cancelled while they drain: no run keeps them."""

from __future__ import annotations

from typing import Any

import anyio

from tests.doubles import asks, call, says
from treadle import Agent, Runtime, tool
from treadle.testing import ScriptedModel
from treadle.workers.worker import Worker


def hanging(begun: anyio.Event) -> Agent[Any, Any]:
    @tool(effect="pure")
    async def hang() -> str:
        """Hangs."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    return Agent(
        name="hanger", model=ScriptedModel([asks(call("hang", "c1")), says("done")]), tools=[hang]
    )


async def test_who_is_cancelled_within_its_grace_drains_without_grace(url: str) -> None:
    begun, ended = anyio.Event(), anyio.Event()
    async with Runtime.open(url) as runtime:
        runtime.agents.register(hanging(begun))
        run_id = await runtime.submit(hanging(begun), "go")
        scope = anyio.CancelScope()

        async def work() -> None:
            with scope:
                await worker.work()
            ended.set()

        async with anyio.create_task_group() as group:
            worker = Worker(runtime, poll_s=0.05, grace_s=3600)
            group.start_soon(work)
            with anyio.fail_after(20):
                await begun.wait()
                worker.drain()
                while not worker._driving.closed:
                    await anyio.sleep(0.01)
                await anyio.wait_all_tasks_blocked()
            scope.cancel()
            with anyio.move_on_after(5):
                await ended.wait()
            has_ended = ended.is_set()
            runtime.let_go()
        assert has_ended
        assert (await runtime.journal.info(run_id)).status == "queued"


async def test_who_is_cancelled_while_it_drains_at_once_drives_no_run_that_begins(
    url: str,
) -> None:
    begun, asked, go, ended = anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event()
    async with Runtime.open(url) as runtime:
        agent = hanging(begun)
        runtime.agents.register(agent)
        await runtime.submit(agent, "go")
        scope = anyio.CancelScope()

        async def agent_of(_: object) -> Agent[Any, Any]:
            asked.set()
            await go.wait()
            return agent

        async def work() -> None:
            with scope:
                await worker.work()
            ended.set()

        async with anyio.create_task_group() as group:
            worker = Worker(runtime, poll_s=0.05, agent_of=agent_of)
            group.start_soon(work)
            with anyio.fail_after(20):
                await asked.wait()
                worker.drain(at_once=True)
                while not worker._driving.closed:
                    await anyio.sleep(0.01)
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            go.set()
            with anyio.move_on_after(5):
                await ended.wait()
            has_ended = ended.is_set()
            runtime.let_go()
        assert has_ended
