"""What the names of a definition mean, and the agents that come of it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.agents.definitions.defined import HEAD, Defined
from treadle import Agent, AgentError, Limits
from treadle.agents.definitions.nesting import NESTED_MAX
from treadle.tools.mcp import McpServer


def calls(*names: str) -> str:
    return f"{HEAD}tools: [{', '.join(names)}]\n---\n"


# ---------------------------------------------------------------- models and limits


def test_large_and_small_are_the_models_of_the_configuration(defined: Defined) -> None:
    defined.own_says("a.md", f"{HEAD}model: small\n---\n")
    defined.own_says("b.md", f"{HEAD}model: large\n---\n")
    catalog = defined.catalog("models: {small: 'gemini:flash'}\n")
    assert catalog.agent("a").model == "gemini:flash"
    assert catalog.agent("b").model is None


@pytest.mark.parametrize("model", ["script:answers.json", "tape:tape.jsonl"])
def test_a_project_cannot_answer_in_the_place_of_a_model(defined: Defined, model: str) -> None:
    (said,) = defined.wrong(f"{HEAD}model: {model}\n---\n")
    assert said.startswith(f"3: model: {model!r} is a file, and a project may not replace a model")
    defined.own_says("mine.md", f"{HEAD}model: {model}\n---\n")
    assert defined.catalog().problems("mine") == []


def test_a_project_may_only_lower_the_limits_of_the_configuration(defined: Defined) -> None:
    text = f"{HEAD}limits:\n  turns: 9\n  seconds: 5\n  tokens: 100\n---\n"
    defined.own_says("mine.md", text)
    path = defined.project_says("ours.md", text)
    catalog = defined.catalog("limits: {turns: 6, seconds: 600}\n")
    assert catalog.agent("mine").limits == Limits(turns=9, seconds=5, tokens=100)
    assert catalog.warnings == []
    assert catalog.agent("ours").limits == Limits(seconds=5, tokens=100)
    assert catalog.warnings == [
        f"{path}:4: limits.turns is ignored: a workspace may only lower it, and it is 6 already"
    ]


# ---------------------------------------------------------------- tools of MCP servers

SERVERS = "mcp_servers:\n  github: {command: [gh], tools: [search, read]}\n  github_more: {url: 'https://x.y'}\n"


def servers(agent: Agent[Any, Any]) -> dict[str, Any]:
    """By name, what it may offer."""
    return {server.name: cast("McpServer", server).tools for server in agent.mcp_servers}


@pytest.mark.parametrize(
    ("named", "offered"),
    [
        (["github_search"], {"github": ("search",)}),
        (["github_read", "github_search"], {"github": ("read", "search")}),
        (["github"], {"github": ("search", "read")}),
        (['"github_*"'], {"github": ("search", "read")}),
        (["github_search", "github"], {"github": ("search", "read")}),
        (["github_more_x", "github_search"], {"github_more": ("x",), "github": ("search",)}),
        (["github_more"], {"github_more": None}),
    ],
)
def test_a_configured_server_comes_with_the_tools_that_are_named(
    defined: Defined, named: list[str], offered: dict[str, Any]
) -> None:
    defined.project_says("guide.md", calls("ls", *named))
    agent = defined.catalog(SERVERS).agent("guide")
    assert servers(agent) == offered
    assert {
        cast("McpServer", server).cwd
        for server in agent.mcp_servers
        if cast("McpServer", server).command
    } <= {defined.here}
    assert [one.name for one in agent.own_tools] == ["ls"]


def test_agents_share_a_server_whatever_they_want_of_it(defined: Defined) -> None:
    defined.project_says("a.md", calls("b", "github"))
    defined.project_says("b.md", calls("github"))
    defined.project_says("c.md", calls("github_read"))
    catalog = defined.catalog(SERVERS)
    a, b, c = (cast("McpServer", catalog.agent(name).mcp_servers[0]) for name in "abc")
    assert a.process == b.process == c.process
    assert (a.tools, b.tools, c.tools) == (("search", "read"), ("search", "read"), ("read",))


def test_a_tool_that_the_configuration_does_not_let_through_is_refused(defined: Defined) -> None:
    path = defined.project_says("guide.md", calls("github_delete"))
    (problem,) = defined.catalog(SERVERS).problems("guide")
    assert (
        str(problem)
        == f"{path}:3: tools: mcp_servers.github.tools does not include 'delete': it allows github_search, github_read"
    )


def test_a_name_that_means_two_things_is_refused(defined: Defined) -> None:
    defined.project_says("read.md", calls())
    assert defined.wrong(calls("read")) == [
        "3: tools: 'read' is ambiguous, a coding tool and an agent: rename one of them"
    ]


# ---------------------------------------------------------------- ends


def test_complete_ends_a_run_with_what_output_says(defined: Defined) -> None:
    defined.project_says(
        "guide.md",
        f"{HEAD}tools: [complete]\noutput: {{type: object, properties: {{city: {{type: string}}}}}}\n---\n",
    )
    agent = defined.catalog().agent("guide")
    assert agent.completion
    assert agent.own_tools == ()
    assert agent.output == {"type": "object", "properties": {"city": {"type": "string"}}}


# ---------------------------------------------------------------- agents of agents


def test_an_agent_among_tools_is_a_tool_that_takes_a_prompt(defined: Defined) -> None:
    defined.project_says("a.md", calls("b", "read"))
    defined.project_says("b.md", "---\ndescription: Knows the weather\n---\n")
    first, second = defined.catalog().agent("a").own_tools
    assert (first.name, first.definition.description) == ("b", "Knows the weather")
    assert list(first.definition.parameters["properties"]) == ["prompt"]
    assert second.name == "read"


@pytest.mark.parametrize(
    ("callee", "input"),
    [
        ("inputs: {who: {type: string}}\n---\nFor ${who}.\n", "who"),
        ("---\nFor ${who}.\n", "who"),
    ],
)
def test_an_agent_whose_inputs_a_caller_cannot_give_is_refused(
    defined: Defined, callee: str, input: str
) -> None:
    path = defined.project_says("a.md", calls("read", "b"))
    defined.project_says("b.md", f"{HEAD}{callee}")
    (problem,) = defined.catalog().problems("a")
    assert (
        str(problem)
        == f"{path}:3: tools: the agent 'b' needs the input {input!r}, which no caller can provide: give it a default there"
    )
    assert defined.catalog().problems("b") == []


def test_two_agents_that_would_be_one_tool_are_refused(defined: Defined) -> None:
    path = defined.project_says("a.md", calls("b.c", "b_c"))
    for name in ("b.c", "b_c"):
        defined.project_says(f"{name}.md", calls())
    (problem,) = defined.catalog().problems("a")
    assert str(problem).startswith(f"{path}:1: two tools are named 'b_c'")


def test_a_circle_of_agents_is_refused_with_its_place_and_its_chain(defined: Defined) -> None:
    defined.project_says("a.md", calls("b"))
    path = defined.project_says("b.md", f"{HEAD}tools:\n  - read\n  - a\n---\n")
    said = f"{path}:5: agents call each other in a cycle: a -> b -> a. Remove one from the other's tools"
    assert [str(problem) for problem in defined.catalog().problems()] == [said]
    assert [str(problem) for problem in defined.catalog().problems("a")] == [said]
    with pytest.raises(AgentError) as refused:
        defined.catalog().agent("a")
    assert refused.value.message == said


def test_an_agent_that_calls_itself_is_a_circle(defined: Defined) -> None:
    assert defined.wrong(calls("guide"))[0].startswith(
        "3: agents call each other in a cycle: guide -> guide."
    )


def test_a_circle_further_down_is_found_too(defined: Defined) -> None:
    for name, callee in (("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")):
        defined.project_says(f"{name}.md", calls(callee))
    (problem,) = defined.catalog().problems("a")
    assert "b -> c -> d -> b" in problem.text


def test_agents_that_share_others_are_no_circle_and_are_quickly_looked_at(defined: Defined) -> None:
    """Two to the power of 19 ways lead from the first to the last."""
    for n in range(NESTED_MAX):
        callees = [f"{side}{n + 1}" for side in "ab"] if n < NESTED_MAX - 1 else []
        for side in "ab":
            defined.project_says(f"{side}{n}.md", calls(*callees))
    assert defined.catalog().problems() == []
    assert [one.name for one in defined.catalog().agent("a0").own_tools] == ["a1", "b1"]


def test_agents_are_nested_only_so_deep(defined: Defined) -> None:
    for n in range(1_100):
        defined.project_says(f"a{n}.md", calls(*([f"a{n + 1}"] if n < 1_099 else [])))
    problems = defined.catalog().problems("a0")
    assert problems
    assert all("nested deeper than 20 levels" in problem.text for problem in problems)
    assert defined.catalog().problems("a1080") == []
    assert defined.catalog().problems("a1079")


def test_what_is_wrong_below_is_wrong_with_the_caller_too(defined: Defined) -> None:
    defined.project_says("a.md", calls("b"))
    path = defined.project_says("b.md", calls("reed"))
    assert [problem.place for problem in defined.catalog().problems("a")] == [str(path)]


def test_what_is_wrong_elsewhere_does_not_matter_to_an_agent(defined: Defined) -> None:
    defined.project_says("a.md", calls("read"))
    defined.project_says("b.md", "nothing of the kind")
    catalog = defined.catalog()
    assert [one.name for one in catalog.agent("a").own_tools] == ["read"]
    assert len(catalog.problems()) == 1


def test_what_is_wrong_below_a_wrong_agent_and_what_only_making_one_tells_are_said_in_the_same_pass(
    defined: Defined,
) -> None:
    upper = defined.project_says("a.md", f"{HEAD}model: antropic:x\ntools: [b, reed]\n---\n")
    below = defined.project_says("b.md", f"{HEAD}limits: {{turns: many}}\n---\n")
    two = defined.project_says("two.md", calls("b.c", "b_c"))  # one tool by two names
    for name in ("b.c", "b_c"):
        defined.project_says(f"{name}.md", calls())
    catalog = defined.catalog()
    assert {(problem.place, problem.line) for problem in catalog.problems("a")} == {
        (str(upper), 3),
        (str(upper), 4),
        (str(below), 3),
    }
    assert {problem.place for problem in catalog.problems()} == {str(upper), str(below), str(two)}


# ---------------------------------------------------------------- handoffs


def hands_to(*names: str, more: str = "") -> str:
    return f"{HEAD}handoffs: [{', '.join(names)}]\n{more}---\n"


def test_agents_hand_over_to_each_other_by_name_and_all_of_them_are_made(defined: Defined) -> None:
    defined.project_says("a.md", hands_to("b"))
    defined.project_says("b.md", hands_to("a", "c"))
    defined.project_says("c.md", "---\ndescription: Knows the weather\n---\n")
    catalog = defined.catalog()
    (one,) = catalog.agent("a").handoffs
    assert (one.name, one.history) == ("b", "all")
    assert {made.name for made in catalog.made()} == {"a", "b", "c"}
    (_, to_c) = next(made for made in catalog.made() if made.name == "b").handoff_tools
    assert "Knows the weather" in to_c.definition.description
    assert catalog.problems() == []


def test_a_handoff_to_no_agent_or_to_itself_is_refused_with_its_line(defined: Defined) -> None:
    path = defined.project_says("a.md", hands_to("bilings", "a"))
    defined.project_says("billing.md", calls())
    assert [str(problem) for problem in defined.catalog().problems("a")] == [
        f"{path}:3: handoffs: there is no agent 'bilings': did you mean 'billing'?",
        f"{path}:3: handoffs: the agent 'a' cannot hand over to itself: leave it out",
    ]


def test_a_problem_of_the_next_agent_is_one_of_the_agent_that_hands_over(defined: Defined) -> None:
    defined.project_says("a.md", hands_to("b"))
    path = defined.project_says("b.md", calls("reed"))
    (problem,) = defined.catalog().problems("a")
    assert str(problem).startswith(f"{path}:3: tools: there is no tool 'reed'")


def test_the_next_agent_gets_only_the_inputs_of_the_run(defined: Defined) -> None:
    path = defined.project_says("a.md", hands_to("b"))
    defined.project_says("b.md", f"{HEAD}inputs: {{who: {{type: string}}}}\n---\nFor ${{who}}.\n")
    (problem,) = defined.catalog().problems("a")
    assert str(problem).startswith(f"{path}:3: handoffs: the agent 'b' needs the input 'who'")
    defined.project_says("a.md", hands_to("b", more="inputs: {who: {type: string}}\n") + "${who}")
    assert defined.catalog().problems("a") == []
