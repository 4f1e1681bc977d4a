"""From a signature to a JSON Schema, and from what a model sent to values or to words that help it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import sys
import threading
import typing
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Optional

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field
from typing_extensions import Doc, TypedDict

import treadle.tools.tool as contracts
from tests.for_checkers import defined
from treadle.errors import AgentError
from treadle.tools.function import tool
from treadle.tools.tool import InvalidArguments, ToolContext
from treadle.tools.tool import ToolContext as Renamed
from treadle.types import Usage

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Tree(msgspec.Struct):
    name: str
    children: list[Tree] = []


class Person(BaseModel):
    title: str = Field(description="How to address them.")
    friends: list[Person] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Options(TypedDict):
    depth: int
    follow: NotRequired[bool]


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return tool(function).definition.parameters["properties"]


def refusal(function: Callable[..., Any], arguments: str) -> str:
    with pytest.raises(InvalidArguments) as e:
        tool(function).parse(arguments)
    return e.value.message


# ---------------------------------------------------------------- the schema


def test_a_signature_becomes_a_schema_of_an_object() -> None:
    @tool
    async def weather(ctx: ToolContext[Any], city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            ctx: Not for the model.
            city: Name of the city.
            days: How many days ahead, 1 to 7.
        """
        return ""

    assert msgspec.to_builtins(weather.definition) == {
        "name": "weather",
        "description": "Forecast for a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city."},
                "days": {
                    "type": "integer",
                    "description": "How many days ahead, 1 to 7.",
                    "default": 1,
                },
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }


def test_no_parameters_are_an_object_without_properties() -> None:
    def nothing() -> None: ...

    assert tool(nothing).definition.parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert tool(nothing).parse("") == {}


INTEGER = {"type": "integer"}
POINT = {
    "type": "object",
    "properties": {"x": INTEGER, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": INTEGER}),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Colour, {"type": "string", "enum": ["red", "green"]}),
        (Optional[int], {"anyOf": [INTEGER, {"type": "null"}]}),  # noqa: UP045  an older spelling that people use
        (int | list[int], {"anyOf": [INTEGER, {"type": "array", "items": INTEGER}]}),
        (Any, {}),
        (dt.date, {"type": "string", "format": "date"}),
        (
            Annotated[int, Field(ge=1, le=7, description="Days.")],
            {"type": "integer", "minimum": 1, "maximum": 7, "description": "Days."},
        ),
        (Annotated[int, "Days."], {"type": "integer", "description": "Days."}),
        (Annotated[int, Doc("Days.")], {"type": "integer", "description": "Days."}),
        (Point, POINT),
        (list[Point], {"type": "array", "items": POINT}),
        (
            Options,
            {
                "type": "object",
                "properties": {"depth": INTEGER, "follow": {"type": "boolean"}},
                "required": ["depth"],
                "additionalProperties": False,
            },
        ),
        (
            Cat,
            {
                "type": "object",
                "properties": {"kind": {"type": "string", "const": "cat"}, "lives": INTEGER},
                "required": ["kind", "lives"],
            },
        ),
    ],
    ids=str,
)
def test_each_type_is_described_without_titles_and_in_place(
    hint: Any, schema: dict[str, Any]
) -> None:
    def f(value): ...

    f.__annotations__["value"] = hint
    described = tool(f).definition.parameters
    assert described["properties"] == {"value": schema}
    assert "$defs" not in described


def test_a_property_that_is_called_title_keeps_its_name() -> None:
    def f(title: str, person: Person) -> None: ...

    assert set(properties(f)) == {"title", "person"}
    assert "title" in tool(f).definition.parameters["$defs"]["Person"]["properties"]


def test_recursive_types_keep_their_definitions() -> None:
    def f(tree: Tree, others: list[Tree]) -> None: ...

    parameters = tool(f).definition.parameters
    assert parameters["properties"] == {
        "tree": {"$ref": "#/$defs/Tree"},
        "others": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    }
    assert parameters["$defs"] == {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
            },
            "required": ["name"],
        }
    }


class Ping(BaseModel):
    pong: Pong | None = None


class Pong(BaseModel):
    ping: Ping | None = None


class Around(BaseModel):
    ping: Ping
    twice: Ping


