"""Runs that were started by calls of others, taken up again with them: what was said reaches them,
what they did stands, and none is left behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import Gate, PlainTool, asks, call, check_history, gives, open_runtime, says
from tests.stores import new_journal, postgres_server, postgres_template, store  # noqa: F401  fixtures
from tests.tools.test_subagent import make, told
from treadle import Agent, AgentError, Runtime, ToolContext
from treadle._internal.clock import Clock
from treadle.config import Config
from treadle.journal.entries import RunFinished, ToolFinished
from treadle.journal.sqlite import SqliteJournal
from treadle.testing import ScriptedModel
from treadle.tools.tool import ToolDeferred
from treadle.types import Limits

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture(params=["memory", "sqlite"])
async def rt(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    more = (
        {"journal": SqliteJournal.open(tmp_path / "journal.db")}
        if request.param == "sqlite"
        else {}
    )
    async with open_runtime(**more) as opened:
        yield opened


class Sent:
    """A tool that needs a person's yes, and what it did."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.tool = PlainTool(name="send", does=self._does, needs_approval=True)

    async def _does(self, ctx: ToolContext[Any], arguments: Any) -> str:
        self.did.append(arguments)
        return "sent"


def family(
    sent: Sent, *, call_id: str = "s1", depth: int = 1
) -> tuple[Agent[Any, Any], ScriptedModel]:
    """Somebody who has somebody send something; the second is the model of whoever sends."""
    model = ScriptedModel([asks(call("send", call_id, to="Ada")), says("it is sent")])
    one = make("sender", model, sent.tool)
    for level in range(depth):
        one = make(
            f"boss{level}",
            [asks(call(one.name, f"b{level}", prompt="send it")), says(f"boss{level} is done")],
            one,
        )
    return one, model


async def test_an_answer_to_a_call_of_a_child_reaches_it_through_its_parent(rt: Runtime) -> None:
    sent = Sent()
    boss, model = family(sent)
    waiting = await rt.run(boss, "go", on_ask="wait")
    assert (waiting.outcome, waiting.waiting, sent.did) == ("approval_needed", True, [])
    result = await rt.resume(waiting.run_id, boss, approve=["s1"])
    assert (result.text, told(result), sent.did) == (
        "boss0 is done",
        ["it is sent"],
        [{"to": "Ada"}],
    )
    assert len(model.requests) == 2, "its first turn stands"
    assert [info.status for info in await rt.journal.runs()] == ["finished"] * 2


async def test_answers_reach_runs_below_runs(rt: Runtime) -> None:
    cases: list[tuple[Any, str]] = [
        ({"approve": ["s1"]}, "sent"),
        ({"deny": {"s1": "not today"}}, "not today"),
        ({"results": {"s1": "I did it"}}, "I did it"),
    ]
    for answers, words in cases:
        sent = Sent()
        boss, model = family(sent, depth=3)
        waiting = await rt.run(boss, "go", on_ask="wait")
        result = await rt.resume(waiting.run_id, boss, **answers)
        assert result.text == "boss2 is done"
        assert words in model.requests[-1].messages[-1].tool_results[0].text
        assert bool(sent.did) is ("approve" in answers)


async def test_without_an_answer_all_of_them_wait_on(rt: Runtime) -> None:
    sent = Sent()
    boss, model = family(sent, depth=2)
    waiting = await rt.run(boss, "go", on_ask="wait")
    for _ in range(2):
        assert (await rt.resume(waiting.run_id, boss)).waiting
    assert len(model.requests) == 1
    assert (await rt.resume(waiting.run_id, boss, approve=["s1"])).success
    assert len(sent.did) == 1


async def test_an_answer_to_no_call_of_the_tree_is_refused_with_those_that_wait(
    rt: Runtime,
) -> None:
    boss, _ = family(Sent(), depth=2)
    waiting = await rt.run(boss, "go", on_ask="wait")
    with pytest.raises(AgentError) as refused:
        await rt.resume(waiting.run_id, boss, approve=["nobody"])
    assert refused.value.kind == "invalid"
    assert "s1" in refused.value.message
    assert [info.status for info in await rt.journal.runs()] == ["waiting"] * 3


