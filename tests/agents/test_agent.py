"""An agent is checked when it is made: its name, its tools, its templates and what it takes in."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles import PlayedModel, gives, open_runtime, wishes
from tests.strategies import nasty_text
from treadle import Agent, FunctionTool, Input, Limits, Settings, tool
from treadle.agents.agent import expand, expand_message
from treadle.errors import AgentError
from treadle.messages.message import MediaPart, Message, ReasoningPart, TextPart
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


# ---------------------------------------------------------------- templates


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", ""),
        ("no holes", "no holes"),
        ("${x}", "1"),
        ("${x}${y}", "12"),
        ("$${x}", "${x}"),
        ("$$${x}", "$1"),
        ("$$$$", "$$"),
        ("$$", "$"),
        ("$", "$"),
        ("a $ b", "a $ b"),
        ("costs $5", "costs $5"),
        ("$x", "$x"),
        ("${x", "${x"),
        ("${}", "${}"),
        ("${ x }", "${ x }"),
        ("${1x}", "${1x}"),
        ("${a-b}", "${a-b}"),
        ("{x} %(x)s {{x}}", "{x} %(x)s {{x}}"),
        ("${x\n}", "${x\n}"),
        ("${${x}}", "${1}"),
        ("${_a1}", "under"),
    ],
)
def test_holes_are_filled_and_all_else_is_left(template: str, expected: str) -> None:
    assert expand(template, {"x": 1, "y": 2, "_a1": "under"}) == expected


def test_a_value_is_never_expanded_again() -> None:
    values = {"x": "${y} $$ ${x} \\1 \\g<0>", "y": "${x}"}
    assert expand("<${x}|${y}>", values) == "<${y} $$ ${x} \\1 \\g<0>|${x}>"


@given(nasty_text, nasty_text, st.sampled_from(["x", "y"]))
def test_whatever_a_value_holds_it_stands_there_as_it_is(
    before: str, value: str, name: str
) -> None:
    template = before.replace("$", "$$") + "${" + name + "}"
    assert expand(template, {name: value}) == before + value


def test_messages_are_templates_in_their_texts_only() -> None:
    message = Message.user(
        [
            TextPart(text="Hi ${who}", provider="p", provider_data="{}"),
            MediaPart(media_type="image/png", url="https://h/${who}.png"),
        ]
    )
    expanded = expand_message(message, {"who": "Ada"})
    assert expanded.parts == (
        TextPart(text="Hi Ada", provider="p", provider_data="{}"),
        message.parts[1],
    )
    assert (expanded.id, expanded.role, expanded.created_at) == (
        message.id,
        message.role,
        message.created_at,
    )


# ---------------------------------------------------------------- inputs


def test_where_inputs_are_declared_an_undeclared_hole_is_refused_at_once() -> None:
    refused(
        r"uses \$\{whom\}, which is not among its declared inputs \(who\)",
        instructions="Hi ${whom}",
        inputs={"who": Input()},
    )
    refused(r"uses \$\{whom\}", messages=[Message.user("${whom}")], inputs={"who": Input()})
    Agent(name="guide", instructions="${who} $${whom} ${who", inputs={"who": Input()})


def test_where_none_are_declared_a_missing_one_is_refused_when_a_run_starts() -> None:
    agent = Agent(name="guide", instructions="${who} ${where}", messages=[Message.user("${when}")])
    assert agent.values({"who": 1, "where": 2, "when": 3}) == {"who": 1, "where": 2, "when": 3}
    with pytest.raises(
        AgentError,
        match=r"'guide' needs the input\(s\) when, where: pass inputs=\{'when': \.\.\.\}",
    ) as caught:
        agent.values({"who": 1})
    assert caught.value.kind == "invalid"


def test_defaults_fill_what_is_not_given() -> None:
    agent = Agent(
        name="guide",
        instructions="${a} ${b} ${c} ${d}",
        inputs={
            "a": Input(default="x"),
            "b": Input(type="integer", required=False),
            "c": Input(type="boolean", default=False),
            "d": Input(),
        },
    )
    assert agent.values({"d": "here"}) == {"a": "x", "b": "", "c": False, "d": "here"}
    assert agent.values({"d": "here", "a": "", "b": 3}) == {
        "a": "",
        "b": 3,
        "c": False,
        "d": "here",
    }


def test_an_input_that_is_not_declared_is_refused() -> None:
    with pytest.raises(AgentError, match="has no input 'whom'; it has: who, where"):
        Agent(
            name="guide", instructions="${who} ${where}", inputs={"who": Input(), "where": Input()}
        ).values({"who": "a", "where": "b", "whom": "c"})


FITTING: dict[str, set[type]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "array": {list, tuple},
    "object": {dict},
}
VALUES: list[Any] = [
    "",
    "x",
    0,
    -5,
    10**30,
    1.5,
    True,
    False,
    [],
    [1, "a"],
    ("x",),
    {},
    {"a": [1]},
    None,
    b"x",
    {1},
    Path("/x"),
]


@pytest.mark.parametrize("kind", FITTING)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_declared_input_has_its_type(kind: Any, value: Any) -> None:
    """And a truth value is no number."""
    agent = Agent(name="guide", instructions="${it}", inputs={"it": Input(type=kind)})
    if type(value) in FITTING[kind]:
        assert agent.values({"it": value}) == {"it": value}
    else:
        with pytest.raises(AgentError, match=f"the input 'it' must be an? {kind}, not"):
            agent.values({"it": value})


@pytest.mark.parametrize(
    "value",
    [Path("/x"), object(), {"a": object()}, [{1: object()}]],
    ids=["path", "object", "inside an object", "inside a list"],
)
def test_an_input_that_json_has_no_word_for_is_refused_before_the_run(value: object) -> None:
    """It could not be journaled."""
    declared = {"it": Input(type="object" if isinstance(value, dict) else "array")}
    for agent in (
        Agent(name="guide", instructions="${it}"),
        Agent(name="guide", instructions="${it}", inputs=declared),
    ):
        with pytest.raises(AgentError, match=r"'guide'.*it") as caught:
            agent.values({"it": value})
        assert caught.value.kind == "invalid"


@pytest.mark.parametrize(
    ("declared", "match"),
    [
        (Input(type="integer", default="x"), "'it' must be an integer, not 'x'"),
        (Input(type="text"), "'it'.*'text'"),
    ],
)  # type: ignore[arg-type]
def test_a_wrong_declaration_is_refused_when_the_agent_is_made(declared: Input, match: str) -> None:
    refused(match, inputs={"it": declared})


def test_the_callers_inputs_are_left_as_they_are() -> None:
    given_ = {"who": "Ada"}
    Agent(
        name="guide",
        instructions="${who} ${more}",
        inputs={"who": Input(), "more": Input(default="x")},
    ).values(given_)
    assert given_ == {"who": "Ada"}


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


def test_an_undeclared_hole_in_a_block_of_context_is_refused_too() -> None:
    refused(
        "not among its declared inputs",
        context=[SystemBlock(text="${day}")],
        inputs={"rules": Input(default="")},
    )


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


# ---------------------------------------------------------------- every input is used, or refused


@pytest.mark.parametrize("field", ["instructions", "context", "messages"])
def test_an_input_may_be_used_in_any_template(field: str) -> None:
    templates: dict[str, Any] = {
        "instructions": "${who}",
        "context": [SystemBlock(text="${who}")],
        "messages": [Message.user("${who}")],
    }
    made = Agent(name="a", inputs={"who": Input()}, **{field: templates[field]})
    assert made.values({"who": "Ada"}) == {"who": "Ada"}


def test_an_input_that_no_template_uses_is_refused() -> None:
    with pytest.raises(AgentError, match=r"'name'.*\$\{name\}"):
        Agent(name="a", instructions="Hi {name}", inputs={"name": Input()})
    with pytest.raises(AgentError, match=r"'name'.*\$\{name\}"):
        Agent(name="a", instructions="Hi ${who} {name}").values({"who": "Ada", "name": "Bob"})
    with pytest.raises(AgentError, match="'name'"):
        Agent(name="a").values({"name": "Bob"})


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