def test_types_that_hold_each_other_keep_their_definitions() -> None:
    def f(around: Around) -> None: ...

    parameters = tool(f).definition.parameters
    assert set(parameters["$defs"]) == {"Ping", "Pong"}
    assert parameters["properties"]["around"]["properties"]["ping"] == {"$ref": "#/$defs/Ping"}
    assert tool(f).parse('{"around": {"ping": {"pong": {"ping": {}}}, "twice": {}}}') == {
        "around": Around(ping=Ping(pong=Pong(ping=Ping())), twice=Ping()),
    }
    assert "- around.ping.pong.ping: expected an object, got 3" in refusal(
        f, '{"around": {"ping": {"pong": {"ping": 3}}, "twice": {}}}'
    )


def test_a_long_type_that_is_used_twice_is_defined_once() -> None:
    def f(one: Usage, two: Usage | None) -> None: ...

    parameters = tool(f).definition.parameters
    assert list(parameters["$defs"]) == ["Usage"]
    assert json.dumps(parameters["properties"]).count("#/$defs/Usage") == 2


def test_two_structs_of_one_name_stay_apart() -> None:
    class Tree(msgspec.Struct):
        leaves: list[Tree]

    def f(one: Tree, two: Any) -> None: ...

    f.__annotations__ = {"one": Tree, "two": globals()["Tree"]}
    Tree.__annotations__["leaves"] = list[Tree]
    defined = tool(f).definition.parameters["$defs"]
    assert len(defined) == 2


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (3, 3),
        (None, None),
        (Colour.RED, "red"),
        (Point(1), {"x": 1, "y": 0}),
        (Tree("a"), {"name": "a", "children": []}),
        (Path("/x"), "/x"),
    ],
)
def test_a_default_is_shown_as_json(default: object, shown: object) -> None:
    def f(value=default): ...

    assert properties(f)["value"]["default"] == shown


@pytest.mark.parametrize("default", [object(), float("nan"), lambda: 1])
def test_a_default_that_json_cannot_say_is_left_out(default: object) -> None:
    def f(value=default): ...

    assert properties(f) == {"value": {}}
    assert tool(f).parse("{}") == {}


def test_the_annotation_speaks_before_the_docstring() -> None:
    def f(
        a: Annotated[int, Field(description="said here")], b: Annotated[int, Field(ge=1)]
    ) -> None:
        """Sum.

        :param a: said there
        :param b: said there
        """

    assert properties(f)["a"]["description"] == "said here"
    assert properties(f)["b"] == {"type": "integer", "minimum": 1, "description": "said there"}


def test_a_field_as_the_default_is_understood() -> None:
    def f(
        a: int = Field(5, ge=1),
        b: list[int] = Field(default_factory=list),  # noqa: B008
        c: str = Field(min_length=2),
    ) -> None: ...

    assert tool(f).definition.parameters["required"] == ["c"]
    assert tool(f).parse('{"c": "xy"}') == {"a": 5, "b": [], "c": "xy"}


def test_what_is_not_sent_is_left_to_the_functions_own_default() -> None:
    def f(a: list[int] = [], b: int = 2) -> None: ...  # noqa: B006  the very point: the same object comes back

    assert tool(f).parse('{"b": 3}') == {"b": 3}


def test_a_description_given_by_hand_is_taken_as_it_is() -> None:
    def f(a: int) -> None:
        """From the docstring."""

    assert tool(description="By hand.")(f).definition.description == "By hand."
    assert tool(description="")(f).definition.description == ""


def test_the_definition_is_built_once_even_by_two_threads() -> None:
    def f(a: int) -> None: ...

    made = tool(f)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(made.definition)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(d) for d in found}) == 1


# ---------------------------------------------------------------- annotations as text


def test_names_of_the_function_around_are_found() -> None:
    class Local(TypedDict):
        a: int

    @tool
    def f(value: Local, more: list[Local] | None = None) -> None: ...

    @tool(effect="pure")
    def g(value: Local) -> None: ...

    assert f.parse('{"value": {"a": 1}}') == g.parse('{"value": {"a": 1}}') == {"value": {"a": 1}}


def test_a_name_that_comes_later_in_the_module_is_found() -> None:
    def f(value: Later) -> None: ...

    assert tool(f).parse('{"value": {"a": "1"}}') == {"value": Later(a=1)}


@dataclasses.dataclass
class Later:
    a: int


