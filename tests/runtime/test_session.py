"""Sessions: one run at a time, the history across runs, what can be changed between them, and many
of them at once.
"""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    agent,
    asks,
    call,
    check_history,
    fails,
    gives,
    open_runtime,
    says,
    text,
    wishes,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import ToolContext
from treadle.agents.agent import Agent
from treadle.errors import AgentError, ErrorKind
from treadle.messages.history import History
from treadle.messages.message import MediaPart, Message, Part, TextPart, ToolCall, ToolResult
from treadle.models.model import PartEnd, ReasoningDelta, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel


def script(*answers: str) -> ScriptedModel:
    return ScriptedModel([says(answer) for answer in answers])


# ---------------------------------------------------------------- history


async def test_a_session_remembers_what_was_said() -> None:
    model = script("Hello, Ada.", "Your name is Ada.")
    session = open_runtime().session("s", agent=agent(model))
    first = await session.send("I am Ada.")
    second = await session.send("What is my name?")
    assert [m.text for m in model.requests[1].messages] == [
        "I am Ada.",
        "Hello, Ada.",
        "What is my name?",
    ]
    assert [m.text for m in second.new_messages] == ["What is my name?", "Your name is Ada."]
    assert second.messages == [*first.messages, *second.new_messages] == await session.history()
    assert first.session_id == second.session_id == "s"


async def test_a_run_without_a_session_has_none_and_is_not_remembered() -> None:
    rt = open_runtime()
    result = await rt.run(agent([says("hi")]), "go")
    assert result.session_id is None
    assert rt.sessions.list() == []


async def test_a_run_in_a_session_by_its_id_opens_it_or_makes_it() -> None:
    rt = open_runtime()
    await rt.run(agent([says("hi")]), "one", session="s")
    session = rt.session("s", agent=agent([says("ho")]))
    await rt.run(agent([says("ho")]), "two", session=session)
    assert [m.text for m in await session.history()] == ["one", "hi", "two", "ho"]


async def test_a_session_without_an_id_gets_one() -> None:
    rt = open_runtime()
    first, second = rt.session(agent=agent([says("hi")])), rt.session(agent=agent([]))
    assert first.id != second.id
    assert (await first.send("go")).session_id == first.id


async def test_reasoning_is_sent_inside_its_run_and_marked_as_settled_in_later_ones() -> None:
    thought = [ReasoningDelta("Hm."), PartEnd("anthropic", '{"signature": "s"}')]
    model = PlayedModel(
        [*thought, *wishes(("c1", "look", "{}"))], [*thought, *text("Done.")], text("Yes.")
    )
    session = open_runtime().session("s", agent=agent(model, gives("look")))
    await session.send("go")
    await session.send("really?")
    settled = [
        request.messages.settled
        for request in model.requests
        if isinstance(request.messages, History)
    ]
    assert settled == [0, 0, 4]
    assert len({id(request.messages) for request in model.requests[:2]}) == 1, (
        "encoded once for the whole run"
    )
    assert all(
        m.reasoning == "Hm."
        for m in await session.history()
        if m.role == "assistant" and m.text != "Yes."
    ), "but it is stored"


async def test_the_prompt_in_flight_stands_once_in_the_request_and_is_not_yet_history() -> None:
    gate = Gate()
    model = PlayedModel(text("one"), [gate.stop, *text("two")])
    session = open_runtime().session("s", agent=agent(model))
    await session.send("first")
    async with session.stream("second"):
        await gate.reached.wait()
        assert [m.text for m in model.histories[-1]] == ["first", "one", "second"]
        assert [m.text for m in await session.history()] == ["first", "one"]


async def test_a_run_that_ends_badly_is_history_too() -> None:
    model = ScriptedModel(
        [asks(call("look"), text="Looking."), fails("auth", status=401), says("Better now.")]
    )
    session = open_runtime().session("s", agent=agent(model, gives("look")))
    assert (await session.send("go")).outcome == "error"
    check_history(await session.history())
    assert (await session.send("again")).outcome == "completed"
    assert [m.role for m in model.requests[-1].messages] == ["user", "assistant", "tool", "user"]


