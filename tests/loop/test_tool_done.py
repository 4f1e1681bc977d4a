"""A tool that ends the run with its value: the output, its type, and what ends otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.doubles import PlainTool, WatchedJournal, asks, call, hook, open_runtime, says
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import Agent, Deny, Hook, RunResult, ToolContext, ToolDone, ToolFailed, tool
from treadle.hooks import Stop
from treadle.journal.entries import RunStarted
from treadle.messages.message import ToolResult
from treadle.testing import ScriptedModel
from treadle.types import Outcome

pytestmark = pytest.mark.usefixtures("store")


@dataclass
class Invoice:
    number: int
    cents: int


@tool(effect="once")
async def bill(number: int) -> ToolDone:
    """Send an invoice."""
    return ToolDone(Invoice(number, 4200))


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


def agent(*script: dict[str, Any], **fields: Any) -> Agent[Any, Any]:
    tools = fields.pop("tools", [bill, look])
    return Agent(name="tester", model=ScriptedModel(list(script)), tools=tools, **fields)


BILL = asks(call("look", "a"), call("bill", "b", number=7))


async def test_the_run_ends_with_the_value_and_the_model_is_not_asked_again() -> None:
    one = agent(BILL, output=Invoice)
    result = await open_runtime().run(one, "go")
    assert result.outcome is Outcome.COMPLETED
    assert result.unwrap() == Invoice(7, 4200)
    assert result.turn_count == 1
    texts = {part.call_id: part.text for part in result.messages[-1].tool_results}
    assert texts == {"a": "rain", "b": '{"number":7,"cents":4200}'}


@pytest.mark.parametrize(
    ("value", "output"),
    [("Done.", "Done."), (3, "3"), ({"a": [1]}, '{"a":[1]}'), (None, "null")],
)
async def test_an_agent_of_texts_ends_with_text(value: object, output: str) -> None:
    @tool(effect="pure")
    def end() -> ToolDone:
        """End."""
        return ToolDone(value)

    result = await open_runtime().run(agent(asks(call("end", "a")), tools=[end]), "go")
    assert (result.outcome, result.output) == (Outcome.COMPLETED, output)


async def test_a_value_that_does_not_fit_ends_the_run_in_an_error_and_is_not_repeated() -> None:
    result = await open_runtime().run(agent(BILL, BILL, output=int), "go")
    assert result.outcome is Outcome.ERROR
    assert result.error is not None
    assert result.error.kind == "tool"
    assert result.error.message.startswith(
        "bill ended the run with a value that is not a valid output of the agent: "
    )
    assert result.turn_count == 1


async def test_an_error_of_another_call_that_ends_the_run_comes_first() -> None:
    @tool(effect="pure", parallel=False)
    def fail() -> str:
        """Fail."""
        raise ToolFailed("no more", ends_run=True)

    script = asks(call("fail", "a"), call("bill", "b", number=7))
    result = await open_runtime().run(agent(script, tools=[fail, bill], output=Invoice), "go")
    assert result.outcome is Outcome.ERROR
    assert result.error is not None
    assert "fail ended the run: no more" in result.error.message


async def test_wherever_a_run_is_cut_it_ends_with_the_value_that_the_tool_gave() -> None:
    sent: list[str] = []

    async def sends(ctx: ToolContext[Any], arguments: object) -> Any:
        sent.append(ctx.idempotency_key)
        return ToolDone({"number": len(sent), "cents": 1})

    bills = PlainTool(name="bill", does=sends, effect="idempotent")
    script = asks(call("bill", "b"))
    journal = WatchedJournal()
    first = await open_runtime(journal=journal).run(
        agent(script, tools=[bills], output=Invoice), "go"
    )
    entries = [record.entry for record in await journal.read(first.run_id)]
    assert isinstance(entries[0], RunStarted)
    for count in range(1, len(entries)):
        rt = await vanished(entries[:count])
        known = any(getattr(entry, "done", None) is not None for entry in entries[:count])
        result, _ = await resumed(rt, first.run_id, agent(script, tools=[bills], output=Invoice))
        assert result.outcome is Outcome.COMPLETED, count
        assert result.unwrap() == Invoice(1 if known else len(sent), 1)
    again = await open_runtime(journal=journal).resume(
        first.run_id, agent(script, tools=[bills], output=Invoice)
    )
    assert again.unwrap() == Invoice(1, 1)


async def test_a_conversation_goes_on_after_it() -> None:
    one = agent(asks(call("bill", "b", number=7)), says("It is paid."))
    rt = open_runtime()
    await rt.run(one, "Bill me.", session="ada")
    assert (await rt.run(one, "Paid?", session="ada")).text == "It is paid."


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        (Deny("private"), Outcome.ERROR, "bill ended the run: The result is withheld: private"),
        (Stop("private"), Outcome.REFUSED, "the hook Says stopped the run: private"),
        (3, Outcome.ERROR, "bill ended the run: The result is withheld: the hook Says"),
    ],
)
async def test_a_run_whose_last_result_a_hook_withholds_ends_with_the_reason_and_no_output(
    answer: Any, outcome: Outcome, error: str
) -> None:
    one = agent(BILL, BILL, hooks=[hook(after_tool=answer)])
    rt = open_runtime()
    result = await rt.run(one, "go")
    assert (result.outcome, result.output, result.text) == (outcome, None, "")
    assert str(result.error).startswith(error)
    assert result.turn_count == 1
    for record in await rt.journal.read(result.run_id):
        assert b"cents" not in record.entry.to_json()
    assert str((await rt.resume(result.run_id, one)).error) == str(result.error)


async def test_what_a_hook_replaces_is_not_the_output() -> None:
    class Masks(Hook):
        async def after_tool(self, run: Any, call: Any, result: ToolResult) -> str:
            return "masked"

    result: RunResult[Any] = await open_runtime().run(
        agent(asks(call("bill", "b", number=7)), hooks=[Masks()]), "go"
    )
    assert result.output == "masked"
