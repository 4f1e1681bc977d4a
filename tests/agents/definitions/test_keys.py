"""What is wrong in a definition is said with its line, and with what would be right."""

from __future__ import annotations

import pytest

from tests.agents.definitions.defined import HEAD, Defined
from treadle import Input, Limits


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("modle: x", "3: unknown key 'modle': did you mean 'model'?"),
        ("turns: 3", "3: unknown key 'turns': did you mean 'limits.turns'?"),
        ("name: guide", "3: unknown key 'name': an agent has the name of its file"),
        (
            "colour: red",
            "3: unknown key 'colour': known keys are description, model, tools, handoffs, limits, output, inputs, instructions",
        ),
        ("model: 5", "3: model must be text, not 5: put it in quotes"),
        ("model: opus", "3: model: 'opus' is not a model name: write PROVIDER:MODEL, like"),
        (
            "model: antropic:x",
            "3: model: unknown provider 'antropic' in 'antropic:x': did you mean 'anthropic'?",
        ),
        ("tools: read", "3: tools must be a list, like [read, grep], not 'read'"),
        ("tools: [reed]", "3: tools: there is no tool 'reed': did you mean 'read'?"),
        ("tools:\n  - read\n  - reed", "5: tools: there is no tool 'reed': did you mean 'read'?"),
        ("tools: [read, read]", "3: tools names 'read' twice (first in line 3)"),
        ("tools: [5]", "3: tools must be a list of names, like [read, grep]; 5 is none"),
        ("limits: 5", "3: limits must be a mapping of keys to values, not 5"),
        (
            "limits:\n  turns: many",
            "4: limits.turns must be a whole number of at least 1, not 'many'",
        ),
        ("limits:\n  turn: 3", "4: unknown key 'turn' in limits: did you mean 'turns'?"),
        ("limits: {seconds: -1}", "3: limits.seconds must be a number greater than 0, not -1"),
        (
            "limits: {cost_usd: 1e400}",
            "3: limits.cost_usd must be a number greater than 0, not inf",
        ),
        ("output: {type: objekt}", "3: output.type must be 'object', not 'objekt'"),
        (
            "output: {properties: {}}",
            "3: output.type is missing: the answer is an object, so it is 'object'",
        ),
        (
            "output: text",
            "3: output must be a JSON Schema of an object, like {type: object, properties: …}, not 'text'",
        ),
        (
            "output:\n  type: object\n  properties:\n    city:\n      type: strin",
            "7: output.properties.city.type is not a valid JSON Schema: there is no type 'strin': use one of string, integer, number, boolean, array, object, null",
        ),
        ("inputs: [who]", "3: inputs must be a mapping of keys to values, not a list"),
        (
            "inputs:\n  who: string",
            "4: inputs.who must be a mapping of keys to values, not 'string'",
        ),
        (
            "inputs:\n  who: {type: strin}",
            "4: inputs.who.type must be one of string, integer, number, boolean, array, object, not 'strin': did you mean 'string'?",
        ),
        (
            "inputs:\n  who: {description: Who}",
            "4: inputs.who needs a type: one of string, integer, number, boolean, array, object",
        ),
        ("inputs:\n  who:", "4: inputs.who must be a mapping of keys to values, not nothing"),
        (
            "inputs:\n  who: {required: maybe, type: string}",
            "4: inputs.who.required must be true or false, not 'maybe'",
        ),
        (
            "inputs:\n  who: {type: string, defualt: x}",
            "4: unknown key 'defualt' in inputs.who: did you mean 'default'?",
        ),
        (
            "inputs:\n  who:\n    type: string\n    default: 5",
            "6: inputs.who.default must be a string, not 5: put it in quotes",
        ),
        (
            "inputs:\n  days: {type: integer, default: 1.5}",
            "4: inputs.days.default must be an integer, not 1.5",
        ),
        (
            "inputs:\n  days: {type: integer, default: true}",
            "4: inputs.days.default must be an integer, not true",
        ),
        (
            "inputs:\n  far: {type: number, default: 1e400}",
            "4: inputs.far.default must be a number, not inf",
        ),
        (
            "inputs:\n  wh-o: {type: string}",
            "4: 'wh-o' cannot be the name of an input: use letters, digits and '_'",
        ),
        ("description: again", "3: the key 'description' is given twice (first in line 2)"),
        (
            "instructions: Hello",
            "3: the instructions of a Markdown file are what follows its second line `---`: move them there",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_line(defined: Defined, lines: str, said: str) -> None:
    problems = defined.wrong(f"{HEAD}{lines}\n---\nHello.\n")
    assert len(problems) == 1, problems
    assert problems[0].startswith(said)


def test_everything_that_is_wrong_is_said_at_once(defined: Defined) -> None:
    assert [
        problem.partition(":")[0]
        for problem in defined.wrong(f"{HEAD}modle: x\ntools: read\nlimits: {{turns: 0}}\n---\n")
    ] == ["3", "4", "5"]


@pytest.mark.parametrize(
    "text",
    [
        "---\nmodel: small\n---\nHello.\n",
        "---\n---\n",
        "---\ndescription:\n---\n",
        "---\ndescription: ''\n---\n",
    ],
)
def test_a_definition_needs_a_description(defined: Defined, text: str) -> None:
    assert any("description" in problem for problem in defined.wrong(text))


def test_a_variable_that_is_not_declared_is_refused_at_its_line(defined: Defined) -> None:
    text = f"{HEAD}inputs:\n  who: {{type: string}}\n---\nYou advise ${{who}}.\n\nNot $${{whom}}, but ${{whom}} is wrong.\n"
    assert defined.wrong(text) == [
        "8: ${whom} is not among the declared inputs (who): did you mean ${who}?"
    ]


def test_a_variable_of_a_yaml_file_is_refused_at_its_line_too(defined: Defined) -> None:
    text = "description: A guide\ninputs: {who: {type: string}}\ninstructions: |\n  You advise ${who}.\n  It is $${cold} and ${cold}.\n"
    assert defined.wrong(text, "guide.yaml")[0].startswith(
        "5: ${cold} is not among the declared inputs (who): declare it, or write $${cold}"
    )


def test_where_nothing_is_declared_any_variable_may_stand(defined: Defined) -> None:
    assert defined.wrong(f"{HEAD}---\nYou advise ${{who}}.\n") == []


def test_a_whole_definition_becomes_what_it_says(defined: Defined) -> None:
    defined.own_says(
        "guide.md",
        """---
# yaml-language-server: $schema=agent.schema.json
description: "Knows: the weather"
model: anthropic:claude-opus-5-5
tools: [read, grep]
limits: {turns: 5, seconds: 1.5, tokens: null}
inputs:
  who: {type: string, description: Who asks}
  days: {type: integer, default: 3, required: false}
---

You advise ${who} for ${days} days.

---
It costs $$5.
""",
    )
    agent = defined.catalog().agent("guide")
    assert (agent.name, agent.description, agent.model) == (
        "guide",
        "Knows: the weather",
        "anthropic:claude-opus-5-5",
    )
    assert agent.instructions == "You advise ${who} for ${days} days.\n\n---\nIt costs $$5."
    assert [tool.name for tool in agent.own_tools] == ["read", "grep"]
    assert agent.limits == Limits(turns=5, seconds=1.5)
    assert agent.inputs == {
        "who": Input(description="Who asks"),
        "days": Input(type="integer", required=False, default=3),
    }
    assert [block.text for block in agent.system(agent.values({"who": "Ada"}))] == [
        "You advise Ada for 3 days.\n\n---\nIt costs $5."
    ]


def test_yaml_defines_the_same_as_markdown(defined: Defined) -> None:
    defined.own_says("a.md", "---\ndescription: One\ntools: [ls]\n---\nSay ${what}.\n")
    defined.own_says("b.yaml", "description: One\ntools: [ls]\ninstructions: |\n  Say ${what}.\n")
    defined.own_says("c.yml", "description: One\ntools: [ls]\ninstructions: Say ${what}.\n")
    catalog = defined.catalog()
    assert (
        len(
            {
                (agent.description, agent.instructions, agent.fingerprint)
                for agent in map(catalog.agent, "abc")
            }
        )
        == 1
    )


def test_everything_that_is_wrong_in_a_file_is_said_in_one_pass(defined: Defined) -> None:
    keys = "model: antropic:x\ntools: [reed, read]\nlimits: {turns: many}\ncolour: red\ninputs: {who: {type: string}}\n"
    problems = defined.wrong(f"{HEAD}{keys}---\nHello, ${{whom}}.\n")
    starts = (
        "3: model: unknown",
        "4: tools: there is no tool 'reed'",
        "5: limits.turns",
        "6: unknown key 'colour'",
        "7: inputs.who is unused",
        "9: ${whom}",
    )
    assert [problem.startswith(start) for problem, start in zip(problems, starts, strict=True)] == [
        True
    ] * 6, problems


def test_an_input_that_the_instructions_do_not_use_is_refused_at_its_line(defined: Defined) -> None:
    text = f"{HEAD}inputs:\n  who: {{type: string}}\n  days: {{type: integer, default: 3}}\n---\nYou advise ${{who}}.\n"
    assert defined.wrong(text) == [
        "5: inputs.days is unused: write ${days} in the instructions, or remove the input"
    ]
