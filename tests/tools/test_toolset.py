"""Sets of tools, the conditions of a tool, and agents with other fields: what can be told before a
run.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.for_checkers import defined
from treadle import Agent, AgentError, Toolset, tool


@tool(effect="pure")
def look() -> str:
    """Look around."""
    return "rain"


@tool(effect="once", timeout_s=3, needs_approval=True)
def send() -> str:
    """Send mail."""
    return "sent"


@pytest.mark.parametrize(
    ("make", "says_what"),
    [
        (
            lambda: tool(name="t", is_enabled="yes")(lambda: "x"),
            "is_enabled= is a str: pass True, False, or a function: def is_enabled(ctx: "
            "RunContext[Deps]) -> bool",
        ),
        (
            lambda: tool(name="t", is_enabled=lambda: True)(lambda: "x"),
            "is_enabled= is a function that cannot be called with one argument",
        ),
        (lambda: tool(name="t", prepare=True)(lambda: "x"), "prepare= is a bool: pass a function"),
        (
            lambda: tool(name="t", prepare=lambda ctx: None)(lambda: "x"),
            "prepare= is a function that cannot be called with two arguments",
        ),
        (lambda: Toolset([look]).filtered(lambda ctx: True), "Toolset.filtered() is a function"),
        (
            lambda: Toolset([look]).renamed({"lock": "key"}),
            "Toolset.renamed(): the set has no tool 'lock', only look: write {old: new}",
        ),
        (lambda: Toolset([look]).prefixed("my "), "'my look' is not a valid tool name"),
        (lambda: Toolset([made()]), "is not a tool: put @tool above a function; pass an"),
    ],
)
def test_a_wrong_condition_or_set_says_what_to_write(make: Any, says_what: str) -> None:
    with pytest.raises(AgentError) as caught:
        make()
    assert says_what in caught.value.message


def test_a_condition_may_be_annotated_with_types_that_only_type_checkers_see() -> None:
    names = defined(
        "def one(ctx: RunContext[Shop]) -> Wanted: ...\n"
        "def two(ctx: RunContext[Shop], definition: ToolDefinition) -> Wanted: ..."
    )
    assert tool(name="t", is_enabled=names["one"], prepare=names["two"])(lambda: "x").name == "t"
    assert made(instructions=names["one"]).instructions is names["one"]
    with pytest.raises(AgentError, match="is_enabled= is a function that cannot be called with"):
        tool(name="t", is_enabled=names["two"])(lambda: "x")


def made(**fields: Any) -> Agent[Any, str]:
    return Agent(name="tester", model="test:echo", description="First.", **fields)


def test_sets_are_combined_with_sets_and_lists_and_cut() -> None:
    first, both = Toolset([look]), Toolset([look]) + Toolset([send])
    assert isinstance(both, Toolset)
    assert [tool.name for tool in both] == ["look", "send"]
    assert [tool.name for tool in [send] + first] == ["send", "look"]  # noqa: RUF005  the operator is what this is about
    assert [tool.name for tool in both[1:]] == ["send"]
    assert both[0] is look
    assert repr(both) == "Toolset([look, send])"


def test_a_tool_in_a_set_keeps_what_it_is() -> None:
    renamed = Toolset([send]).prefixed("my_")[0]
    assert (renamed.name, renamed.definition.name) == ("my_send", "my_send")
    assert (renamed.effect, renamed.timeout_s, renamed.needs_approval) == ("once", 3, True)


def test_an_agent_with_other_fields_is_a_copy() -> None:
    one = made(tools=[look])
    other = one.with_(name="other", tools=[*one.own_tools, send], instructions="Be kind.")
    assert (one.name, len(one.own_tools), one.instructions) == ("tester", 1, "")
    assert (other.name, len(other.own_tools), other.instructions) == ("other", 2, "Be kind.")
    assert (other.description, other.model) == ("First.", "test:echo")
    typed = one.with_(output=int)
    assert typed.answer is not None
    assert typed.with_(output=None).answer is None


def test_with_an_unknown_field_says_which_there_are() -> None:
    wrong: Any = made()
    with pytest.raises(AgentError, match="Agent has no argument 'tool': did you mean 'tools'"):
        wrong.with_(tool=[look])
