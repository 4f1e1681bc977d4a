"""Where two runs part: by what was said in them, whoever wrote it down and when."""

from __future__ import annotations

import pytest

from tests.doubles import PlayedModel, agent, asks, call, gives, open_runtime, says, text
from treadle.journal.diff import RunDiff
from treadle.models.model import PartEnd, ReasoningDelta, ResponseEnd, TextDelta
from treadle.runtime.runtime import Runtime
from treadle.testing import ScriptedModel
from treadle.types import Outcome, StopReason, Usage


def script(answer: str = "It is warm.", place: str = "Rome") -> ScriptedModel:
    return ScriptedModel([asks(call("look", "c1", place=place), text="Looking."), says(answer)])


async def diff(rt: Runtime, one: str, other: str) -> RunDiff:
    found = await rt.diff(one, other)
    assert RunDiff.from_json(found.to_json()) == found
    turned = await rt.diff(other, one)
    assert (turned.same_messages, turned.a, turned.b, turned.is_same) == (
        found.same_messages,
        found.b,
        found.a,
        found.is_same,
    )
    return found


async def test_a_run_is_the_same_as_itself_and_as_one_that_says_the_same() -> None:
    rt = open_runtime()
    one, other = [
        await rt.run(agent(script(), gives("look", "sun")), "Where is it warm?") for _ in range(2)
    ]
    for run_id in (one.run_id, other.run_id):
        found = await diff(rt, one.run_id, run_id)
        assert (found.is_same, found.same_messages, found.a.messages, found.b.messages) == (
            True,
            4,
            (),
            (),
        )


async def test_two_runs_part_at_the_first_message_that_says_something_else() -> None:
    rt = open_runtime()
    one = await rt.run(agent(script("It is warm."), gives("look", "sun")), "Where is it warm?")
    other = await rt.run(agent(script("It is cold."), gives("look", "sun")), "Where is it warm?")
    found = await diff(rt, one.run_id, other.run_id)
    assert (found.same_messages, found.is_same) == (3, False)
    assert ([m.text for m in found.a.messages], [m.text for m in found.b.messages]) == (
        ["It is warm."],
        ["It is cold."],
    )


@pytest.mark.parametrize(("place", "result", "same"), [("Oslo", "sun", 1), ("Rome", "snow", 2)])
async def test_calls_and_results_are_what_was_said_too(place: str, result: str, same: int) -> None:
    rt = open_runtime()
    one = await rt.run(agent(script(), gives("look", "sun")), "go")
    other = await rt.run(agent(script(place=place), gives("look", result)), "go")
    assert (await diff(rt, one.run_id, other.run_id)).same_messages == same


async def test_one_that_goes_on_where_the_other_ended_has_the_rest() -> None:
    rt = open_runtime()
    origin = await rt.run(agent(script(), gives("look", "sun")), "go")
    fork = await rt.fork(
        origin.run_id, turn=2, text="Sure?", agent=agent(ScriptedModel([says("Yes.")]))
    )
    found = await diff(rt, origin.run_id, fork.run_id)
    assert (found.same_messages, found.a.messages, [m.text for m in found.b.messages]) == (
        4,
        (),
        ["Sure?", "Yes."],
    )


async def test_each_side_says_how_it_went() -> None:
    rt = open_runtime()
    one = await rt.run(agent(script(), gives("look", "sun")), "go")
    other = await rt.run(
        agent(ScriptedModel([{"error": {"kind": "auth", "status": 401}}], name="script:other")),
        "go",
    )
    found = await diff(rt, one.run_id, other.run_id)
    a, b = found.a, found.b
    assert (a.run_id, a.agent, a.model, a.outcome, a.turns, a.tool_calls, a.text) == (
        one.run_id,
        "tester",
        "script:inline",
        Outcome.COMPLETED,
        2,
        1,
        "It is warm.",
    )
    assert a.usage == Usage(input_tokens=20, output_tokens=10)
    assert (b.model, b.outcome, b.turns, b.tool_calls, b.text, b.usage) == (
        "script:other",
        Outcome.ERROR,
        0,
        0,
        "",
        Usage(),
    )
    assert 0 <= a.duration_s < 60


async def test_what_is_not_finished_has_no_outcome_and_is_not_the_same_as_what_is() -> None:
    rt, other = open_runtime(), open_runtime()
    one = await rt.run(agent([says("hi")]), "go")
    data = await rt.journal.read_bytes(one.run_id)
    renamed = [line.replace(one.run_id.encode(), b"run_other") for line in data]
    await other.journal.add_run(data)
    await other.journal.add_run(renamed[:-1])
    found = await diff(other, one.run_id, "run_other")
    assert (found.same_messages, found.b.outcome, found.is_same) == (2, None, False)


async def test_what_a_provider_keeps_for_itself_makes_no_difference() -> None:
    rt = open_runtime()

    def thinks(signature: str, stop: str) -> PlayedModel:
        ended = ResponseEnd(
            stop_reason=StopReason.COMPLETE, usage=Usage(), raw_stop_reason=stop, id=stop, model="m"
        )
        return PlayedModel(
            [
                ReasoningDelta("Hm."),
                PartEnd("anthropic", f'{{"signature":"{signature}"}}'),
                TextDelta("hi"),
                ended,
            ]
        )

    one = await rt.run(agent(thinks("s1", "end_turn")), "go")
    other = await rt.run(agent(thinks("s2", "stop")), "go")
    third = await rt.run(
        agent(PlayedModel([ReasoningDelta("Well."), PartEnd(), *text("hi")])), "go"
    )
    assert (await diff(rt, one.run_id, other.run_id)).is_same
    assert (await diff(rt, one.run_id, third.run_id)).same_messages == 1
