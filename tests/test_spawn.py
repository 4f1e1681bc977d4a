"""A tool can start a run of another agent: its own history and limits, the parent's mode, directory, user and cancellation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from treadle import Agent, Limits, RunResult, Runtime, ToolContext, tool
from treadle.events import ChildEnd, ChildStart, Event, RunEnd, RunStart, TextDelta
from treadle.testing import ScriptedModel

ASK = {"tool_calls": [{"name": "ask", "arguments": {}}]}


def _parent(child: Agent[Any, str], seen: list[RunResult[str]] | None = None, **more: Any) -> Agent[object, str]:
    @tool(effect="once")
    async def ask(ctx: ToolContext[object]) -> str:
        result = await ctx.spawn(child, "what is it?", **more)
        if seen is not None:
            seen.append(result)
        return result.text

    return Agent(name="parent", model=ScriptedModel([ASK, {"text": "told"}]), tools=[ask])


def _child(*script: dict[str, Any], **more: Any) -> Agent[object, str]:
    return Agent(name="child", model=ScriptedModel(list(script)), **more)


async def test_its_answer_is_the_tools_to_use_and_its_run_is_journaled_under_the_parent() -> None:
    async with Runtime.open() as rt:
        result = await rt.run(_parent(_child({"text": "42"})), "go")
        child, parent = await rt.journal.runs()
    assert [r.text for m in result.messages for r in m.tool_results] == ["42"]
    assert (child.agent, child.parent_run_id) == ("child", result.run_id)
    assert (parent.run_id, parent.parent_run_id) == (result.run_id, None)


async def test_its_events_carry_the_parents_id_and_stand_between_child_start_and_child_end() -> None:
    events: list[Event] = []
    async with Runtime.open() as rt, rt.stream(_parent(_child({"text": "42"})), "go") as run:
        async for event in run:
            events.append(event)
    inner = [event for event in events if event.run_id != run.run_id]
    assert {event.parent_run_id for event in inner} == {run.run_id}
    assert (type(inner[0]), type(inner[-1])) == (RunStart, RunEnd)
    assert any(isinstance(event, TextDelta) for event in inner)
    start, end = (next(e for e in events if isinstance(e, kind)) for kind in (ChildStart, ChildEnd))
    assert events.index(start) < events.index(inner[0])
    assert events.index(inner[-1]) < events.index(end)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_it_has_limits_of_its_own_and_their_end_is_a_value() -> None:
    seen: list[RunResult[str]] = []
    child = _child({"tool_calls": [{"name": "nothing", "arguments": {}}]}, {"text": "late"})
    async with Runtime.open() as rt:
        result = await rt.run(_parent(child, seen, limits=Limits(turns=1)), "go")
    assert seen[0].outcome == "turn_limit"
    assert result.success


async def test_it_may_do_no_more_than_its_parent_and_works_in_the_same_place(tmp_path: Path) -> None:
    places: list[tuple[Path, str | None]] = []

    @tool(effect="once")
    async def change(ctx: ToolContext[object]) -> str:
        places.append((ctx.cwd, ctx.user_id))
        return "changed"

    def child() -> Agent[object, str]:
        return _child({"tool_calls": [{"name": "change", "arguments": {}}]}, {"text": "done"}, tools=[change])

    async with Runtime.open() as rt:
        await rt.run(_parent(child()), "go", cwd=tmp_path, user_id="ada")
        assert places == [(tmp_path.resolve(), "ada")]
        refused = await rt.run(_parent(child()), "go", mode="plan")
    assert len(places) == 1
    assert "mode plan" in refused.messages[2].tool_results[0].text, "the parent's own tool is refused first"


async def test_cancelling_the_parent_closes_the_child() -> None:
    begun = anyio.Event()

    @tool(effect="pure")
    async def wait() -> str:
        begun.set()
        await anyio.sleep_forever()
        return ""

    child = _child({"tool_calls": [{"name": "wait", "arguments": {}}]}, tools=[wait])
    async with Runtime.open() as rt:
        with anyio.fail_after(5):
            async with rt.stream(_parent(child), "go") as run, anyio.create_task_group() as group:

                async def stop() -> None:
                    await begun.wait()
                    run.cancel()

                group.start_soon(stop)
                async for _ in run:
                    pass
        infos = await rt.journal.runs()
    assert {info.outcome for info in infos} == {"cancelled"}


async def test_what_is_wrong_before_it_starts_is_an_error_of_the_tool() -> None:
    async with Runtime.open() as rt:
        result = await rt.run(_parent(Agent(name="child", model="nonsense")), "go")
    assert "nonsense" in result.messages[2].tool_results[0].text
    assert result.success


@pytest.mark.parametrize("on_disk", [False, True])
async def test_a_child_is_no_run_of_the_parents_session(tmp_path: Path, on_disk: bool) -> None:
    url = f"sqlite:///{tmp_path}/runs.db" if on_disk else "memory:"
    async with Runtime.open(url) as rt:
        session = rt.session("s", agent=_parent(_child({"text": "42"})))
        await session.send("go")
        assert [m.role for m in await session.history()] == ["user", "assistant", "tool", "assistant"]