async def test_the_ids_of_calls_stay_unique_across_runs() -> None:
    model = ScriptedModel(
        [asks(call("look", "c")), says("one"), asks(call("look", "c")), says("two")]
    )
    session = open_runtime().session("s", agent=agent(model, gives("look")))
    await session.send("go")
    await session.send("again")
    check_history(await session.history())


async def test_the_agents_first_messages_are_said_once_in_a_session() -> None:
    model = script("4", "9")
    session = open_runtime().session(
        "s", agent=agent(model, messages=[Message.user("1+1?"), Message.assistant("2")])
    )
    await session.send("2+2?")
    await session.send("3*3?")
    assert [m.text for m in model.requests[1].messages] == ["1+1?", "2", "2+2?", "4", "3*3?"]


async def test_the_history_is_a_copy() -> None:
    session = open_runtime().session("s", agent=agent(script("hi")))
    await session.send("go")
    (await session.history()).clear()
    assert len(await session.history()) == 2


async def test_a_cleared_session_begins_anew() -> None:
    model = script("one", "two")
    session = open_runtime().session("s", agent=agent(model))
    await session.send("first")
    await session.clear()
    assert await session.history() == []
    await session.send("second")
    assert [m.text for m in model.requests[1].messages] == ["second"]


async def test_text_that_utf8_cannot_hold_is_remembered() -> None:
    session = open_runtime().session("s", agent=agent(PlayedModel(text("\ud83d"))))
    await session.send("half: \ud83d")
    assert [m.text for m in await session.history()] == ["half: \ud83d", "\ud83d"]


# ---------------------------------------------------------------- titles


async def test_a_session_is_named_by_its_first_prompt_once() -> None:
    rt = open_runtime()
    session = rt.session(
        "s", agent=agent(script("a", "b"), messages=[Message.user("An example of the agent's")])
    )
    assert rt.sessions.list()[0].title == "New Session"
    await session.send("  Where is it warm?\nTell me.")
    await session.send("And tomorrow?")
    assert rt.sessions.list()[0].title == "Where is it warm?"


async def test_a_name_that_somebody_gave_stays() -> None:
    rt = open_runtime()
    rt.sessions.create("Trips", session_id="s")
    await rt.run(agent(script("a")), "Where is it warm?", session="s")
    assert rt.sessions.list()[0].title == "Trips"


# ---------------------------------------------------------------- one run at a time


async def test_a_second_run_is_refused_as_busy_and_disturbs_nothing() -> None:
    rt, gate = open_runtime(), Gate()
    session = rt.session("s", agent=agent([asks(call("gate")), says("done")], gate.tool))
    with anyio.fail_after(20):
        async with session.stream("go") as stream:
            await gate.reached.wait()
            assert session.is_busy
            for refused in (
                session.send("again"),
                rt.run(agent(script("x")), "again", session="s"),
                session.clear(),
            ):
                with pytest.raises(AgentError) as caught:
                    await refused
                assert caught.value.kind is ErrorKind.BUSY
            with pytest.raises(AgentError, match="between runs"):
                session.use(instructions="Be brief.")
            with pytest.raises(AgentError, match="active run"):
                async with session.stream("again"):
                    pass
            gate.opened.set()
            async for _ in stream:
                pass
    assert stream.result.outcome == "completed"
    assert not session.is_busy


