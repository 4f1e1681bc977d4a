"""Answers to a question that is not asked any more: `seen` says which one a person has read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import PlainTool, agent, asks, call, open_runtime, says
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import AgentError, Runtime, ToolContext

pytestmark = pytest.mark.usefixtures("store")

AGAIN = r"the call 'c1' has started or was asked about again since entry \d+, the last one seen"


class Breaks:
    """Fails each time in the middle, so that nobody knows what it did."""

    def __init__(self) -> None:
        self.times = 0
        self.tool = PlainTool(name="send", does=self._does, needs_approval=True)

    async def _does(self, ctx: ToolContext[Any], arguments: Any) -> str:
        self.times += 1
        raise RuntimeError("the line is dead")


async def asked(rt: Runtime, one: Any) -> tuple[str, int]:
    """A run that asks whether its call may run, and the number of its entries."""
    result = await rt.run(one, "go", on_ask="wait", on_unknown="wait")
    assert result.waiting
    return result.run_id, (await rt.journal.info(result.run_id)).entries


@pytest.mark.parametrize(
    "answer", [{"approve": ["c1"]}, {"deny": {"c1": "no"}}, {"results": {"c1": "sent"}}]
)
async def test_of_two_people_who_answer_one_question_the_second_is_refused(answer: Any) -> None:
    rt, breaks = open_runtime(), Breaks()
    one = agent([asks(call("send", "c1")), says("done")], breaks.tool)
    run_id, seen = await asked(rt, one)
    assert (await rt.resume(run_id, one, approve=["c1"], seen=seen)).waiting
    before = await rt.journal.read(run_id)
    for _ in range(2):
        with pytest.raises(AgentError, match=AGAIN) as caught:
            await rt.resume(run_id, one, seen=seen, **answer)
        assert caught.value.kind == "busy"
    assert (breaks.times, await rt.journal.read(run_id)) == (1, before)

    now_seen = (await rt.journal.info(run_id)).entries
    result = await rt.resume(run_id, one, seen=now_seen, results={"c1": "it was sent"})
    assert (result.success, breaks.times) == (True, 1)


async def test_whoever_has_seen_the_newer_question_may_have_the_call_run_again() -> None:
    rt, breaks = open_runtime(), Breaks()
    one = agent([asks(call("send", "c1")), says("done")], breaks.tool)
    run_id, seen = await asked(rt, one)
    await rt.resume(run_id, one, approve=["c1"], seen=seen)
    seen = (await rt.journal.info(run_id)).entries
    assert (await rt.resume(run_id, one, approve=["c1"], seen=seen)).waiting
    assert breaks.times == 2


async def test_a_second_person_who_wakes_a_queued_run_is_refused() -> None:
    rt, breaks = open_runtime(), Breaks()
    one = agent([asks(call("send", "c1")), says("done")], breaks.tool)
    run_id = await rt.submit(one, "go", on_ask="wait", on_unknown="wait")
    assert (await rt.resume(run_id, one)).waiting
    seen = (await rt.journal.info(run_id)).entries
    await rt.wake(run_id, approve=["c1"], seen=seen)
    assert (await rt.resume(run_id, one)).waiting
    with pytest.raises(AgentError, match=AGAIN):
        await rt.wake(run_id, approve=["c1"], seen=seen)
    assert breaks.times == 1
