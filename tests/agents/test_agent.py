"""An agent is checked when it is made: its name, its tools, its templates and what it takes in."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tests.doubles import PlayedModel, gives, open_runtime, wishes
from tests.stores import postgres_server as postgres_server
from tests.stores import postgres_template as postgres_template
from tests.stores import store as store
from treadle import Agent, FunctionTool, Input, Limits, Settings, tool
from treadle.errors import AgentError
from treadle.messages.message import Message, ReasoningPart
from treadle.tools.mcp import McpServer
from treadle.tools.tool import InvalidArguments
from treadle.types import SystemBlock


@tool(effect="pure")
async def weather(city: str) -> str:
    """Forecast for a city."""
    return city


async def answer(**arguments: Any) -> str:
    return "yes"


def refused(match: str, **fields: Any) -> None:
    with pytest.raises(AgentError, match=match) as caught:
        Agent(**{"name": "guide"} | fields)
    assert caught.value.kind == "invalid"


# ---------------------------------------------------------------- made right


def test_a_name_is_enough() -> None:
    agent = Agent(name="guide")
    assert (agent.model, agent.tools, agent.limits, agent.settings, agent.inputs) == (
        None,
        (),
        None,
        Settings(),
        {},
    )


def test_a_definition_cannot_be_changed() -> None:
    agent = Agent(name="guide")
    with pytest.raises(FrozenInstanceError):
        agent.name = "other"  # type: ignore[misc]


def test_a_definition_does_not_change_with_the_lists_it_was_made_from() -> None:
    tools, messages, inputs = [weather], [Message.user("hi")], {"who": Input()}
    agent = Agent(
        name="guide", instructions="${who}", tools=tools, messages=messages, inputs=inputs
    )
    before = agent.fingerprint
    tools.append(weather)
    messages.clear()
    inputs.clear()
    assert (len(agent.tools), len(agent.messages), list(agent.inputs)) == (1, 1, ["who"])
    assert agent.fingerprint == before


@pytest.mark.parametrize("name", ["a", "A", "0", "my-agent", "my_agent.v2", "a" * 64])
def test_names(name: str) -> None:
    assert Agent(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "-a", ".a", "_a", "a/b", "../a", "é", "a\n", "a" * 65, "a\0"]
)
def test_what_is_no_name(name: str) -> None:
    refused("is not a valid agent name", name=name)


# ---------------------------------------------------------------- tools and output


def test_two_tools_of_one_name_are_refused() -> None:
    refused(
        "two tools are named 'weather'",
        tools=[
            weather,
            FunctionTool(
                name="weather", description="", parameters={"type": "object"}, execute=answer
            ),
        ],
    )


def test_a_function_that_is_no_tool_is_named() -> None:
    async def lookup(city: str) -> str:
        return city

    refused("'guide'.*lookup.*is not a tool.*@tool", tools=[weather, lookup])
    refused("'weather' is not a tool", tools=["weather"])


def test_what_is_only_a_part_of_a_tool_is_refused_with_what_it_lacks() -> None:
    class Half:
        name = "half"
        effect = "pure"

        async def execute(self, ctx: object, arguments: object) -> str:
            return "never"

    refused(
        "'guide'.*Half.* lacks definition, max_output, needs_approval, parallel, parse, probe, timeout_s, touches",
        tools=[Half()],
    )


def test_a_tool_may_stand_for_another() -> None:
    class Wrapper:
        def __getattr__(self, name: str) -> Any:
            return getattr(weather, name)

    wrapper: Any = Wrapper()
    assert (
        Agent(name="guide", tools=[wrapper]).fingerprint
        == Agent(name="guide", tools=[weather]).fingerprint
    )


def test_a_tool_whose_parameters_are_no_json_is_told_before_a_run_starts() -> None:
    strange = FunctionTool(
        name="strange", description="", parameters={"type": "object"}, execute=answer
    )
    strange.definition.parameters["default"] = object()
    with pytest.raises(AgentError, match=r"'guide'.*not valid JSON") as caught:
        _ = Agent(name="guide", tools=[strange]).fingerprint
    assert caught.value.kind == "invalid"


def test_an_agent_among_tools_is_a_tool_that_takes_a_prompt() -> None:
    (one,) = Agent(name="boss", tools=[Agent(name="my.helper", description="Helps.")]).own_tools
    assert (one.name, one.effect, one.definition.description) == (
        "my_helper",
        "idempotent",
        "Helps.",
    )
    assert one.definition.parameters["required"] == ["prompt"]
    assert one.parse('{"prompt": "Do it."}') == "Do it."
    for wrong in (
        "",
        "[]",
        "{",
        '{"prompt": ""}',
        '{"prompt": 1}',
        '{"prompt": "a", "b": 1}',
        "[" * 10_000,
    ):
        with pytest.raises(InvalidArguments):
            one.parse(wrong)


# ---------------------------------------------------------------- the fingerprint

BASE = Agent(
    name="guide",
    instructions="Advise ${who}.",
    tools=[weather],
    messages=[Message.user("hi")],
    inputs={"who": Input()},
    limits=Limits(turns=3),
    model="a:b",
)


@tool(effect="pure")
async def forecast(city: str) -> str:
    """Forecast for a city."""
    return city


@pytest.mark.parametrize(
    "change",
    [
        {"instructions": "Advise ${who}!"},
        {"context": [SystemBlock(text="And ${who}.")]},
        {"tools": []},
        {"tools": [forecast]},
        {"tools": [weather, forecast]},
        {"messages": []},
        {"messages": [Message.user("ho")]},
        {"messages": [Message.assistant("hi")]},
        {"messages": [Message.user([ReasoningPart(text="hi")])]},
    ],
    ids=range(9),
)
def test_another_word_to_the_model_is_another_fingerprint(change: dict[str, Any]) -> None:
    assert replace(BASE, **change).fingerprint != BASE.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"description": "for people"},
        {"limits": None},
        {"model": "c:d"},
        {"messages": [Message.user("hi")]},
        {"inputs": {"who": Input(description="a name")}},
        {"tools": (weather,)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_the_model_is_not_told_leaves_the_fingerprint(change: dict[str, Any]) -> None:
    assert replace(BASE, **change).fingerprint == BASE.fingerprint


def test_the_order_of_tools_is_told_but_that_of_a_schemas_words_is_not() -> None:
    def made(parameters: dict[str, object]) -> FunctionTool:
        return FunctionTool(name="f", description="", parameters=parameters, execute=answer)

    one, other = (
        made({"type": "object", "properties": {}}),
        made({"properties": {}, "type": "object"}),
    )
    assert replace(BASE, tools=[one]).fingerprint == replace(BASE, tools=[other]).fingerprint
    assert (
        replace(BASE, tools=[weather, forecast]).fingerprint
        != replace(BASE, tools=[forecast, weather]).fingerprint
    )


def test_a_fingerprint_is_short_and_the_same_everywhere() -> None:
    assert (
        Agent(name="guide", instructions="Hi").fingerprint
        == Agent(name="guide", instructions="Hi").fingerprint
    )
    assert len(Agent(name="guide", instructions="half \ud800").fingerprint) == 16


# ---------------------------------------------------------------- blocks of the system prompt


def test_blocks_of_context_follow_the_instructions_each_by_itself_and_empty_ones_are_left_out() -> (
    None
):
    blocks = [
        SystemBlock(text="Rules: ${rules}", cache=True),
        SystemBlock(text="${nothing}"),
        SystemBlock(text="Today is ${day}.", passing=True),
    ]
    inputs = {
        "rules": Input(default="none, at $5"),
        "nothing": Input(required=False),
        "day": Input(),
    }
    agent = Agent(name="guide", instructions="Be short.", context=blocks, inputs=inputs)
    assert agent.system(agent.values({"day": "Friday"})) == (
        SystemBlock(text="Be short."),
        SystemBlock(text="Rules: none, at $5", cache=True),
        SystemBlock(text="Today is Friday.", passing=True),
    )
    assert Agent(name="silent").system({}) == ()


@pytest.mark.usefixtures("store")
async def test_a_run_that_goes_on_says_what_it_said_whatever_has_become_the_default() -> None:
    """It may go on the next day, in another process: what a provider has cached of it stays as it
    is.
    """

    def on(day: str, model: PlayedModel, *more: str) -> Agent[Any]:
        inputs = {name: Input(default=day) for name in ("day", *more)}
        blocks = [SystemBlock(text=" ".join(f"${{{name}}}" for name in inputs))]
        return Agent(
            name="guide",
            model=model,
            context=blocks,
            inputs=inputs,
            tools=[gives("pay", needs_approval=True)],
        )

    async with open_runtime() as rt:
        waiting = await rt.run(
            on("Friday", PlayedModel(wishes(("c1", "pay", "{}")))), "go", on_ask="wait"
        )
        for call, before, more, said in (
            ("c2", "c1", (), "Friday"),
            ("c3", "c2", ("place",), "Friday Saturday"),
        ):
            again = PlayedModel(wishes((call, "pay", "{}")))
            await rt.resume(
                waiting.run_id, on("Saturday", again, *more), deny={before: "no"}, on_ask="wait"
            )
            assert [block.text for block in again.requests[0].system] == [said]


def test_a_server_of_tools_among_the_tools_is_told_where_it_belongs() -> None:
    with pytest.raises(AgentError, match=r"pass it as mcp_servers=\[…\]"):
        Agent(name="a", tools=[McpServer(name="files", command=["x"])])  # type: ignore[list-item]


@pytest.mark.parametrize("temperature", [-1, -0.01, 2.01, 1e9, float("nan"), float("inf")])
def test_a_temperature_that_no_provider_takes_is_refused(temperature: float) -> None:
    with pytest.raises(AgentError, match=f"temperature={temperature!r}.*from 0 to 2"):
        Settings(temperature=temperature)


@pytest.mark.parametrize("temperature", [0, 0.0, 1, 2, None])
def test_a_temperature_within_bounds_is_taken(temperature: float | None) -> None:
    assert Settings(temperature=temperature).temperature == temperature