@pytest.mark.usefixtures("store")
async def test_a_session_is_free_again_after_every_end_and_after_what_could_not_start() -> None:
    session = open_runtime().session(
        "s", agent=agent(ScriptedModel([fails("auth"), says("hi")]), instructions="${who}")
    )
    nothing: list[Part] = []
    for wrong in ("", "   ", nothing):
        with pytest.raises(AgentError, match="empty"):
            await session.send(wrong, inputs={"who": "Ada"})
    with pytest.raises(AgentError, match="who"):
        await session.send("go")
    with pytest.raises(AgentError, match="not a directory"):
        await session.send("go", inputs={"who": "Ada"}, cwd="/no/such/place")
    assert not session.is_busy
    assert await session.history() == []
    assert (await session.send("go", inputs={"who": "Ada"})).outcome == "error"
    assert (await session.send("go", inputs={"who": "Ada"})).outcome == "completed"


async def test_a_stream_that_is_never_entered_holds_nothing() -> None:
    session = open_runtime().session("s", agent=agent(script("one", "two")))
    left, first, second = session.stream("left"), session.stream("first"), session.stream("second")
    for stream in (first, second):
        async with stream:
            async for _ in stream:
                pass
    del left
    assert [m.text for m in second.result.messages] == ["first", "one", "second", "two"]


@pytest.mark.usefixtures("store")
async def test_a_run_is_cancelled_by_the_id_of_its_session() -> None:
    rt, gate = open_runtime(), Gate()
    async with rt.stream(agent([asks(call("gate"))], gate.tool), "go", session="s") as stream:
        await gate.reached.wait()
        assert not rt.cancel("another")
        assert rt.cancel("s")
        async for _ in stream:
            pass
    assert stream.result.outcome == "cancelled"
    assert not rt.cancel("s")


async def test_sessions_run_beside_each_other() -> None:
    rt, one, other = open_runtime(), Gate(), Gate()
    with anyio.fail_after(20):
        async with (
            rt.stream(
                agent([asks(call("gate")), says("one")], one.tool), "a", session="s1"
            ) as first,
            rt.stream(
                agent([asks(call("gate")), says("two")], other.tool), "b", session="s2"
            ) as second,
        ):
            await one.reached.wait()
            await other.reached.wait()
            one.opened.set()
            other.opened.set()
            for stream in (first, second):
                async for _ in stream:
                    pass
    assert (first.result.output, second.result.output) == ("one", "two")
    assert [m.text for m in await rt.messages("s1") if m.text] == ["a", "one"]


@pytest.mark.parametrize("session_id", ["", "a/b", "..", "a\\b", "x" * 129, "a\0b", "a\nb"])
async def test_an_id_that_could_be_a_path_is_refused(session_id: str) -> None:
    rt = open_runtime()
    with pytest.raises(AgentError, match="is not a valid session ID"):
        rt.session(session_id, agent=agent([]))
    with pytest.raises(AgentError, match="is not a valid session ID"):
        await rt.run(agent([says("hi")]), "go", session=session_id)


# ---------------------------------------------------------------- from any thread


async def test_of_two_loops_in_two_threads_one_finds_the_session_busy() -> None:
    rt = open_runtime()
    inside, leave = threading.Event(), threading.Event()

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        inside.set()
        await anyio.to_thread.run_sync(leave.wait, 5)
        return "ok"

    one = agent([asks(call("wait")), says("done")], PlainTool(name="wait", does=does))

    def elsewhere() -> str:
        return anyio.run(lambda: rt.run(one, "go", session="s")).outcome.value

    ended = list[str]()

    async def drive() -> None:
        ended.append(await anyio.to_thread.run_sync(elsewhere))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
            await anyio.to_thread.run_sync(inside.wait, 5)
            with pytest.raises(AgentError, match="active run"):
                await rt.run(agent(script("x")), "again", session="s")
            rt.steer("s", "hurry up")
            leave.set()
    assert ended == ["completed"]
    assert [m.text for m in await rt.messages("s") if m.role == "user"] == ["go", "hurry up"]


async def test_a_run_whose_loop_is_gone_can_be_cancelled_without_harm() -> None:
    rt = open_runtime()
    run = await anyio.to_thread.run_sync(anyio.run, _abandoned, rt)
    assert run.result.success
    rt._runs.busy._claims["s"] = run.active  # pyright: ignore[reportPrivateUsage]  the moment between a loop's end and the run's
    assert rt.cancel("s")