def test_an_annotation_that_cannot_be_evaluated_is_named() -> None:
    def f(a: int, b: OnlyForCheckers) -> None: ...

    for function in (f, defined("def f(a: int, b: OnlyForCheckers) -> None: ...")["f"]):
        with pytest.raises(
            AgentError,
            match=r"f: the annotation 'OnlyForCheckers' of parameter 'b' cannot be evaluated .*TYPE_CHECKING",
        ) as e:
            _ = tool(function).definition
        assert e.value.kind == "invalid"


def takes_whole(context: ToolContext, a: int) -> None: ...
def takes_module(context: contracts.ToolContext[Any], a: int) -> None: ...
def takes_renamed(context: Renamed[Any], a: int) -> None: ...
def takes_optional(context: ToolContext[Any] | None, a: int) -> None: ...
def takes_old_optional(context: Optional[ToolContext[Any]], a: int) -> None: ...  # noqa: UP045  an older spelling
def takes_unknown_deps(context: ToolContext[OnlyForCheckers], a: int) -> None: ...
def takes_second_spelling(context: contracts.ToolContext, a: int) -> None: ...
def takes_last(a: int, *, context: ToolContext[Any]) -> None: ...
def takes_unannotated(ctx, a: int) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        takes_whole,
        takes_module,
        takes_renamed,
        takes_optional,
        takes_second_spelling,
        takes_old_optional,
        takes_unknown_deps,
        takes_last,
        takes_unannotated,
    ],
)
@pytest.mark.parametrize("evaluated", [False, True])
def test_the_context_is_found_however_it_is_written(function: Any, evaluated: bool) -> None:
    if evaluated and "context" in function.__annotations__ and function is not takes_unknown_deps:
        hints = typing.get_type_hints(function)

        def f(context, a): ...

        f.__annotations__ = hints
        function = f
    assert properties(function) == {"a": INTEGER}


def test_a_context_that_is_imported_for_checkers_only_is_known_by_its_name() -> None:
    names = defined(
        "def f(context: ToolContext[Shop], a: int) -> Text: ...\n"
        "def g(ctx: str, a: int) -> Text: ...\n"
        "def h(a: int, *, context: ToolContext | None = None) -> Text: ..."
    )
    assert set(properties(names["f"])) == {"a"}
    assert set(properties(names["g"])) == {"ctx", "a"}
    assert set(properties(names["h"])) == {"a"}


def test_an_annotation_that_begins_with_no_name_is_no_context() -> None:
    def f(a, b): ...

    f.__annotations__ = {"a": "(int)", "b": "'Later'"}
    assert properties(f)["a"] == INTEGER
    assert properties(f)["b"]["type"] == "object"


# ---------------------------------------------------------------- types that are no JSON


class Strange: ...


@dataclasses.dataclass
class HoldsStruct:
    tree: Tree


@pytest.mark.parametrize("hint", [Strange, list[Strange], Callable[[int], int], HoldsStruct])
def test_a_type_that_is_no_json_is_refused_by_name(hint: Any) -> None:
    def f(fine: int, bad): ...

    f.__annotations__["bad"] = hint
    with pytest.raises(
        AgentError, match=r"\.f: parameter 'bad' of type .* cannot be described as JSON"
    ) as e:
        _ = tool(f).definition
    assert e.value.kind == "invalid"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="typing's own TypedDict will do from 3.12 on"
)
def test_a_typed_dict_of_typing_is_told_where_to_come_from() -> None:
    class Own(typing.TypedDict):
        a: int

    @tool
    def f(value: Own) -> None: ...

    with pytest.raises(AgentError, match=r"parameter 'value' .*typing_extensions"):
        _ = f.definition


def test_a_struct_with_a_field_that_is_no_json_is_refused() -> None:
    class Bad(msgspec.Struct):
        value: Strange

    @tool
    def f(value: Bad) -> None: ...

    with pytest.raises(AgentError, match=r"parameter 'value' of type .*Bad"):
        _ = f.definition


# ---------------------------------------------------------------- what was sent


