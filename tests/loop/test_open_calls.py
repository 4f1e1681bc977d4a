"""Open calls of a run that goes on: with which arguments they run, whether they may run again, and
probes that break off.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import pytest

from tests.doubles import Gate, PlainTool, agent, asks, call, gives, hook, open_runtime, says
from tests.loop.test_recovery import ONE, driven, entries_of, lost_call, resumed, told
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext, tool
from treadle.errors import AgentError
from treadle.journal.entries import ToolFinished, ToolStarted
from treadle.messages import events
from treadle.tools.approval import Approve, Deny
from treadle.tools.function.threads import MAX_THREADS
from treadle.tools.tool import DidNotHappen, Happened, ToolDeferred
from treadle.types import Effect

pytestmark = pytest.mark.usefixtures("store")


async def test_a_call_that_had_started_runs_with_the_arguments_that_a_person_gave_it_since() -> (
    None
):
    amounts: list[int] = []

    async def pays(ctx: ToolContext[None], arguments: Any) -> str:
        if ctx.attempt == 1:
            await anyio.sleep_forever()
        amounts.append(arguments["amount"])
        return "paid"

    one = agent(
        [asks(call("pay", "c1", amount=100)), says("done")],
        PlainTool(name="pay", does=pays, timeout_s=0.01),
    )
    rt = open_runtime()
    run_id = await rt.submit(one, "go", on_unknown="wait")
    assert (await rt.resume(run_id, one)).waiting
    await rt.wake(run_id, approve=["c1"], arguments={"c1": {"amount": 5}})
    result, _ = await resumed(rt, run_id, one)
    assert (result.outcome, amounts) == ("completed", [5])
    _, started = await entries_of(rt, run_id, ToolStarted)
    assert started.arguments_json == '{"amount":5}'


async def test_an_approvers_arguments_hold_where_the_process_ends_before_the_call_starts_again() -> (
    None
):
    """The first of two calls that were cut is under way again when the run is left."""
    amounts: list[int] = []
    again = anyio.Event()

    async def pays(ctx: ToolContext[None], arguments: Any) -> str:
        if ctx.attempt == 1:
            await anyio.sleep_forever()
        amounts.append(arguments["amount"])
        if ctx.call_id == "c1":
            again.set()
            await anyio.sleep_forever()
        return "paid"

    async def approves(request: Any) -> Approve:
        return Approve({"amount": request.arguments["amount"] + 1})

    rt = open_runtime()
    slow = PlainTool(name="pay", does=pays, timeout_s=0.01)
    both = [asks(call("pay", "c1", amount=1), call("pay", "c2", amount=10)), says("done")]
    result = await rt.run(agent(both, slow), "go", on_unknown="wait")
    alone = PlainTool(name="pay", does=pays, parallel=False)
    async with anyio.create_task_group() as group:

        async def goes_on() -> None:
            with pytest.raises(Exception, match="released before it ended"):
                await rt.resume(result.run_id, agent(both, alone), on_approval=approves)

        group.start_soon(goes_on)
        await again.wait()
        rt.let_go()
    last, _ = await resumed(rt, result.run_id, agent(both, alone), on_unknown="tell")
    assert (last.outcome, amounts) == ("completed", [2, 11])


async def slow(ctx: ToolContext[None], arguments: Any) -> str:
    if ctx.attempt == 1:
        await anyio.sleep_forever()
    return "paid"


async def test_a_stream_shows_the_start_of_an_approved_call_that_stays_behind_a_held_one() -> None:
    rt, both = open_runtime(), [asks(call("pay", "c1"), call("pay", "c2")), says("done")]
    together = PlainTool(name="pay", does=slow, timeout_s=0.01)
    run_id = (await rt.run(agent(both, together), "go", on_unknown="wait")).run_id
    alone = agent(both, PlainTool(name="pay", does=slow, parallel=False))
    result, _ = await resumed(rt, run_id, alone, approve="c2")
    assert result.waiting
    assert (await resumed(rt, run_id, alone, approve="c1"))[0].outcome == "completed"


async def test_a_stream_shows_the_start_of_an_approved_call_that_may_run_no_more() -> None:
    rt, tool = open_runtime(), PlainTool(name="pay", does=slow, timeout_s=0.01)
    ones = [asks(call("pay", "c1")), says("done")]
    run_id = (await rt.run(agent(ones, tool), "go", on_unknown="wait")).run_id

    async def refuses(run: Any, called: Any) -> Deny:
        return Deny("not today")

    one = agent(ones, tool, hooks=[hook(before_tool=refuses)])
    result, _ = await resumed(rt, run_id, one, approve="c1")
    assert result.outcome == "completed"


@pytest.mark.parametrize("before", ["pure", "idempotent"])
async def test_a_call_is_not_repeated_where_its_tool_has_become_once(before: Effect) -> None:
    rt, run_id = await lost_call(gives("send", effect=before))
    result, _ = await resumed(rt, run_id, agent([*ONE], gives("send", effect="once")))
    assert told(result)["c1"].unknown


async def is_cancelled(ctx: ToolContext[None], arguments: Any) -> DidNotHappen:
    gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    gone.cancel()
    await gone
    return DidNotHappen()


async def exits(ctx: ToolContext[None], arguments: Any) -> DidNotHappen:
    raise SystemExit(3)


@pytest.mark.parametrize("looks", [is_cancelled, exits])
async def test_a_probe_that_is_ended_from_inside_cannot_tell_and_the_run_goes_on(
    looks: Any,
) -> None:
    tool = gives("send", looks=looks)
    rt, run_id = await lost_call(tool)
    result, _ = await resumed(rt, run_id, agent([*ONE], tool))
    assert (result.outcome, told(result)["c1"].unknown) == ("completed", True)


@pytest.mark.parametrize("left", [False, True])
async def test_what_is_known_of_one_call_is_kept_where_the_run_stops_while_a_probe_is_asked(
    *, left: bool
) -> None:
    """The first one's probe found it, a person tells of the second, and the third one's hangs."""
    gate = Gate()

    async def looks(ctx: ToolContext[None], arguments: Any) -> Happened | None:
        if ctx.call_id == "c1":
            return Happened("paid")
        await gate.stop()
        return None

    three = [asks(*(call("send", call_id) for call_id in ("c1", "c2", "c3"))), says("done")]
    original = await driven(three, gives("send"))
    rt, run_id = await original.until(original.appends[2]), original.result.run_id
    assert len(await entries_of(rt, run_id, ToolStarted)) == 3
    one = agent([*three], gives("send", looks=looks))
    async with anyio.create_task_group() as group:

        async def goes_on() -> None:
            with suppress(AgentError):  # it was released before it ended
                await rt.resume(run_id, one, results={"c2": "paid by hand"})

        group.start_soon(goes_on)
        await gate.reached.wait()
        if left:
            rt.let_go()
        else:
            rt.cancel(run_id=run_id)
    found = {
        entry.result.call_id: entry.result.text
        for entry in await entries_of(rt, run_id, ToolFinished)
    }
    assert (found["c1"], found["c2"], "c3" in found) == ("paid", "paid by hand", not left)


async def test_a_call_that_waited_for_a_thread_is_not_made_where_its_run_was_taken_over() -> None:
    began, goes_on, paid = threading.Semaphore(0), threading.Event(), list[str]()

    @tool(effect="pure")
    def hold() -> str:
        """Keeps a thread."""
        began.release()
        goes_on.wait(30)
        return "held"

    @tool(effect="once")
    def pay() -> str:
        """Pays."""
        paid.append("paid")
        return "paid"

    def all_began() -> None:
        for _ in range(MAX_THREADS):
            began.acquire(timeout=30)

    rt = open_runtime()
    busy = agent([asks(*(call("hold") for _ in range(MAX_THREADS))), says("done")], hold)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(rt.run, busy, "keep every thread")
            await anyio.to_thread.run_sync(all_began)
            one = agent([asks(call("pay", "c1")), says("done")], pay)
            async with rt.stream(one, "go") as stream:
                async for event in stream:
                    if isinstance(event, events.ToolCallStart):
                        await anyio.wait_all_tasks_blocked()
                        await rt.journal.take_over(stream.run_id, force=True)
                        goes_on.set()
            assert stream.result.error is not None
            assert (stream.result.error.kind, paid) == ("busy", [])


async def test_an_answer_that_comes_before_its_run_waits_is_refused_and_taken_afterwards() -> None:
    gate, asked = Gate("look", effect="pure"), anyio.Event()

    async def order(ctx: ToolContext[None], arguments: Any) -> str:
        asked.set()
        raise ToolDeferred("the shop calls back")

    one = agent(
        [asks(call("order", "c1"), call("look", "c2")), says("done")],
        PlainTool(name="order", does=order),
        gate.tool,
    )
    rt = open_runtime()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(partial(rt.run, one, "go", run_id="r1"))
            await asked.wait()
            await gate.reached.wait()
            with pytest.raises(AgentError) as refused:
                await rt.resume("r1", one, results={"c1": "sent"})
            assert refused.value.kind == "busy"
            gate.opened.set()
    result = await rt.resume("r1", one, results={"c1": "sent"})
    assert (result.outcome, told(result)["c1"].text) == ("completed", "sent")
