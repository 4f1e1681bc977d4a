"""A run that is done when its model says so with `complete`, and not before."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import anyio
import pytest

from tests.doubles import (
    Gate,
    PlayedModel,
    asks,
    call,
    check_history,
    end,
    gives,
    open_runtime,
    says,
)
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, AgentError, Runtime
from treadle.journal.entries import InputAdded
from treadle.messages import events
from treadle.messages.result import RunResult
from treadle.models.model import TextDelta
from treadle.testing import ScriptedModel
from treadle.tools.approval import Approve
from treadle.types import Limits, Outcome


@dataclass
class Answer:
    city: str
    days: int


class Colour(Enum):
    RED = "red"


def completing(script: list[dict[str, Any]], *tools: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(name="worker", model=ScriptedModel(script), tools=tools, completion=True, **more)


def done(output: Any, call_id: str = "") -> dict[str, Any]:
    return call("complete", call_id, output=output)


def told(result: RunResult[Any]) -> list[str]:
    return [one.text for message in result.messages for one in message.tool_results]


async def test_a_run_is_done_when_its_model_completes_it_and_its_output_is_what_that_says() -> None:
    result = await open_runtime().run(
        completing([asks(call("look")), asks(done("all of it"))], gives("look")), "go"
    )
    assert (result.outcome, result.output, result.validated, result.turn_count) == (
        "completed",
        "all of it",
        True,
        2,
    )
    check_history(result.messages)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (Answer, {"city": "Oslo", "days": 2}, Answer("Oslo", 2)),
        (int, 7, 7),
        (Literal["yes", "no"], "yes", "yes"),
        (Colour, "red", Colour.RED),
        (list[str], ["a", "b"], ["a", "b"]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        ({"type": "string", "enum": ["1", "true"]}, "1", "1"),
        (
            {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
            {"a": 1.5},
            {"a": 1.5},
        ),
    ],
)
async def test_an_output_of_a_type_is_a_value_of_it(kind: Any, given: Any, value: Any) -> None:
    model = ScriptedModel([asks(done(given))])
    result = await open_runtime().run(
        Agent(name="worker", model=model, output=kind, completion=True), "go"
    )
    assert (result.outcome, result.output, result.validated) == ("completed", value, True)
    assert json.loads(result.output_json) == given
    assert model.requests[0].settings.output_schema is None


async def test_an_output_that_is_not_what_is_asked_for_is_explained_and_given_again() -> None:
    script = [asks(done({"city": "Oslo"})), asks(done({"city": "Oslo", "days": 3}))]
    result = await open_runtime().run(completing(script, output=Answer), "go")
    assert result.output == Answer("Oslo", 3)
    assert "days" in told(result)[0]


async def test_calls_beside_it_are_made_before_the_run_ends() -> None:
    for order in ([call("look", "l"), done("x", "c")], [done("x", "c"), call("look", "l")]):
        result = await open_runtime().run(completing([asks(*order)], gives("look", "seen")), "go")
        assert (result.outcome, result.output, sorted(told(result))) == (
            "completed",
            "x",
            ["done", "seen"],
        )


async def test_of_two_the_first_counts() -> None:
    result = await open_runtime().run(completing([asks(done("one", "a"), done("two", "b"))]), "go")
    assert (result.output, result.metrics.tool_calls) == ("one", 2)


async def test_words_alone_are_no_end_and_are_answered_so_often_and_no_more() -> None:
    rt = open_runtime()
    result = await rt.run(completing([says("done!")] * 9), "go")
    assert (result.outcome, result.output, result.validated) == ("invalid_output", "done!", False)
    said = [
        r.entry.message.text
        for r in await rt.journal.read(result.run_id)
        if isinstance(r.entry, InputAdded)
    ]
    assert len(said) == 2
    assert all("complete" in words for words in said)


async def test_words_first_and_then_the_call_is_an_end() -> None:
    result = await open_runtime().run(completing([says("done!"), asks(done("x"))]), "go")
    assert (result.outcome, result.output) == ("completed", "x")


async def test_the_last_turn_asks_for_it_and_takes_nothing_else() -> None:
    model = ScriptedModel([asks(call("look")), asks(call("look", at=2), done("x"))])
    one = Agent[Any, str](name="worker", model=model, tools=[gives("look")], completion=True)
    result = await open_runtime().run(one, "go", limits=Limits(turns=2))
    assert (result.outcome, result.output) == ("completed", "x")
    last = model.requests[-1]
    assert "call `complete` now" in last.messages[-1].text
    assert last.settings.tool_choice != "none"
    assert told(result)[-2] == "Not run: this was the last turn of the run."


async def test_a_limit_of_calls_keeps_one_for_it() -> None:
    for limit in (1, 2, 3):
        script = [*[asks(call("look", at=i)) for i in range(limit - 1)], asks(done("x"))]
        result = await open_runtime().run(
            completing(script, gives("look")), "go", limits=Limits(tool_calls=limit)
        )
        assert (result.outcome, result.output, result.metrics.tool_calls) == (
            "completed",
            "x",
            limit,
        ), limit


async def test_the_call_that_is_kept_for_it_is_one() -> None:
    result = await open_runtime().run(
        completing([asks(done("one", "a"), done("two", "b"))]), "go", limits=Limits(tool_calls=1)
    )
    assert (result.outcome, result.output, result.metrics.tool_calls) == ("completed", "one", 1)
    assert "limit of 1 tool calls" in told(result)[1]


async def test_what_an_answer_says_so_far_can_be_asked_for_while_it_comes() -> None:
    gate = Gate()
    model = PlayedModel([TextDelta('{"city": "Os'), gate.stop, TextDelta('lo", "days": 2}'), end()])
    seen: list[object] = []
    with anyio.fail_after(20):
        async with open_runtime().stream(
            Agent(name="worker", model=model, output=Answer), "go"
        ) as stream:
            assert stream.partial_output is None
            async for event in stream:
                if isinstance(event, events.TextDelta):
                    seen.append(stream.partial_output)
                    gate.opened.set()
    assert seen == [{"city": "Os"}, {"city": "Oslo", "days": 2}]
    assert stream.result.output == Answer("Oslo", 2)


async def test_what_is_wrong_with_an_answer_in_the_last_turn_is_its_end() -> None:
    model = ScriptedModel([says("many"), says("3")])
    result = await open_runtime().run(
        Agent(name="count", model=model, output=int), "go", limits=Limits(turns=1)
    )
    assert (result.outcome, result.output, result.validated, len(model.requests)) == (
        "invalid_output",
        "many",
        False,
        1,
    )


async def test_where_one_call_is_allowed_it_is_for_that_and_the_model_is_told() -> None:
    model = ScriptedModel([asks(call("look"), done("x"))])
    one = Agent[Any, str](name="worker", model=model, tools=[gives("look")], completion=True)
    result = await open_runtime().run(one, "go", limits=Limits(tool_calls=1))
    assert (result.outcome, result.output, result.metrics.tool_calls) == ("completed", "x", 1)
    assert "call `complete` now" in model.requests[0].messages[-1].text


async def test_more_calls_than_are_allowed_leave_one_for_it() -> None:
    script = [asks(*[call("look", at=i) for i in range(5)]), asks(done("x"))]
    result = await open_runtime().run(
        completing(script, gives("look", "seen")), "go", limits=Limits(tool_calls=3)
    )
    assert (result.metrics.tool_calls, told(result).count("seen")) == (3, 2)
    assert result.output == "x"


@pytest.mark.usefixtures("store")
async def test_it_waits_for_calls_beside_it_that_need_a_person() -> None:
    rt: Runtime = open_runtime()
    waiting = await rt.run(
        completing(
            [asks(call("send", "s"), done("x", "c"))], gives("send", "sent", needs_approval=True)
        ),
        "go",
        on_ask="wait",
    )
    assert waiting.waiting
    result = await rt.resume(waiting.run_id, approve=["s"])
    assert (result.outcome, result.output, told(result)) == ("completed", "x", ["sent", "done"])

    async def approver(request: Any) -> Approve:
        return Approve()

    script = [asks(call("send", "s"), done("x", "c"))]
    assert (
        await rt.run(
            completing(script, gives("send", needs_approval=True)), "go", on_approval=approver
        )
    ).success


async def test_every_mode_lets_it_through() -> None:
    for mode in ("plan", "ask", "accept-edits", "full"):
        assert (await open_runtime().run(completing([asks(done("x"))]), "go", mode=mode)).success


async def test_a_child_that_completes_hands_its_output_up() -> None:
    worker = completing(
        [asks(done({"city": "Oslo", "days": 1}))], output=Answer, description="Works."
    )
    boss = Agent[Any, str](
        name="boss",
        model=ScriptedModel([asks(call("worker", prompt="x")), says("ok")]),
        tools=[worker],
    )
    assert [json.loads(one) for one in told(await open_runtime().run(boss, "go"))] == [
        {"city": "Oslo", "days": 1}
    ]


def test_no_other_tool_may_have_its_name() -> None:
    with pytest.raises(AgentError, match="complete"):
        completing([], gives("complete"))


@dataclass
class Place:
    city: str


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("text", "completion", "why"),
    [
        ('{"city": 3}', False, "the output is invalid: city: expected"),
        ("hm", False, "the output is invalid: not valid JSON: "),
        ("hm", True, "the output is invalid: the model did not call the tool `complete`"),
    ],
)
async def test_a_run_without_a_valid_output_says_why(text: str, completion: bool, why: str) -> None:
    one = Agent(
        name="a", model=ScriptedModel([says(text)] * 3), output=Place, completion=completion
    )
    rt = open_runtime()
    result = await rt.run(one, "go")
    assert result.outcome is Outcome.INVALID_OUTPUT
    assert result.error is not None
    assert result.error.message.startswith(why)
    with pytest.raises(AgentError) as raised:
        result.unwrap()
    assert raised.value is result.error
    again = await rt.resume(result.run_id, one)
    assert again.error is not None
    assert again.error.message == result.error.message
