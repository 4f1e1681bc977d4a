"""An agent among the tools of another: a history and limits of its own, no more rights than who
called it, and an end that is told whatever it is.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlainTool,
    PlayedModel,
    asks,
    call,
    check_history,
    fails,
    gives,
    kind_of,
    open_runtime,
    says,
    skip,
    text,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError, Approve, ModelRequest, ToolContext, Usage
from treadle.config import Config
from treadle.journal.entries import ModelRequested
from treadle.messages import events
from treadle.messages.events import Event
from treadle.messages.result import RunResult
from treadle.models.model import Delta, ResponseEnd, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.tools.approval import ApprovalRequest
from treadle.tools.tool import ToolDeferred
from treadle.types import Limits, StopReason


def make(name: str, script: Any, *tools: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(
        name=name,
        description=f"Does {name}.",
        model=ScriptedModel(cast("list[dict[str, Any]]", script))
        if isinstance(script, list)
        else script,
        tools=tools,
        **more,
    )


def told(result: RunResult[Any]) -> list[str]:
    return [one.text for message in result.messages for one in message.tool_results]


async def seen_of(
    rt: Runtime, one: Agent[Any, Any], **options: Any
) -> tuple[RunResult[Any], list[Event]]:
    seen: list[Event] = []
    with anyio.fail_after(10):
        async with rt.stream(one, "go", **options) as stream:
            async for event in stream:
                seen.append(event)
    return stream.result, seen


def children_of(seen: list[Event]) -> dict[str, list[str]]:
    """By child: `child_start` and `child_end` with its outcome, in their order."""
    found: dict[str, list[str]] = {}
    for event in seen:
        if isinstance(event, events.ChildStart):
            found.setdefault(event.child_run_id, []).append("start")
        elif isinstance(event, events.ChildEnd):
            found.setdefault(event.child_run_id, []).append(event.outcome.value)
    return found


# ---------------------------------------------------------------- what it is


async def test_an_agent_among_tools_has_a_history_of_its_own_and_its_answer_is_the_result() -> None:
    model = ScriptedModel([says("Forty-two.")])
    helper = make("helper", model, instructions="You count.")
    result = await open_runtime().run(
        make("boss", [asks(call("helper", "h", prompt="How many?")), says("done")], helper), "go"
    )
    assert (result.text, told(result)) == ("done", ["Forty-two."])
    (request,) = model.requests
    assert [message.text for message in request.messages] == ["How many?"]
    assert [block.text for block in request.system] == ["You count."]


async def test_a_typed_answer_arrives_as_json() -> None:
    @dataclass
    class Found:
        city: str
        people: int

    helper = make("helper", [says('{"city": "Oslo", "people": 700000}')], output=Found)
    result = await open_runtime().run(
        make("boss", [asks(call("helper", prompt="Where?")), says("done")], helper), "go"
    )
    assert [json.loads(one) for one in told(result)] == [{"city": "Oslo", "people": 700000}]


async def test_arguments_that_are_no_prompt_are_explained() -> None:
    helper = make("helper", [says("never")])
    result = await open_runtime().run(
        make(
            "boss",
            [
                asks(
                    call("helper"), call("helper", prompt=" "), call("helper", prompt="x", more=1)
                ),
                says("done"),
            ],
            helper,
        ),
        "go",
    )
    assert all('{"prompt": "…"}' in one for one in told(result))
    assert len(told(result)) == 3


async def test_an_agent_whose_inputs_a_call_cannot_give_is_refused_where_it_is_defined() -> None:
    with pytest.raises(AgentError) as refused:
        make("boss", [], make("helper", [], instructions="Ask ${who}."))
    assert refused.value.kind == "invalid"
    assert "'helper'" in refused.value.message
    assert "who" in refused.value.message


async def test_a_child_of_a_sessions_run_has_no_session() -> None:
    rt = open_runtime()
    session = rt.session(
        "s",
        agent=make(
            "boss",
            [asks(call("helper", prompt="x")), says("done")],
            make("helper", [says("among us")]),
        ),
    )
    await session.send("go")
    (child,) = [info for info in await rt.journal.runs() if info.parent_run_id]
    assert (child.session_id, child.agent) == (None, "helper")
    assert "among us" not in [
        message.text for message in await session.history() if message.role == "assistant"
    ]


# ---------------------------------------------------------------- its end


async def test_events_of_children_carry_the_run_of_their_parent_and_every_start_has_its_end() -> (
    None
):
    rt = open_runtime()
    low = make("low", [says("lowest")])
    middle = make("middle", [asks(call("low", prompt="x")), says("mid")], low)
    result, seen = await seen_of(
        rt, make("boss", [asks(call("middle", prompt="x")), says("done")], middle)
    )
    by_agent = {event.agent: event.run_id for event in seen if isinstance(event, events.RunStart)}
    parents = {
        event.run_id: event.parent_run_id for event in seen if isinstance(event, events.RunStart)
    }
    assert parents[by_agent["low"]] == by_agent["middle"]
    assert parents[by_agent["middle"]] == result.run_id
    for event in seen:
        if event.run_id != result.run_id:
            assert event.parent_run_id == parents[event.run_id]
    assert children_of(seen) == {
        by_agent["middle"]: ["start", "completed"],
        by_agent["low"]: ["start", "completed"],
    }


@pytest.mark.parametrize(
    ("script", "limits", "words"),
    [
        ([fails("auth", status=401)], None, "error"),
        (
            [asks(call("look", at=1)), asks(call("look", at=2)), asks(call("look", at=3))],
            Limits(turns=2),
            "turn_limit",
        ),
        ([{"text": "cut", "stop": "max_tokens"}], None, "truncated"),
        ([{"text": "no", "stop": "refusal"}], None, "refused"),
    ],
)
async def test_a_child_that_comes_to_no_answer_is_a_tool_error_in_words(
    script: list[Any], limits: Limits | None, words: str
) -> None:
    helper = make("helper", script, gives("look"), limits=limits)
    result, seen = await seen_of(
        open_runtime(), make("boss", [asks(call("helper", prompt="x")), says("so be it")], helper)
    )
    (one,) = [r for m in result.messages for r in m.tool_results]
    assert one.is_error
    assert not one.unknown
    assert one.text.startswith(f"The agent helper ended {words}")
    assert result.success
    assert [ends for ends in children_of(seen).values()] == [["start", words]]


async def test_a_child_that_cannot_begin_is_a_tool_error_that_says_why() -> None:
    helper = Agent(name="helper", model="nobody:knows")
    result, seen = await seen_of(
        open_runtime(), make("boss", [asks(call("helper", prompt="x")), says("so be it")], helper)
    )
    (one,) = told(result)
    assert one.startswith("The agent helper could not begin: ")
    assert "nobody" in one
    assert not children_of(seen)


async def test_agents_start_agents_only_so_deep() -> None:
    one = make("a9", [says("the deepest")])
    for depth in range(8, -1, -1):
        one = make(
            f"a{depth}",
            [asks(call(f"a{depth + 1}", prompt="deeper")), says(f"a{depth} is done")],
            one,
        )
    rt = open_runtime()
    result = await rt.run(one, "go")
    runs = await rt.journal.runs()
    assert result.success
    assert len(runs) == 5
    deepest = max(runs, key=lambda info: info.agent)
    assert "deep" in told(await rt.replay(deepest.run_id))[0]


@pytest.mark.usefixtures("store")
async def test_a_parent_that_is_cancelled_or_out_of_time_closes_its_children() -> None:
    for outcome in ("cancelled", "timeout"):
        gate, rt = Gate(), open_runtime()
        low = make("low", PlayedModel([gate.stop, *text("never")]))
        boss = make(
            "boss",
            [asks(call("middle", prompt="x"))],
            make("middle", [asks(call("low", prompt="x"))], low),
        )
        seen: list[Event] = []
        with anyio.fail_after(10):
            async with rt.stream(
                boss, "go", limits=Limits(seconds=0.05 if outcome == "timeout" else None)
            ) as stream:
                if outcome == "cancelled":
                    await gate.reached.wait()
                    stream.cancel()
                async for event in stream:
                    seen.append(event)
        assert stream.result.outcome == outcome
        for info in await rt.journal.runs():
            assert (info.status, info.outcome) == (
                "finished",
                outcome if info.parent_run_id is None else "cancelled",
            )
            check_history((await rt.replay(info.run_id)).messages)
        ends = children_of(seen)
        assert [end for end in ends.values()] == [["start", "cancelled"]] * len(ends)
        assert kind_of(seen[-1]) == "run_end"


@pytest.mark.usefixtures("store")
async def test_a_child_that_is_killed_by_itself_is_a_tool_error() -> None:
    gate, rt = Gate(), open_runtime()
    boss = make(
        "boss",
        [asks(call("helper", prompt="x")), says("so be it")],
        make("helper", PlayedModel([gate.stop, *text("never")])),
    )
    with anyio.fail_after(10):
        async with rt.stream(boss, "go") as stream:
            await gate.reached.wait()
            (child,) = [info for info in await rt.journal.runs() if info.parent_run_id]
            await rt.kill(child.run_id)
            async for _ in stream:
                pass
    assert stream.result.success
    assert told(stream.result)[0].startswith("The agent helper ended cancelled")


# ---------------------------------------------------------------- what it may do


async def test_a_child_may_do_no_more_than_its_parent(tmp_path: Path) -> None:
    done: list[str] = []

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        done.append(ctx.run_id)
        return "done"

    helper_script = [asks(call("send")), says("tried")]
    for options, words in (({"mode": "plan"}, "plan"), ({"mode": "ask"}, "approv")):
        helper = make("helper", [*helper_script], PlainTool(name="send", does=does))
        rt = open_runtime()
        await rt.run(
            make("boss", [asks(call("helper", prompt="x")), says("done")], helper),
            "go",
            cwd=tmp_path,
            **options,
        )  # pyright: ignore[reportArgumentType]
        (child,) = [info for info in await rt.journal.runs() if info.parent_run_id]
        assert child.mode == options["mode"]
        assert not done
        assert words in told(await rt.replay(child.run_id))[0]


async def test_a_child_of_a_run_that_waits_for_nobody_waits_for_nobody() -> None:
    for on_ask in ("deny", "wait"):
        helper = make(
            "helper", [asks(call("send")), says("tried")], gives("send", needs_approval=True)
        )
        result = await open_runtime().run(
            make("boss", [asks(call("helper", prompt="x")), says("done")], helper),
            "go",
            on_ask=on_ask,
        )
        assert (result.outcome, result.waiting) == (
            ("completed", False) if on_ask == "deny" else ("approval_needed", True)
        )


async def test_an_agent_may_be_started_in_every_mode() -> None:
    for mode in ("plan", "ask", "accept-edits", "full"):
        boss = make(
            "boss", [asks(call("helper", prompt="x")), says("done")], make("helper", [says("here")])
        )
        assert told(await open_runtime().run(boss, "go", mode=mode)) == ["here"]


async def test_rules_of_the_user_hold_for_children_too(tmp_path: Path) -> None:
    from treadle.config.sections import Permissions
    from treadle.tools.builtin.read import Read

    (tmp_path / "secret.txt").write_text("hush")
    config = Config(permissions=Permissions(deny=("read(secret.txt)",)))
    helper = make("helper", [asks(call("read", path="secret.txt")), says("tried")], Read())
    rt = open_runtime(config=config)
    await rt.run(
        make("boss", [asks(call("helper", prompt="x")), says("done")], helper), "go", cwd=tmp_path
    )
    (child,) = [info for info in await rt.journal.runs() if info.parent_run_id]
    assert "hush" not in told(await rt.replay(child.run_id))[0]


async def test_whoever_is_asked_about_the_parents_calls_is_asked_about_its_childrens() -> None:
    asked: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> Approve:
        asked.append(request)
        return Approve()

    helper = make(
        "helper", [asks(call("send", "s1")), says("sent it")], gives("send", needs_approval=True)
    )
    result = await open_runtime().run(
        make("boss", [asks(call("helper", prompt="x")), says("done")], helper),
        "go",
        on_approval=approver,
    )
    assert told(result) == ["sent it"]
    assert [(one.agent, one.call_id, one.parent_run_id) for one in asked] == [
        ("helper", "s1", result.run_id)
    ]


async def test_while_a_child_asks_a_person_the_time_of_its_parents_stands_still() -> None:
    async def approver(request: ApprovalRequest) -> Approve:
        skip(100)
        return Approve()

    helper = make(
        "helper", [asks(call("send")), says("sent it")], gives("send", needs_approval=True)
    )
    boss = make(
        "boss",
        [asks(call("helper", prompt="x")), says("done")],
        helper,
        limits=Limits(seconds=60),
    )
    assert (await open_runtime().run(boss, "go", on_approval=approver)).success


# ---------------------------------------------------------------- side by side, within what is left


class Sayer:
    """Says so many words, and that it used them; remembers the most that it was allowed."""

    name = "sayer:model"
    refuses: frozenset[str] = frozenset()

    def __init__(self, *, used: int) -> None:
        self.used = used
        self.allowed: list[int] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        assert request.settings.max_tokens is not None
        self.allowed.append(request.settings.max_tokens)
        await anyio.lowlevel.checkpoint()
        yield TextDelta("a word")
        yield ResponseEnd(
            stop_reason=StopReason.COMPLETE,
            usage=Usage(input_tokens=20, output_tokens=min(self.used, request.settings.max_tokens)),
        )


async def test_thirty_two_children_at_once_have_a_share_each_and_never_pass_the_limits_of_their_parent() -> (
    None
):
    model = Sayer(used=300)
    helper = make("helper", model)
    calls = [call("helper", f"h{i}", prompt=f"part {i}") for i in range(32)]
    boss = make(
        "boss",
        [asks(*calls), says("done")],
        helper,
        limits=Limits(tokens=40_000, turns=40, tool_calls=32),
    )
    rt = open_runtime()
    result = await rt.run(boss, "go")
    assert result.success
    assert told(result) == ["a word"] * 32
    runs = await rt.journal.runs()
    assert len(runs) == 33
    assert sum(info.usage.total_tokens for info in runs) <= 40_000
    assert min(model.allowed) >= 300


async def test_what_children_may_cost_is_never_more_than_is_left_whoever_asks_first() -> None:
    model = Sayer(used=10**6)
    calls = [call("helper", f"h{i}", prompt=f"part {i}") for i in range(32)]
    boss = make(
        "boss", [asks(*calls), says("done")], make("helper", model), limits=Limits(tokens=20_000)
    )
    rt = open_runtime()
    result = await rt.run(boss, "go")
    assert sum(info.usage.total_tokens for info in await rt.journal.runs()) <= 20_000
    assert result.outcome in ("completed", "token_limit")
    for info in await rt.journal.runs():
        assert all(
            e.reserved is not None
            for e in (r.entry for r in await rt.journal.read(info.run_id))
            if isinstance(e, ModelRequested)
        )


async def test_children_beyond_the_turns_that_are_left_are_not_begun_and_the_parent_keeps_its_last_turn() -> (
    None
):
    helper = make("helper", [says("one")] * 10)
    calls = [call("helper", f"h{i}", prompt=f"part {i}") for i in range(5)]
    result, seen = await seen_of(
        open_runtime(), make("boss", [asks(*calls), says("done")], helper, limits=Limits(turns=4))
    )
    assert result.success
    assert told(result).count("one") == 2
    assert [one for one in told(result) if one != "one"] == [
        "Not started: the limit of turns leaves nothing for another agent."
    ] * 3
    assert [ends for ends in children_of(seen).values()] == [["start", "completed"]] * 2


async def test_calls_of_children_count_on_their_parent() -> None:
    helper = make(
        "helper", [asks(*[call("look", at=i) for i in range(5)]), says("looked")], gives("look")
    )
    rt = open_runtime()
    result = await rt.run(
        make(
            "boss",
            [asks(call("helper", prompt="x")), says("done")],
            helper,
            limits=Limits(tool_calls=3),
        ),
        "go",
    )
    assert result.outcome in ("completed", "call_limit")
    assert {info.agent: info.tool_calls for info in await rt.journal.runs()} == {
        "boss": 1,
        "helper": 2,
    }


async def test_limits_of_its_own_bind_a_child_where_they_are_lower_and_not_where_they_are_higher() -> (
    None
):
    scripts = [asks(call("look", at=i)) for i in range(9)]
    own = make("own", scripts, gives("look"), limits=Limits(turns=2))
    high = make("high", scripts, gives("look"), limits=Limits(turns=1000))
    none = make("none", scripts, gives("look"))
    for child, turns in ((own, 2), (high, 4), (none, 4)):
        rt = open_runtime()
        await rt.run(
            make(
                "boss",
                [asks(call(child.name, prompt="x")), says("done")],
                child,
                limits=Limits(turns=6),
            ),
            "go",
        )
        (info,) = [info for info in await rt.journal.runs() if info.parent_run_id]
        assert info.turns == turns, child.name


# ---------------------------------------------------------------- of one call, several


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("prompts", [("first", "second"), ("the same", "the same")])
async def test_a_tool_that_starts_several_runs_of_one_agent_gets_each_of_them_back_after_a_restart(
    prompts: tuple[str, str],
) -> None:
    rt, held = open_runtime(), {"yes": True}

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        first, second = [await ctx.spawn(helper, prompt) for prompt in prompts]
        if held["yes"]:
            raise ToolDeferred("later")
        return f"{first.output} {second.output}"

    model = ScriptedModel([says("1"), says("2"), says("never")])
    helper = make("helper", model)
    boss = make(
        "boss",
        [asks(call("both")), says("done")],
        PlainTool(name="both", does=does, effect="idempotent"),
    )
    waiting = await rt.run(boss, "go")
    assert waiting.waiting
    held["yes"] = False
    result = await rt.resume(waiting.run_id, boss)
    assert told(result) == ["1 2"]
    assert len(model.requests) == 2


@pytest.mark.usefixtures("store")
async def test_a_childs_typed_answer_is_a_value_of_its_type_also_out_of_the_journal() -> None:
    @dataclass
    class Found:
        city: str

    rt, got = open_runtime(), list[object]()

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        got.append((await ctx.spawn(helper, "where?")).output)
        if len(got) == 1:
            raise ToolDeferred("later")
        return "ok"

    helper = make("helper", [says('{"city": "Oslo"}')], output=Found)
    boss = make(
        "boss",
        [asks(call("find")), says("done")],
        PlainTool(name="find", does=does, effect="idempotent"),
    )
    await rt.resume((await rt.run(boss, "go")).run_id, boss)
    assert got == [Found("Oslo")] * 2
