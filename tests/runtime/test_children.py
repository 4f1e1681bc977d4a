"""A tool that starts a run of another agent: a run of its own, told of in the events of the one
that it is for, and stopped with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    agent,
    asks,
    call,
    check_events,
    check_history,
    gives,
    kind_of,
    open_runtime,
    says,
    text,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext
from treadle.agents.agent import Agent
from treadle.messages import events
from treadle.messages.events import Event
from treadle.runtime.runtime import Runtime
from treadle.types import Effect, Limits


def child_of(model: Any, *tools: Any, **more: Any) -> Agent[Any]:
    return Agent[Any](name="child", model=agent(model).model, tools=tools, **more)


def asking(child: Agent[Any], *, effect: Effect = "once", **options: Any) -> PlainTool:
    """A tool whose result is what the child says, and how it ended."""

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        result = await ctx.spawn(child, "Have a look.", **options)
        return f"{result.outcome}: {result.text}"

    return PlainTool(name="ask", does=does, effect=effect)


async def watched(rt: Runtime, one: Agent[Any], **options: Any) -> tuple[Any, list[Event]]:
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with rt.stream(one, "go", **options) as stream:
            async for event in stream:
                seen.append(event)
    return stream.result, seen


def told(result: Any) -> list[str]:
    return [one.text for message in result.messages for one in message.tool_results]


@pytest.mark.usefixtures("store")
async def test_a_child_is_a_run_of_its_own_whose_events_stand_among_those_of_its_parent() -> None:
    rt = open_runtime()
    child = child_of([asks(call("look", "k1")), says("There is a cat.")], gives("look", "a cat"))
    result, seen = await watched(
        rt, agent([asks(call("ask", "c1")), says("A cat.")], asking(child)), user_id="ada"
    )
    assert (result.text, told(result)) == ("A cat.", ["completed: There is a cat."])
    own = [event for event in seen if event.run_id == result.run_id]
    others = [event for event in seen if event.run_id != result.run_id]
    assert [event.seq for event in seen] == sorted(event.seq for event in seen)
    check_events(
        [event for event in own if not isinstance(event, (events.ChildStart, events.ChildEnd))]
    )
    check_events(others)
    assert {event.parent_run_id for event in others} == {result.run_id}
    (begun,) = [event for event in own if isinstance(event, events.ChildStart)]
    (ended,) = [event for event in own if isinstance(event, events.ChildEnd)]
    assert (begun.child_run_id, begun.agent) == (others[0].run_id, "child")
    assert (ended.child_run_id, ended.outcome) == (others[0].run_id, "completed")
    kinds = [(kind_of(event), event.run_id == result.run_id) for event in seen]
    assert kinds.index(("child_start", True)) < kinds.index(("run_start", False))
    assert (
        kinds.index(("run_end", False))
        < kinds.index(("child_end", True))
        < kinds.index(("tool_call_end", True))
    )
    info = await rt.journal.info(others[0].run_id)
    assert (info.parent_run_id, info.session_id, info.agent) == (result.run_id, None, "child")
    assert result.metrics.turns == 2, "its turns are its own"


@pytest.mark.usefixtures("store")
async def test_a_child_has_the_place_the_mode_and_the_user_of_its_parent(tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        seen.append((ctx.cwd, ctx.user_id, ctx.deps))
        return "ok"

    rt = open_runtime()
    child = child_of(
        [asks(call("look"), call("send")), says("done")],
        PlainTool(name="look", does=does, effect="pure"),
        gives("send"),
        instructions="Ask ${who}.",
    )
    one = agent(
        [asks(call("ask")), says("done")],
        asking(child, effect="pure", deps=3, inputs={"who": "Ada"}),
    )
    await watched(rt, one, cwd=tmp_path, mode="plan", user_id="ada")
    assert seen == [(tmp_path.resolve(), "ada", 3)]
    child_run = next(info for info in await rt.journal.runs() if info.parent_run_id is not None)
    assert (child_run.mode, child_run.cwd, child_run.tool_calls) == (
        "plan",
        str(tmp_path.resolve()),
        1,
    )


@pytest.mark.usefixtures("store")
async def test_the_end_of_a_child_is_a_value_whatever_it_is() -> None:
    rt = open_runtime()
    looping = child_of([asks(call("look", at=i)) for i in range(5)], gives("look"))
    result, _ = await watched(
        rt, agent([asks(call("ask")), says("done")], asking(looping, limits=Limits(turns=2)))
    )
    assert told(result)[0].startswith("turn_limit:")
    assert result.success


@pytest.mark.usefixtures("store")
async def test_a_child_that_cannot_begin_is_a_tool_that_failed() -> None:
    rt = open_runtime()
    child = child_of([says("never")], instructions="Ask ${who}.")
    result, seen = await watched(rt, agent([asks(call("ask")), says("done")], asking(child)))
    assert "who" in told(result)[0]
    assert result.success
    assert not [event for event in seen if isinstance(event, (events.ChildStart, events.ChildEnd))]
    assert len(await rt.journal.runs()) == 1


@pytest.mark.usefixtures("store")
async def test_a_parent_that_is_stopped_stops_its_child_first() -> None:
    gate, rt, seen = Gate(), open_runtime(), list[Event]()
    child = child_of(PlayedModel([gate.stop, *text("never")]))
    with anyio.fail_after(20):
        async with rt.stream(agent([asks(call("ask", "c1"))], asking(child)), "go") as stream:
            await gate.reached.wait()
            stream.cancel()
            async for event in stream:
                seen.append(event)
    kinds = [kind_of(event) for event in seen]
    assert (kinds.count("run_end"), kinds[-1]) == (2, "run_end")
    (ended,) = [event for event in seen if isinstance(event, events.ChildEnd)]
    assert ended.outcome == "cancelled"
    for info in await rt.journal.runs():
        assert (info.status, info.outcome) == ("finished", "cancelled")
        check_history((await rt.replay(info.run_id)).messages)


@pytest.mark.usefixtures("store")
async def test_a_childs_words_are_no_part_of_the_session() -> None:
    rt = open_runtime()
    session = rt.session(
        "s", agent=agent([asks(call("ask")), says("done")], asking(child_of([says("among us")])))
    )
    await session.send("go")
    assert "among us" not in [message.text for message in await session.history()]
    assert [one.id for one in rt.sessions.list()] == ["s"]