async def _abandoned(rt: Runtime) -> Any:
    class Left:
        active: Any = None
        result: Any = None

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        Left.active = rt._runs.busy._claims["s"]  # pyright: ignore[reportPrivateUsage]  as above
        return "ok"

    Left.result = await rt.run(
        agent([asks(call("look")), says("done")], PlainTool(name="look", does=does)),
        "go",
        session="s",
    )
    return Left


# ---------------------------------------------------------------- changes between runs


async def test_model_tools_instructions_and_agent_can_be_changed_and_the_history_stays() -> None:
    first, second = script("one"), ScriptedModel([asks(call("look")), says("two"), says("three")])
    session = open_runtime().session("s", agent=agent(first, instructions="Be long."))
    await session.send("a")
    session.use(model=second, tools=[gives("look")], instructions="Be brief.")
    await session.send("b")
    assert [m.text for m in second.requests[0].messages] == ["a", "one", "b"]
    assert second.requests[0].system[0].text == "Be brief."
    assert [t.name for t in second.requests[0].tools] == ["look"]
    other = Agent[Any](name="other", model=second)
    session.use(agent=other)
    assert session.agent is other
    await session.send("c")
    assert second.requests[2].system == ()
    assert len(await session.history()) == 8


async def test_files_that_were_seen_are_known_for_the_whole_session_and_no_longer() -> None:
    seen: list[dict[str, str]] = []

    async def does(ctx: ToolContext[None], arguments: object) -> str:
        ctx.seen_files["a.txt"] = "1"
        seen.append(ctx.seen_files)
        return "ok"

    rt, tool = open_runtime(), PlainTool(name="read", does=does)
    for session in ("s", "s", "t", None):
        await rt.run(agent([asks(call("read")), says("done")], tool), "go", session=session)
    assert seen[0] is seen[1]
    assert seen[0] is not seen[2]
    assert seen[2] is not seen[3]
    await rt.clear("s")
    await rt.run(agent([asks(call("read")), says("done")], tool), "go", session="s")
    assert seen[4] is not seen[0]


# ---------------------------------------------------------------- prompts


async def test_nothing_stays_of_a_session_that_has_nothing_to_keep() -> None:
    rt = open_runtime()
    for number in range(3):
        await rt.run(agent([says("ok")]), "go", session=f"s{number}")
    boxes = rt._assembly.toolboxes  # pyright: ignore[reportPrivateUsage]  memory has no public count
    assert (boxes._shared, boxes._spills) == ({}, {})  # pyright: ignore[reportPrivateUsage]  as above


async def test_a_prompt_may_hold_parts_but_none_that_only_a_model_or_a_tool_can_say() -> None:
    model = script("A cat.")
    session = open_runtime().session("s", agent=agent(model))
    await session.send([MediaPart(media_type="image/png", data="iVBORw0KGgo=")])
    assert isinstance(model.requests[0].messages[0].parts[0], MediaPart)
    for wrong in (ToolCall(id="c", name="look"), ToolResult(call_id="c", name="look")):
        with pytest.raises(AgentError, match="a prompt consists of text, paths and media"):
            await session.send([TextPart(text="go"), wrong])
    with pytest.raises(AgentError, match="empty"):
        await session.send([TextPart(text=" ")])


async def test_a_session_that_was_deleted_in_the_middle_of_a_run_stays_deleted() -> None:
    rt, gate = open_runtime(), Gate()
    async with rt.stream(
        agent(PlayedModel([TextDelta("hi"), gate.stop, *text("")])), "go", session="s"
    ) as stream:
        await gate.reached.wait()
        rt.sessions.delete("s")
        gate.opened.set()
        async for _ in stream:
            pass
    assert stream.result.success
    assert rt.sessions.get("s") is None
