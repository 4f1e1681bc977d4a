"""What can be the type of an answer, and what is refused when an agent is defined."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.tools.structured_output.places import Odds, PlaceModel, Spot, SpotStruct
from treadle.errors import AgentError
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.contract import AnswerType

T = TypeVar("T")


def asked(kind: Any) -> AnswerType[Any]:
    made = answer_type(kind)
    assert made is not None
    return made


def test_text_is_no_typed_answer() -> None:
    assert answer_type(str) is None
    assert answer_type(None) is None


class Plain:
    def __init__(self, a: int) -> None:
        self.a = a


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (3, "output= is a value of the type int: pass a class, or a JSON Schema"),
        (Spot("quay"), "output= is a value of the type Spot: pass a class"),
        (PlaceModel, None),
        ("Spot", "output= is a text: pass the type itself, not its name"),
        ([Spot], r"output= is a list: for many values, pass list\[…\]"),
        ((Spot, SpotStruct), r"for one of several types, A \| B"),
        (lambda: Spot("quay"), "output= is a function: pass the class"),
        (T, "output= is a type variable"),
        (Plain, "output=Plain: the fields of the class Plain are unknown: make it a dataclass"),
        (list[Plain], r"output=list\[.*Plain\]: the fields of the class Plain are unknown"),
        ({"type": "objekt"}, "output= is not a valid JSON Schema: output has the type 'objekt'"),
        ({"type": "object", "default": object()}, "output= is not a JSON Schema"),
        (
            {"$ref": "http://treadle.invalid/x"},
            r"refers to 'http://treadle\.invalid/x', which is not fetched: put that schema under '\$defs'",
        ),
        ({"items": {"allOf": [{"$ref": "file:///etc/passwd"}]}}, "refers to 'file:///etc/passwd'"),
    ],
)
def test_what_is_no_type_of_an_answer_is_refused_when_it_is_given(
    kind: Any, says: str | None
) -> None:
    if says is None:
        answer_type(kind)
        return
    with pytest.raises(AgentError, match=says) as e:
        answer_type(kind)
    assert e.value.kind == "invalid"


def test_what_was_given_in_the_wrong_place_is_not_quoted() -> None:
    with pytest.raises(AgentError) as e:
        answer_type(typing.cast("Any", "sk-secret"))
    assert "sk-secret" not in e.value.message


@dataclass
class Calls:
    back: Callable[[], int]


class HoldsModel(msgspec.Struct):
    model: PlaceModel


@dataclass
class Forgets:
    it: Nowhere  # noqa: F821  # pyright: ignore[reportUndefinedVariable]  what it is about


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Calls, "output=Calls cannot be described as JSON"),
        (Callable[[], int], r"output=.*Callable\[\[\], int\] cannot be described as JSON"),
        (HoldsModel, "output=HoldsModel cannot be described as JSON"),
        (Forgets, "output=Forgets cannot be described as JSON .*Nowhere"),
        ({"type": "object", "minLength": "x"}, r"output= is not a valid JSON Schema: .*minLength"),
        ({"pattern": "("}, "output= is not a valid JSON Schema: .*regex"),
        ({"$ref": "#/$defs/gone"}, "output= is not a valid JSON Schema: .*gone"),
        (
            {"$schema": "http://treadle.invalid/own"},
            "output= is not a valid JSON Schema: Unknown meta-schema",
        ),
    ],
)
def test_what_only_a_look_inside_tells_is_refused_by_whatever_is_asked_first(
    kind: Any, says: str
) -> None:
    answer = asked(kind)
    for use in (lambda: answer.schema, lambda: answer.read("{}"), lambda: answer.schema):
        with pytest.raises(AgentError, match=says) as e:
            use()
        assert e.value.kind == "invalid"


def test_a_typed_dict_that_forgets_its_keys_is_refused_before_python_3_12() -> None:
    old = typing.TypedDict("old", {"a": int})  # noqa: UP013  the class form would be rewritten
    if sys.version_info >= (3, 12):
        assert asked(old).read('{"a": 1}') == {"a": 1}
        return
    with pytest.raises(
        AgentError,
        match=r"output=old: before Python 3\.12, import TypedDict from typing_extensions",
    ):
        answer_type(old)
    holder = make_dataclass("Holder", [("it", old)])
    with pytest.raises(AgentError, match="import TypedDict from typing_extensions"):
        _ = asked(holder).schema


# ---------------------------------------------------------------- what a type may be made of


def test_types_with_their_own_words_in_json() -> None:
    answer = asked(Odds)
    text = """{"day": "2026-11-20", "id": "12345678-1234-5678-1234-567812345678", "price": "1.10", "pair": [1, "a"], "kinds": ["a"],
        "by_name": {"x": {"name": "quay"}}}"""
    value = answer.read(text)
    assert (value.day.year, str(value.price), value.pair, value.kinds, value.by_name) == (
        2026,
        "1.10",
        (1, "a"),
        {"a"},
        {"x": Spot("quay")},
    )
    assert answer.again(json.loads(answer.encoded(value))) == value


class Pair(NamedTuple):
    a: int
    b: str


Age = typing.NewType("Age", int)


@pytest.mark.parametrize(
    ("kind", "plain", "value"),
    [
        (Pair, [1, "b"], Pair(1, "b")),
        (Age, 3, 3),
        (Annotated[int, Field(gt=2)], 3, 3),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)
def test_other_kinds_of_types(kind: Any, plain: object, value: object) -> None:
    answer = asked(kind)
    assert answer.read(json.dumps({"result": plain})) == value
    assert answer.again(json.loads(answer.encoded(value))) == value


def test_classes_of_a_function_may_name_each_other() -> None:
    @dataclass
    class Inner:
        a: int

    @dataclass
    class Outer:
        inners: list[Inner] = field(default_factory=list)

    class Model(BaseModel):
        inner: Inner

    class Dict(TypedDict):
        inner: Inner

    assert asked(Outer).read('{"inners": [{"a": 1}]}') == Outer([Inner(1)])
    assert asked(list[Outer]).read('[{"inners": [{"a": 1}]}]') == [Outer([Inner(1)])]
    assert asked(Model).read('{"inner": {"a": 1}}').inner == Inner(1)
    assert asked(Dict).read('{"inner": {"a": 1}}') == {"inner": Inner(1)}


# ---------------------------------------------------------------- what is loaded when

PROGRAM = """
import sys
from dataclasses import dataclass
import msgspec
from treadle.tools.structured_output import answer_type

def loaded():
    return [name for name in ("pydantic", "pydantic_core", "jsonschema_rs") if name in sys.modules]

@dataclass
class Data:
    a: int

class Struct(msgspec.Struct):
    a: int

answers = [answer_type(kind) for kind in (Data, list[Data], int, Struct, {"type": "object"})]
print(loaded())
print(answers[3].schema, answers[3].read('{"a": 1}'), answers[3].encoded(Struct(1)), answers[3].again({"a": 1}))
print(loaded())
print(answers[3].partial('{"a": 1,'))
print(loaded())
"""


def test_a_definition_loads_nothing_and_a_struct_never_pydantic(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    at_once, _, used, partial, followed = done.stdout.splitlines()
    assert (at_once, used, partial, followed) == (
        "[]",
        "['jsonschema_rs']",
        "{'a': 1}",
        "['pydantic_core', 'jsonschema_rs']",
    )
