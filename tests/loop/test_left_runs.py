"""Runs that are stopped or left: what has happened by then is known when they go on, and so is what
people have said.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    agent,
    asks,
    breaks,
    call,
    gives,
    hook,
    open_runtime,
    says,
    text,
    wishes,
)
from tests.loop.test_recovery import resumed, told
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext
from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.messages import events
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.tool import ToolFailed
from treadle.types import Effect

pytestmark = pytest.mark.usefixtures("store")

PAYS = [asks(call("pay", "c1")), says("done")]
BOTH = [asks(call("pay", "c1"), call("pay", "c2")), says("done")]


async def left_while_a_hook_looks(rt: Runtime, one: Agent[Any], gate: Gate, *, results: int) -> str:
    """Leave a run whose `after_tool` hooks wait at the gate, and give its id."""
    async with anyio.create_task_group() as group:

        async def drives() -> None:
            with pytest.raises(AgentError, match="released before it ended"):
                await rt.run(one, "go", run_id="r1")

        group.start_soon(drives)
        await gate.reached.wait()
        rt.let_go()
    assert results == len(one.tools)
    return "r1"


def looking(gate: Gate) -> Any:
    async def after_tool(run: Any, call: Any, result: Any) -> None:
        await gate.stop()

    return hook("Looks", after_tool=after_tool)


@pytest.mark.parametrize("script", [PAYS, BOTH])
async def test_a_once_call_that_ended_is_not_unknown_where_its_run_is_left_while_a_hook_looks(
    script: list[dict[str, Any]],
) -> None:
    gate, rt = Gate(), open_runtime()
    one = agent([*script], gives("pay", "paid 3"), hooks=[looking(gate)])
    run_id = await left_while_a_hook_looks(rt, one, gate, results=1)
    gate.opened.set()
    result, _ = await resumed(rt, run_id, one)
    for each in told(result).values():
        assert (each.is_error, each.unknown, "paid 3" in each.text) == (False, False, False)
        assert each.text.startswith("The call ended without an error")


async def test_a_call_that_failed_for_certain_is_not_unknown_either() -> None:
    gate, rt = Gate(), open_runtime()
    one = agent([*PAYS], breaks("pay", ToolFailed("No funds.")), hooks=[looking(gate)])
    run_id = await left_while_a_hook_looks(rt, one, gate, results=1)
    gate.opened.set()
    result, _ = await resumed(rt, run_id, one)
    assert (told(result)["c1"].is_error, told(result)["c1"].unknown) == (True, False)


async def test_a_once_call_that_ended_is_not_unknown_where_its_task_is_cancelled_while_a_hook_looks() -> (
    None
):
    gate, rt = Gate(), open_runtime()
    one = agent([*PAYS], gives("pay"), hooks=[looking(gate)])
    task = asyncio.create_task(rt.run(one, "go", run_id="r1"))  # noqa: TID251  a native cancellation
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    replayed = await rt.replay("r1")
    assert (replayed.outcome, told(replayed)["c1"].unknown) == ("cancelled", False)


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_may_be_repeated_is_made_again_and_shown_to_its_hooks(
    effect: Effect,
) -> None:
    gate, rt = Gate(), open_runtime()
    one = agent([*PAYS], gives("pay", "paid 3", effect=effect), hooks=[looking(gate)])
    run_id = await left_while_a_hook_looks(rt, one, gate, results=1)
    gate.opened.set()
    result, _ = await resumed(rt, run_id, one)
    assert told(result)["c1"].text == "paid 3"


async def test_a_call_that_is_repeated_twice_in_one_runtime_goes_on_with_its_child() -> None:
    """Its child waits for the model when the run is left, by its first driver and by its second."""
    gates, paid, rt = [Gate(), Gate()], list[str](), open_runtime()

    async def pays(ctx: ToolContext[None], arguments: Any) -> str:
        paid.append(ctx.run_id)
        return "paid"

    child = agent(
        PlayedModel(
            wishes(("k1", "pay", "{}")), *([gate.stop] for gate in gates), text("It is paid.")
        ),
        PlainTool(name="pay", does=pays),
    )

    async def asks_child(ctx: ToolContext[None], arguments: Any) -> str:
        return (await ctx.spawn(child, "Pay.")).text

    one = agent(
        [asks(call("ask", "c1")), says("done")],
        PlainTool(name="ask", does=asks_child, effect="pure"),
    )
    for gate in gates:
        async with anyio.create_task_group() as group:

            async def drives(gate: Gate = gate) -> None:
                with pytest.raises(AgentError, match="released before it ended"):
                    await (
                        rt.run(one, "go", run_id="r1") if gate is gates[0] else rt.resume("r1", one)
                    )

            group.start_soon(drives)
            await gate.reached.wait()
            rt.let_go()
    result = await rt.resume("r1", one)
    (only,) = await rt.journal.children("r1")
    assert (told(result)["c1"].text, paid) == ("It is paid.", [only.run_id])


async def test_one_run_is_left_with_its_children_and_the_others_go_on() -> None:
    gate, other, rt = Gate(), Gate(), open_runtime()
    child = agent(PlayedModel([gate.stop], text("It is paid.")))

    async def asks_child(ctx: ToolContext[None], arguments: Any) -> str:
        return (await ctx.spawn(child, "Pay.")).text

    one = agent(
        [asks(call("ask", "c1")), says("done")],
        PlainTool(name="ask", does=asks_child, effect="pure"),
    )
    texts = list[str]()

    async def drives() -> None:
        with pytest.raises(AgentError, match="released before it ended"):
            await rt.run(one, "go", run_id="r1")

    async def drives_other() -> None:
        texts.append((await rt.run(agent(PlayedModel([other.stop], text("mine"))), "go")).text)

    async with anyio.create_task_group() as group:
        group.start_soon(drives)
        group.start_soon(drives_other)
        await gate.reached.wait()
        await other.reached.wait()
        assert not rt.let_go("unknown")
        assert rt.let_go("r1")
        other.opened.set()
    (only,) = await rt.journal.children("r1")
    assert (texts, only.status) == (["mine"], "stopped")


# ---------------------------------------------------------------- what people have said


async def test_what_was_said_before_a_run_was_left_is_read_when_it_goes_on() -> None:
    gate, rt = Gate(effect="pure"), open_runtime()
    model = ScriptedModel([asks(call("gate", "c1")), says("done")])
    one = agent(model, gate.tool)
    async with anyio.create_task_group() as group:

        async def drives() -> None:
            with pytest.raises(AgentError, match="released before it ended"):
                await rt.run(one, "go", run_id="r1", session="s")

        group.start_soon(drives)
        await gate.reached.wait()
        rt.steer("s", "only in euros")
        rt.let_go()
    gate.opened.set()
    await resumed(rt, "r1", one)
    assert [m.text for m in model.requests[-1].messages if m.role == "user"] == [
        "go",
        "only in euros",
    ]


async def test_what_was_said_while_the_model_answered_is_read_where_the_run_was_left_then() -> None:
    gate, rt = Gate(), open_runtime()
    model = PlayedModel([gate.stop], [])
    async with anyio.create_task_group() as group:

        async def drives() -> None:
            with pytest.raises(AgentError, match="released before it ended"):
                await rt.run(agent(model), "go", run_id="r1", session="s")

        group.start_soon(drives)
        await gate.reached.wait()
        rt.steer("s", "only in euros")
        rt.let_go()
    last = ScriptedModel([says("done")])
    await resumed(rt, "r1", agent(last))
    assert [m.text for m in last.requests[0].messages] == ["go", "only in euros"]


async def test_what_was_said_before_a_run_came_to_wait_is_read_after_the_answer() -> None:
    gate, rt = Gate(), open_runtime()
    model = PlayedModel([gate.stop, *wishes(("c1", "pay", "{}"))], text("done"))
    one = agent(model, gives("pay", needs_approval=True))
    async with rt.stream(one, "go", run_id="r1", on_ask="wait") as stream:
        await gate.reached.wait()
        stream.steer("only in euros")
        gate.opened.set()
        warned = [event.text async for event in stream if isinstance(event, events.Warned)]
    assert (stream.result.waiting, warned) == (True, [])
    result, _ = await resumed(rt, "r1", one, approve=["c1"])
    assert result.outcome == "completed"
    assert [m.text for m in model.histories[-1] if m.role == "user"] == ["go", "only in euros"]


async def test_a_run_that_is_being_closed_takes_no_words() -> None:
    """What it would take is in no warning and in no journal."""
    gate = Gate()

    async def after_run(run: Any, result: Any) -> None:
        await gate.stop()

    rt = open_runtime()
    session = rt.session(agent=agent([says("done")], hooks=[hook("Ends", after_run=after_run)]))
    async with anyio.create_task_group() as group:
        group.start_soon(session.send, "go")
        await gate.reached.wait()
        with pytest.raises(AgentError, match="its model cannot read the text"):
            session.steer("only in euros")
        gate.opened.set()
