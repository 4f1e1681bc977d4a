"""Variables in the texts of an agent, and the inputs that fill them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import nasty_text
from treadle import Agent, Input
from treadle.agents.templates import expand, expand_message
from treadle.errors import AgentError
from treadle.messages.message import MediaPart, Message, TextPart
from treadle.types import SystemBlock


def refused(match: str, **fields: Any) -> None:
    with pytest.raises(AgentError, match=match) as caught:
        Agent(**{"name": "guide"} | fields)
    assert caught.value.kind == "invalid"


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


def test_an_undeclared_hole_in_a_block_of_context_is_refused_too() -> None:
    refused(
        "not among its declared inputs",
        context=[SystemBlock(text="${day}")],
        inputs={"rules": Input(default="")},
    )


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
