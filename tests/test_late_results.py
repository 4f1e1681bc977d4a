"""A result that comes after `unknown` is a fact of its own: in the journal, and told to the model, never in place of the result."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from treadle import Agent, Runtime, ToolContext, check_history, tool
from treadle.entries import ToolLate
from treadle.testing import ScriptedModel
from treadle.tools.function.threads import abandoned_calls, wait_for_abandoned

CHARGE = {"tool_calls": [{"name": "charge", "arguments": {}, "id": "c1"}]}


def _agent(*script: dict[str, Any]) -> tuple[Agent[object, str], ScriptedModel, threading.Event]:
    """`charge` outlives its timeout until the event is set; `settle` sets it and waits for that."""
    go_on = threading.Event()
    model = ScriptedModel(list(script))

    @tool(effect="once", timeout_s=0.05)
    def charge() -> str:
        go_on.wait(5)
        return "charged after all"

    @tool(effect="pure")
    async def settle(ctx: ToolContext[object]) -> str:
        go_on.set()
        assert not await wait_for_abandoned(abandoned_calls(ctx.run_id), 5)
        return "settled"

    return Agent(name="a", model=model, tools=[charge, settle]), model, go_on


async def test_the_model_is_told_at_its_next_turn() -> None:
    agent, model, _ = _agent(CHARGE, {"tool_calls": [{"name": "settle", "arguments": {}}]}, {"text": "good"})
    async with Runtime.open() as rt:
        result = await rt.run(agent, "go")
        entries = [record.entry for record in await rt.journal.read(result.run_id)]
        assert (await rt.replay(result.run_id)).messages == result.messages
    assert result.text == "good"
    assert [entry.text for entry in entries if isinstance(entry, ToolLate)] == ["charged after all"]
    assert check_history(result.messages) == []
    told = model.requests[-1].messages
    assert told[-1].role == "user"
    assert "c1" in told[-1].text
    assert "charged after all" in told[-1].text
    [unknown] = [r for m in result.messages for r in m.tool_results if r.call_id == "c1"]
    assert unknown.unknown, "the result stays what it was"


async def test_after_the_end_it_is_told_to_the_next_run_of_the_session(tmp_path: Path) -> None:
    agent, model, go_on = _agent(CHARGE, {"text": "I do not know"}, {"text": "now I do"})
    async with Runtime.open(f"sqlite:///{tmp_path}/runs.db") as rt:
        session = rt.session("s", agent=agent)
        first = await session.send("go")
        go_on.set()
        assert not await wait_for_abandoned(abandoned_calls(first.run_id), 5)
        second = await session.send("and?")
        entries = [record.entry for record in await rt.journal.read(first.run_id)]
    assert isinstance(entries[-1], ToolLate)
    assert second.text == "now I do"
    assert any("charged after all" in message.text for message in model.requests[-1].messages)
    assert check_history(second.messages) == []


async def test_one_that_waits_for_a_person_may_get_its_result_late(tmp_path: Path) -> None:
    agent, _, go_on = _agent(CHARGE, {"text": "good"})
    url = f"sqlite:///{tmp_path}/runs.db"
    async with Runtime.open(url) as rt:
        waiting = await rt.run(agent, "go", on_unknown="wait")
        assert waiting.outcome == "approval_needed"
        go_on.set()
    async with Runtime.open(url) as rt:
        result = await rt.resume(waiting.run_id, agent, results={"c1": "charged, says the bank"})
    assert result.success
    assert check_history(result.messages) == []
    assert "charged, says the bank" in result.messages[2].tool_results[0].text