def everything(
    city: Annotated[str, Field(min_length=2, description="Name.")],
    anything=None,
    days: int = 1,
    temperature: float = 0.0,
    colour: Colour = Colour.RED,
    unit: Literal["celsius", "fahrenheit"] = "celsius",
    point: Point | None = None,
    points: list[Point] | None = None,
    pet: Cat | Dog | None = None,
    tree: Tree | None = None,
    several: int | list[int] = 1,
): ...


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        ("{}", ["city: missing; expected string: Name."]),
        ('{"city": "x"}', ['city: string should have at least 2 characters, got "x"']),
        (
            '{"city": "xy", "days": "two"}',
            ['days: expected a valid integer, unable to parse string as an integer, got "two"'],
        ),
        (
            '{"city": "xy", "dayz": 2}',
            ['dayz: there is no argument of this name; did you mean "days"?'],
        ),
        (
            '{"city": "xy", "colour": "gren"}',
            ["colour: expected 'red' or 'green', got \"gren\"; did you mean \"green\"?"],
        ),
        (
            '{"city": "xy", "unit": "celcius"}',
            [
                "unit: expected 'celsius' or 'fahrenheit', got \"celcius\"; did you mean \"celsius\"?"
            ],
        ),
        ('{"city": "xy", "unit": "k"}', ["unit: expected 'celsius' or 'fahrenheit', got \"k\""]),
        ('{"city": "xy", "temperature": NaN}', ["temperature: expected a finite number, got NaN"]),
        (
            '{"city": "xy", "points": [{"x": 1}, {"y": 2}]}',
            ["points[1].x: missing; expected integer"],
        ),
        (
            '{"city": "xy", "points": "[]"}',
            [
                'points: expected a valid array, got "[]"; send the JSON itself, not a string that contains it'
            ],
        ),
        (
            '{"city": "xy", "tree": {"name": 3}}',
            ['tree: expected `str`, got `int` - at `$.name`, got {"name": 3}'],
        ),
        (
            '{"city": "xy", "several": "x"}',
            [
                'several: expected a valid integer, unable to parse string as an integer, or expected a valid array, got "x"'
            ],
        ),
        ("[]", ["the arguments: expected an object, got []"]),
        ("null", ["the arguments: expected an object, got null"]),
        ('{"city": "xy", "a b\\n": 1}', ['["a b\\n"]: there is no argument of this name; known: ']),
    ],
)
def test_each_problem_is_a_line_with_its_place_and_what_would_be_right(
    sent: str, lines: list[str]
) -> None:
    told = refusal(everything, sent).splitlines()
    assert told[0] == "The arguments do not fit the tool 'everything', and nothing was run:"
    assert told[-1] == "Correct them and call the tool again."
    assert [
        line[: len(f"- {expected}")] for line, expected in zip(told[1:-1], lines, strict=True)
    ] == [f"- {expected}" for expected in lines]


def test_an_unknown_name_comes_before_what_it_leaves_missing() -> None:
    told = refusal(everything, '{"ciy": "Rome"}').splitlines()[1:-1]
    assert told == [
        '- ciy: there is no argument of this name; did you mean "city"?',
        "- city: missing; expected string: Name.",
    ]


def test_a_tool_without_parameters_says_so() -> None:
    def f() -> None: ...

    assert "- x: there is no argument of this name; it takes none" in refusal(f, '{"x": 1}')


def test_union_members_are_no_part_of_the_place() -> None:
    told = refusal(everything, '{"city": "xy", "pet": {"kind": "dog"}}')
    assert "- pet.name: missing; expected string" in told
    assert "Cat" not in told


def test_many_problems_are_told_in_a_bounded_text() -> None:
    def f(values: list[int]) -> None: ...

    told = refusal(f, json.dumps({"values": ["x" * 1000] * 1000}))
    assert "- and 990 more" in told
    assert len(told) < 4000


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (
            '{"city": "Paris" "days": 2}',
            "Expecting ',' delimiter at line 1, column 18, near '{\"city\": \"Paris\" ' <here> '\"days\": 2}'",
        ),
        (
            '{"city": "Par',
            "Unterminated string starting at line 1, column 10, near '{\"city\": ' <here> '\"Par' (it seems to be cut off)",
        ),
        ('{"city": ', "(it seems to be cut off)"),
        ("nonsense", "near '' <here> 'nonsense'"),
        ("[" * 300 + "]" * 300, "it is nested too deeply"),
        ("[" * 10_000 + "]" * 10_000, "it is nested too deeply"),
        ('{"anything": ' + "[" * 10_000, "it is nested too deeply"),
        ('{"city": "\ud800"}', "half of a surrogate pair"),
        ('{"city": "\\ud800"}', "surrogate|hex escape"),
        ('{"anything": ' + "9" * 5000 + "}", "digits"),
        ('{"city": "xy"} {}', "Extra data"),
    ],
)
def test_text_that_is_no_json_is_shown_where_it_goes_wrong(sent: str, says: str) -> None:
    told = refusal(everything, sent)
    assert told.startswith(
        "The arguments for the tool 'everything' are not valid JSON, and nothing was run: "
    )
    assert any(piece in told for piece in says.split("|"))
    assert len(told) < 500


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("1e400", float("inf")),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_json_of_an_odd_kind_reaches_what_takes_anything(value: str, read: object) -> None:
    assert tool(everything).parse(f'{{"city": "xy", "anything": {value}}}') == {
        "city": "xy",
        "anything": read,
    }