async def test_a_call_that_waits_in_two_runs_is_answered_in_each(rt: Runtime) -> None:
    sent = Sent()
    scripts = [
        [asks(call("send", "same", to=name)), says(f"{name} has it")] for name in ("Ada", "Bob")
    ]
    senders = [make(f"sender{n}", script, sent.tool) for n, script in enumerate(scripts)]
    boss = make(
        "boss",
        [
            asks(*[call(one.name, f"b{n}", prompt="x") for n, one in enumerate(senders)]),
            says("done"),
        ],
        *senders,
    )
    waiting = await rt.run(boss, "go", on_ask="wait")
    with pytest.raises(AgentError) as refused:
        await rt.resume(waiting.run_id, boss, approve=["same"])
    children = [info for info in await rt.journal.runs() if info.parent_run_id]
    assert all(info.run_id in refused.value.message for info in children)
    for info in children:
        await rt.resume(
            info.run_id, next(one for one in senders if one.name == info.agent), approve=["same"]
        )
    result = await rt.resume(waiting.run_id, boss)
    assert told(result) == ["Ada has it", "Bob has it"]
    assert len(sent.did) == 2


async def test_answers_to_calls_of_several_children_reach_each_its_own(rt: Runtime) -> None:
    async def later(ctx: ToolContext[Any], arguments: Any) -> str:
        raise ToolDeferred("the shop answers by mail")

    order = PlainTool(name="order", does=later)

    def boss() -> Agent[Any, Any]:
        buyers = [
            make(f"buyer{n}", [asks(call("order", f"o{n}")), says(f"buyer {n} has it")], order)
            for n in range(2)
        ]
        return make(
            "boss",
            [
                asks(*[call(one.name, f"b{n}", prompt="x") for n, one in enumerate(buyers)]),
                says("done"),
            ],
            *buyers,
        )

    for said in (
        {"results": {"o0": "a hat", "o1": "a coat"}},
        {"deny": {"o0": "no hat", "o1": "no coat"}},
    ):
        one = boss()
        waiting = await rt.run(one, "go")
        result = await rt.resume(waiting.run_id, one, **said)  # pyright: ignore[reportArgumentType]  two of its options
        assert told(result) == ["buyer 0 has it", "buyer 1 has it"]
        for info in await rt.journal.children(waiting.run_id):
            ((words,),) = [told(await rt.replay(info.run_id))]
            assert ("hat" in words, "coat" in words) == (
                info.agent == "buyer0",
                info.agent == "buyer1",
            )


async def test_a_child_that_nobody_will_go_on_with_ends_with_its_parent(rt: Runtime) -> None:
    for end in ("deny", "result", "kill"):
        sent = Sent()
        boss, _ = family(sent, depth=2)
        waiting = await rt.run(boss, "go", on_ask="wait")
        match end:
            case "deny":
                assert (await rt.resume(waiting.run_id, boss, deny={"b1": "never mind"})).success
            case "result":
                assert (await rt.resume(waiting.run_id, boss, results={"b1": "I did it"})).success
            case _:
                await rt.kill(waiting.run_id)
        for info in (await rt.journal.runs())[:3]:
            assert info.status == "finished"
            assert info.outcome == (
                "completed" if info.run_id == waiting.run_id and end != "kill" else "cancelled"
            )
            check_history((await rt.replay(info.run_id)).messages)
        assert sent.did == []


async def test_a_parent_whose_time_is_over_closes_a_child_that_waits(rt: Runtime) -> None:
    async def forever(ctx: ToolContext[Any], arguments: Any) -> str:
        await anyio.sleep_forever()
        return "never"

    slow = PlainTool(name="slow", does=forever)
    sender, _ = family(Sent(), depth=0)
    boss = make("boss", [asks(call("sender", "b", prompt="x"), call("slow", "z"))], sender, slow)
    result = await rt.run(boss, "go", on_ask="wait", limits=Limits(seconds=0.3))
    assert result.outcome == "timeout"
    assert {info.status for info in await rt.journal.runs()} == {"finished"}


async def test_what_children_had_spent_counts_after_a_restart_those_below_them_too(
    rt: Runtime,
) -> None:
    sent = Sent()
    low = make("low", [asks(call("look")), says("seen")], gives("look"))
    sender = make(
        "sender",
        [asks(call("low", prompt="x")), asks(call("send", "s1")), says("it is sent")],
        low,
        sent.tool,
    )
    boss = make("boss", [asks(call("sender", "b", prompt="x")), says("done")], sender)
    waiting = await rt.run(
        boss, "go", on_ask="wait", limits=Limits(turns=9, tool_calls=9, tokens=1_000_000)
    )
    before = {info.agent: info for info in await rt.journal.runs()}
    assert {name: info.turns for name, info in before.items()} == {"boss": 1, "sender": 2, "low": 2}
    result = await rt.resume(waiting.run_id, boss, approve=["s1"], limits=Limits(turns=6))
    assert not result.success or sum(info.turns for info in await rt.journal.runs()) <= 6
    assert sum(info.turns for info in await rt.journal.runs()) <= 6


