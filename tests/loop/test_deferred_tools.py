"""Runs with deferred tools: which definitions each request has, also after a resume, in a fork and
in the next run of a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.doubles import agent, asks, call, open_runtime, says
from tests.loop.test_recovery import resumed, vanished
from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures
from treadle import AgentError, Toolset, tool
from treadle.agents.agent import Agent
from treadle.messages.events import ToolCallEnd
from treadle.messages.message import Message, ToolCall, ToolResult
from treadle.testing import ScriptedModel
from treadle.tools.tool_search import SearchedRegistry


@tool(effect="pure")
async def find_customer(name: str) -> str:
    """Find a customer."""
    return f"{name} lives in Rome."


@tool(effect="pure")
async def delete_customer(name: str) -> str:
    """Delete a customer."""
    return "Deleted."


@tool(effect="pure")
async def weather(city: str) -> str:
    """Weather of a city."""
    return "Rain."


@tool(effect="pure")
async def clock() -> str:
    """Time of day."""
    return "Noon."


@tool(effect="pure")
async def late() -> str:
    """Join later."""
    return ""


CRM = Toolset[Any]([find_customer, delete_customer, weather]).deferred()
LOOKS = (
    asks(call("search_tools", "c1", query="find")),
    asks(call("find_customer", "c2", name="Ada")),
    asks(call("search_tools", "c3", query="weather")),
    says("Rome, in the rain."),
)


def clerk(*script: dict[str, Any], tools: Sequence[Any] = (*CRM, clock)) -> Agent[Any]:
    return agent([*script], *tools)


def offered(one: Agent[Any]) -> list[list[str]]:
    assert isinstance(one.model, ScriptedModel)
    return [[tool.name for tool in request.tools] for request in one.model.requests]


START = ["clock", "search_tools"]
FOUND = [*START, "find_customer"]
EACH = [START, FOUND, FOUND, [*FOUND, "weather"]]


async def test_a_found_tool_is_offered_from_the_next_request_on_after_all_others() -> None:
    one = clerk(*LOOKS)
    result = await open_runtime().run(one, "Where is Ada?")
    assert result.text == "Rome, in the rain."
    assert offered(one) == EACH
    assert isinstance(one.model, ScriptedModel)
    definition = one.model.requests[1].tools[-1]
    assert (definition.parameters, definition.deferred) == (
        find_customer.definition.parameters,
        False,
    )
    first, second = one.model.requests[:2]
    assert second.tools[: len(first.tools)] == first.tools


async def test_the_next_run_of_a_session_offers_the_tools_that_were_found() -> None:
    one = clerk(*LOOKS, says("Yes."))
    session = open_runtime().session("s", agent=one)
    await session.send("Where is Ada?")
    await session.send("Sure?")
    assert offered(one)[-1] == EACH[-1]


async def test_a_fork_offers_the_tools_that_were_found_up_to_its_turn() -> None:
    runtime, one = open_runtime(), clerk(*LOOKS, says("Hm."))
    await runtime.run(one, "Where is Ada?", run_id="r")
    await runtime.fork("r", turn=2, text="And?", agent=one)
    assert offered(one)[-1] == FOUND


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("cut", range(1, 16))
async def test_a_resume_after_each_entry_offers_the_same_tools(cut: int) -> None:
    runtime, one = open_runtime(), clerk(*LOOKS)
    await runtime.run(one, "Where is Ada?", run_id="r")
    whole = [record.entry for record in await runtime.journal.read("r")]
    rest = clerk(*LOOKS)
    result, _ = await resumed(await vanished(whole[:cut]), "r", rest)
    assert result.text == "Rome, in the rain."
    assert offered(rest) == EACH[len(EACH) - len(offered(rest)) :]


async def test_a_replay_shows_the_searches_and_asks_no_model() -> None:
    runtime, one = open_runtime(), clerk(*LOOKS)
    result = await runtime.run(one, "Where is Ada?", run_id="r")
    assert (await runtime.replay("r")).messages == result.messages
    assert offered(one) == EACH


async def test_a_tool_that_was_called_in_an_earlier_run_is_offered() -> None:
    """As after a run with a model whose provider searches."""
    runtime = open_runtime()
    plain = clerk(asks(call("weather", city="Rome")), says("Rain."), tools=[weather])
    await runtime.session("s", agent=plain).send("Weather?")
    one = clerk(says("Rain."))
    await runtime.session("s", agent=one).send("Still?")
    assert offered(one) == [[*START, "weather"]]


async def test_a_provider_that_searches_gets_all_tools_and_no_tool_of_ours() -> None:
    class Searching(ScriptedModel):
        searches_tools = True

    model = Searching([asks(call("weather", city="Rome")), says("Rain.")])
    result = await open_runtime().run(Agent(name="a", model=model, tools=[*CRM, clock]), "Rome?")
    assert result.text == "Rain."
    shown = [(tool.name, tool.deferred) for tool in model.requests[-1].tools]
    assert shown == [
        ("find_customer", True),
        ("delete_customer", True),
        ("weather", True),
        ("clock", False),
    ]
    assert model.requests[0].tools is model.requests[1].tools


async def test_tools_of_a_function_can_be_deferred() -> None:
    one = Agent[Any](name="a", model=ScriptedModel([*LOOKS]), tools=lambda ctx: [*CRM, clock])
    result = await open_runtime().run(one, "Where is Ada?")
    assert result.text == "Rome, in the rain."
    assert offered(one) == EACH


async def test_a_search_that_finds_nothing_changes_nothing() -> None:
    one = clerk(asks(call("search_tools", query="zzz")), says("No."))
    async with open_runtime().stream(one, "Go.") as run:
        ends = [event async for event in run if isinstance(event, ToolCallEnd)]
    assert "None of the 3 tools match 'zzz'" in str(ends[0].result)
    assert offered(one) == [START, START]


async def test_an_agent_without_deferred_tools_has_no_search() -> None:
    one = clerk(says("Hello."), tools=[clock])
    await open_runtime().run(one, "Hello")
    assert offered(one) == [["clock"]]


async def test_another_tool_of_that_name_is_an_error_that_names_it() -> None:
    @tool(effect="pure")
    async def search_tools() -> str:
        """Mine."""
        return ""

    with pytest.raises(AgentError, match="two tools are named 'search_tools'"):
        await open_runtime().run(clerk(says("."), tools=[*CRM, search_tools]), "Go.")


def test_after_a_compaction_the_tools_follow_from_what_is_left() -> None:
    registry = SearchedRegistry([*CRM, clock], lambda one: True, native=False)
    result = ToolResult(
        call_id="c", name="search_tools", content="2 of 3.\n- weather: W.\n- no: N."
    )
    history = [Message.tool([result])]
    assert (registry.load(history), registry.load(history)) == (True, False)
    history.append(Message.assistant([ToolCall(id="d", name="find_customer")]))
    assert registry.load(history)
    names = [one.name for one in registry.definitions()]
    assert names == [*START, "weather", "find_customer"]
    registry.register(late)
    assert registry.load(history[1:])
    assert [one.name for one in registry.definitions()] == [*START, "late", "find_customer"]