@pytest.mark.parametrize("nothing", ["", " ", "\n", "{}"])
def test_an_empty_text_is_an_empty_object(nothing: str) -> None:
    def f(a: int = 1) -> None: ...

    assert tool(f).parse(nothing) == {}


def test_values_come_in_the_types_of_the_signature() -> None:
    sent = {
        "city": "xy",
        "days": "2",
        "colour": "green",
        "point": {"x": 1},
        "pet": {"kind": "cat", "lives": 9},
        "tree": {"name": "a", "children": [{"name": "b"}]},
    }
    assert tool(everything).parse(json.dumps(sent)) == {
        "city": "xy",
        "days": 2,
        "colour": Colour.GREEN,
        "point": Point(1),
        "pet": Cat(kind="cat", lives=9),
        "tree": Tree("a", [Tree("b")]),
    }


def even(value: int) -> int:
    if value % 2:
        raise AssertionError("only even\nones")
    return value


def too_deep(value: object) -> object:
    raise RecursionError


def broken(value: object) -> object:
    raise KeyError("mine")


def test_what_a_validator_says_is_told() -> None:
    def f(a: Annotated[int, AfterValidator(even)]) -> None: ...

    assert "- a: only even ones, got 3" in refusal(f, '{"a": 3}')


def test_a_value_that_a_validator_made_is_shown_by_its_type() -> None:
    def f(a: Annotated[int, BeforeValidator(lambda _: Strange())]) -> None: ...

    assert "got a Strange" in refusal(f, '{"a": 3}')


def test_a_validator_that_goes_too_deep_says_so() -> None:
    def f(a: Annotated[int, BeforeValidator(too_deep)]) -> None: ...

    assert "it is nested too deeply" in refusal(f, '{"a": 3}')


def test_a_validator_that_breaks_is_not_hidden() -> None:
    def f(a: Annotated[int, BeforeValidator(broken)]) -> None: ...

    with pytest.raises(KeyError, match="mine"):
        tool(f).parse('{"a": 1}')


# ---------------------------------------------------------------- properties

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
JSON_TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, TEXT),
    (int, st.integers(-(10**30), 10**30)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (list[int], st.lists(st.integers(-(2**63), 2**63 - 1))),
    (dict[str, list[str]], st.dictionaries(TEXT, st.lists(TEXT))),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (int | str | None, st.none() | st.integers(-(2**31), 2**31) | TEXT),
    (
        Options,
        st.fixed_dictionaries({"depth": st.integers(0, 9)}, optional={"follow": st.booleans()}),
    ),
    (
        Any,
        st.recursive(
            st.none() | st.booleans() | TEXT,
            lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
            max_leaves=10,
        ),
    ),
]


@pytest.mark.parametrize(("hint", "values"), JSON_TYPES, ids=[str(hint) for hint, _ in JSON_TYPES])
@given(data=st.data())
def test_what_the_schema_allows_reaches_the_function_unchanged(
    hint: Any, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    def f(value): ...

    f.__annotations__["value"] = hint
    made, sent = tool(f), {"value": data.draw(values)}
    assert jsonschema_rs.is_valid(made.definition.parameters, sent)
    read = made.parse(json.dumps(sent))
    assert read == sent
    assert type(read["value"]) is type(sent["value"])


@given(st.text())
def test_no_text_whatever_makes_parse_raise_anything_else(text: str) -> None:
    with suppress(InvalidArguments):
        tool(everything).parse(text)
