"""Tools from a JSON Schema that came from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.conftest import MakeContext
from treadle.errors import AgentError
from treadle.tools.function import FunctionTool
from treadle.tools.function.given import GivenArguments
from treadle.tools.tool import InvalidArguments, ToolContext

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "description": "Name."},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "either": {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]},
            ]
        },
        "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {
        "item": {
            "type": "object",
            "properties": {"colour": {}},
            "additionalProperties": False,
            "required": ["colour"],
        }
    },
}


def made(parameters: Any = SCHEMA, execute: Any = None) -> FunctionTool[Any]:
    async def nothing(**arguments: object) -> object:
        return arguments

    return FunctionTool(
        name="weather",
        description="Forecast.",
        parameters=parameters,
        execute=execute or nothing,
        effect="pure",
    )


def refusal(arguments: str) -> list[str]:
    with pytest.raises(InvalidArguments) as e:
        made().parse(arguments)
    first, *problems, last = e.value.message.splitlines()
    assert first == "The arguments do not fit the tool 'weather', and nothing was run:"
    assert last == "Correct them and call the tool again."
    return problems


# ---------------------------------------------------------------- making one


def test_the_schema_is_the_definition() -> None:
    one = made()
    assert one.definition is one.definition
    assert (one.definition.name, one.definition.description, one.definition.parameters) == (
        "weather",
        "Forecast.",
        SCHEMA,
    )
    assert one.effect == "pure"


def test_changing_the_given_schema_afterwards_changes_nothing() -> None:
    own = json.loads(json.dumps(SCHEMA))
    one = made(own)
    own["properties"].clear()
    assert one.definition.parameters == SCHEMA


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({}, "'type' is None and must be 'object'"),
        ({"type": "string"}, "'type' is 'string' and must be 'object'"),
        ({"type": "object", "properties": 3}, "the properties of parameters are 3"),
        ({"type": "object", "properties": {"a": 3}}, r"parameters\.a is 3 and must be a schema"),
        (
            {"type": "object", "properties": {"a": {"type": "str"}}},
            r"parameters\.a has the type 'str' and must have one of array, boolean",
        ),
        (
            {"type": "object", "properties": {"a": {"items": {"type": ["string", "nil"]}}}},
            r"parameters\.a\[\] has the type 'nil'",
        ),
        (
            {"type": "object", "required": "a"},
            "'required' of parameters is 'a' and must be a list of names",
        ),
        (
            {"type": "object", "default": object()},
            "not a JSON Schema: Encoding objects of type object",
        ),
        ([], "'type' is None"),
        (
            {"type": "object", "properties": {"a": {"$ref": "http://treadle.invalid/x"}}},
            r"refers to 'http://treadle\.invalid/x', which is not fetched: put",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd#/x"}}},
            "refers to 'file:///etc/passwd#/x', which is not fetched",
        ),
        (
            {"type": "object", "$defs": {"a": {"items": [{"$dynamicRef": "urn:treadle:x"}]}}},
            "refers to 'urn:treadle:x'",
        ),
        (
            {"type": "object", "$id": "https://treadle.invalid/a", "not": {"$ref": "b.json"}},
            "refers to 'b.json'",
        ),
    ],
)
def test_what_can_be_no_schema_is_refused_when_the_tool_is_made(parameters: Any, says: str) -> None:
    with pytest.raises(AgentError, match=says) as e:
        made(parameters)
    assert e.value.kind == "invalid"
    assert "'weather'" in e.value.message


@pytest.mark.parametrize(
    ("schema", "says"),
    [({"pattern": "("}, "regex"), ({"$ref": "#/$defs/gone"}, "gone")],
)
def test_what_only_compiling_tells_is_refused_at_the_first_call(
    schema: dict[str, object], says: str
) -> None:
    one = made({"type": "object", "properties": {"a": schema}})
    with pytest.raises(AgentError, match=says) as e:
        one.parse("{}")
    assert e.value.kind == "invalid"


def test_a_schema_that_was_refused_is_not_compiled_again() -> None:
    made = GivenArguments("t", "d", {"type": "object", "properties": {"a": {"pattern": "("}}})
    causes: list[object] = []
    for _ in range(2):
        with pytest.raises(AgentError) as refused:
            made.parse("{}")
        causes.append(refused.value.__cause__)
    assert causes[0] is causes[1] is not None


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$id": "https://treadle.invalid/a",
            "$ref": "b",
            "$defs": {"b": {"$id": "b", "type": "object"}},
        },
        {"$ref": "#/$defs/b", "$defs": {"b": {"type": "object"}}},
        {"$id": "urn:treadle:a", "$ref": "#b", "$defs": {"b": {"$anchor": "b", "type": "object"}}},
        {
            "properties": {"$ref": {"type": "string"}},
            "enum": [{"$ref": "http://treadle.invalid/x"}, {}],
        },
    ],
)
def test_a_reference_to_what_is_at_hand_is_followed(schema: dict[str, object]) -> None:
    assert made({"type": "object", **schema}).parse("{}") == {}


def test_half_a_surrogate_pair_is_refused_in_words_where_the_schema_looks_at_it() -> None:
    with pytest.raises(InvalidArguments, match="half of a surrogate pair"):
        made({"type": "object", "properties": {"a": {"enum": ["x"]}}}).parse('{"a": "\\ud800"}')


def test_booleans_are_schemas_too() -> None:
    one = made({"type": "object", "properties": {"a": True, "b": False}})
    assert one.parse('{"a": 1}') == {"a": 1}
    with pytest.raises(InvalidArguments):
        one.parse('{"b": 1}')


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "a b"}, "'a b' is not a valid tool name"),
        ({"effect": "never"}, "effect='never'"),
        ({"execute": 3}, "cannot be called"),
    ],
)
def test_what_it_declares_is_checked(options: dict[str, Any], says: str) -> None:
    fields: dict[str, Any] = {
        "name": "t",
        "description": "",
        "parameters": {"type": "object"},
        "execute": print,
    }
    with pytest.raises(AgentError, match=says):
        FunctionTool(**(fields | options))


# ---------------------------------------------------------------- calling it


async def test_execute_is_called_with_keyword_arguments(
    make_context: MakeContext, tmp_path: Path
) -> None:
    one = made()
    assert (
        await one.execute(make_context(tmp_path), one.parse('{"city": "Rome", "days": 2}'))
        == '{"city":"Rome","days":2}'
    )


async def _by_name(ctx, **arguments):
    return f"{ctx.call_id}: {arguments['city']}"


async def _by_type(context: ToolContext[Any], city: str) -> str:
    return f"{context.call_id}: {city}"


async def _last(city: str, *, context: ToolContext[Any]) -> str:
    return f"{context.call_id}: {city}"


def _in_a_thread(context: ToolContext[Any], city: str) -> str:
    return f"{context.call_id}: {city}"


@pytest.mark.parametrize("execute", [_by_name, _by_type, _last, _in_a_thread])
async def test_execute_gets_the_context_where_it_takes_one(
    make_context: MakeContext, tmp_path: Path, execute: Any
) -> None:
    one = made(execute=execute)
    assert (
        await one.execute(make_context(tmp_path), one.parse('{"city": "Rome"}')) == "call_1: Rome"
    )


async def test_a_schema_that_asks_for_ctx_means_an_argument(
    make_context: MakeContext, tmp_path: Path
) -> None:
    async def echo(ctx):
        return ctx

    one = made({"type": "object", "properties": {"ctx": {"type": "string"}}}, echo)
    assert await one.execute(make_context(tmp_path), one.parse('{"ctx": "mine"}')) == "mine"


# ---------------------------------------------------------------- what was sent


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        ("", ["- city: missing; expected string: Name."]),
        ('{"city": "x"}', ['- city: is shorter than 2 characters, got "x"']),
        ('{"city": "xy", "days": "2"}', ['- days: expected integer, got "2"']),
        ('{"city": "xy", "days": 0}', ["- days: is less than the minimum of 1, got 0"]),
        (
            '{"city": "xy", "unit": "celcius"}',
            [
                '- unit: expected one of "celsius", "fahrenheit", got "celcius"; did you mean "celsius"?'
            ],
        ),
        ('{"city": "xy", "unit": 3}', ['- unit: expected one of "celsius", "fahrenheit", got 3']),
        (
            '{"city": "xy", "ciy": 1}',
            ['- ciy: there is no argument of this name; did you mean "city"?'],
        ),
        (
            '{"city": "xy", "list": "[]"}',
            [
                '- list: expected array, got "[]"; send the JSON itself, not a string that contains it'
            ],
        ),
        (
            '{"city": "xy", "list": [{"color": 1, "colour": 1}]}',
            ['- list[0].color: there is no argument of this name; did you mean "colour"?'],
        ),
        ('{"city": "xy", "list": [{}]}', ["- list[0].colour: missing"]),
        (
            '{"city": "xy", "either": 3}',
            ["- either: none of the allowed forms fits (expected string; expected object), got 3"],
        ),
        (
            '{"city": "xy", "either": {"q": "x"}}',
            [
                '- either: none of the allowed forms fits (expected string; expected integer), got {"q": "x"}'
            ],
        ),
        ("[]", ["- the arguments: expected one JSON object, got []"]),
        (
            '"{}"',
            [
                '- the arguments: expected one JSON object, got "{}"; send the JSON itself, not a string that contains it'
            ],
        ),
    ],
)
def test_each_problem_is_a_line_with_its_place_and_what_would_be_right(
    sent: str, lines: list[str]
) -> None:
    assert refusal(sent) == lines


def test_what_is_missing_is_described_from_the_schema() -> None:
    one = made(
        {
            "type": "object",
            "properties": {
                "kind": {"const": "a", "description": "Which."},
                "size": {"type": ["integer", "null"]},
                "unit": {"enum": ["a", 1]},
                "any": {},
                "item": {"$ref": "#/$defs/item"},
            },
            "required": ["kind", "size", "unit", "any", "item"],
            "$defs": {"item": {"type": "array", "description": "Things."}},
        }
    )
    with pytest.raises(InvalidArguments) as e:
        one.parse("{}")
    assert e.value.message.splitlines()[1:-1] == [
        '- kind: missing; expected "a": Which.',
        "- size: missing; expected integer or null",
        '- unit: missing; expected one of "a", 1',
        "- any: missing",
        "- item: missing; expected array: Things.",
    ]


def test_a_schema_that_refers_to_itself_at_the_same_place_is_refused() -> None:
    one = made(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "required": ["a"],
            "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        }
    )
    with pytest.raises(AgentError, match="leads back to itself at the same place"):
        one.parse("{}")


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ('{"city": NaN}', "NaN is not a JSON value"),
        ('{"city": "Par', "cut off"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_text_that_is_no_json_is_told_so(sent: str, says: str) -> None:
    with pytest.raises(InvalidArguments, match=says):
        made().parse(sent)


def test_odd_json_does_no_harm() -> None:
    anything = made({"type": "object"})
    assert anything.parse('{"a": 1e400, "b": 123456789012345678901234567890, "c": 1, "c": 2}') == {
        "a": float("inf"),
        "b": 123456789012345678901234567890,
        "c": 2,
    }
    assert anything.parse('{"a": "\\ud800"}') == {"a": "\ud800"}


def test_a_huge_value_is_shown_short() -> None:
    (line,) = refusal(json.dumps({"city": "xy", "days": "9" * 100_000}))
    assert len(line) < 200


@given(st.text())
def test_no_text_whatever_makes_parse_raise_anything_else(text: str) -> None:
    arguments = GivenArguments("weather", "", SCHEMA)
    try:
        arguments.parse(text)
    except InvalidArguments as e:
        told = e.message
    else:
        told = "fits"
    assert told