async def test_a_child_for_whose_next_turn_nothing_is_left_is_not_gone_on_with(rt: Runtime) -> None:
    boss, model = family(Sent())
    waiting = await rt.run(boss, "go", on_ask="wait")
    result = await rt.resume(waiting.run_id, boss, approve=["s1"], limits=Limits(turns=3))
    assert told(result) == ["Not started: the limit of turns leaves nothing for another agent."]
    assert len(model.requests) == 1
    assert {info.status for info in await rt.journal.runs()} == {"finished"}


async def test_a_child_is_gone_on_with_in_the_mode_that_its_parent_has_now(rt: Runtime) -> None:
    sent = Sent()
    boss, _ = family(sent)
    waiting = await rt.run(boss, "go", on_ask="wait")
    result = await rt.resume(waiting.run_id, boss, approve=["s1"], mode="plan")
    assert (result.outcome, sent.did) == ("completed", [])


async def test_a_once_call_of_a_child_whose_driver_died_is_unknown_and_not_made_again() -> None:
    gate, journal = Gate(name="send"), new_journal()
    model = ScriptedModel([asks(call("send", "s1")), says("it may be sent")])
    boss = make(
        "boss", [asks(call("sender", prompt="x")), says("done")], make("sender", model, gate.tool)
    )
    async with anyio.create_task_group() as group:
        group.start_soon(open_runtime(journal=journal).run, boss, "go")
        await gate.reached.wait()
        runs = [info.run_id for info in await journal.runs()]
        for run_id in runs:
            await (await journal.take_over(run_id, force=True)).release()
        gate.reached = anyio.Event()
        with anyio.move_on_after(5):
            result = await open_runtime(journal=journal).resume(runs[-1], boss)
            assert (told(result), len(model.requests)) == (["it may be sent"], 2)
        assert not gate.reached.is_set()
        assert [info.run_id for info in await journal.runs()] == runs
        ends = [
            record.entry
            for record in await journal.read(runs[0])
            if isinstance(record.entry, ToolFinished)
        ]
        assert [(one.result.call_id, one.status) for one in ends] == [("s1", "unknown")]
        group.cancel_scope.cancel()


async def test_a_child_that_is_done_is_not_asked_again(rt: Runtime) -> None:
    model, tries = ScriptedModel([says("the answer")]), list[int]()
    helper = make("helper", model)

    async def does(ctx: ToolContext[Any], arguments: Any) -> str:
        found = await ctx.spawn(helper, "x")
        tries.append(ctx.attempt)
        if len(tries) == 1:
            raise ToolDeferred("once more")
        return found.text

    boss = make(
        "boss",
        [asks(call("ask")), says("done")],
        PlainTool(name="ask", does=does, effect="idempotent"),
    )
    result = await rt.resume((await rt.run(boss, "go")).run_id, boss)
    assert (told(result), tries, len(model.requests)) == (["the answer"], [1, 2], 1)


async def test_time_in_which_people_were_asked_in_a_child_is_no_time_of_its_parent(
    tmp_path: Path,
) -> None:
    class Odd(Clock):
        pass

    async def approver(request: Any) -> Any:
        await anyio.sleep(0.3)
        raise RuntimeError("gone home")

    async with Runtime(config=Config(), clock=Odd()) as rt:
        sent = Sent()
        boss, _ = family(sent)
        waiting = await rt.run(boss, "go", on_approval=approver)
        assert waiting.waiting
        rows = await rt.journal.read(waiting.run_id)
        passed_s = (rows[-1].entry.at - rows[0].entry.at).total_seconds()
        assert (await rt.journal.load(waiting.run_id)).driven_s <= passed_s - 0.29
        result = await rt.resume(waiting.run_id, boss, approve=["s1"])
        assert result.success, result.outcome
        end = (await rt.journal.read(waiting.run_id))[-1].entry
        assert isinstance(end, RunFinished)
