"""Reading the words of a model as a value: tolerant of what is around it, exact in what it says."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from tests.tools.structured_output.places import (
    PLACE_SCHEMA,
    PLACES,
    Cat,
    Dog,
    Found,
    Page,
    PlaceData,
    PlaceDict,
    PlaceModel,
    PlaceStruct,
    Season,
    Spot,
    SpotModel,
    SpotStruct,
    Tree,
    TreeStruct,
    WithStruct,
)
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.contract import AnswerType, Unfit

PLAIN = {
    "city": "Oslo",
    "score": 1.5,
    "season": "cold",
    "tags": ["fjord"],
    "spot": {"name": "quay", "days": 2},
}
TEXT = json.dumps(PLAIN)


def asked(kind: Any) -> AnswerType[Any]:
    made = answer_type(kind)
    assert made is not None
    return made


def unfit(kind: Any, text: str) -> str:
    with pytest.raises(Unfit) as e:
        asked(kind).read(text)
    assert len(e.value.message) <= 1500
    assert "pydantic" not in e.value.message
    return e.value.message


# ---------------------------------------------------------------- one answer, five families


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (PlaceData, PlaceData("Oslo", 1.5, Season.COLD, ["fjord"], Spot("quay", 2))),
        (
            PlaceModel,
            PlaceModel(
                city="Oslo",
                score=1.5,
                season=Season.COLD,
                tags=["fjord"],
                spot=SpotModel(name="quay", days=2),
            ),
        ),
        (
            PlaceDict,
            {
                "city": "Oslo",
                "score": 1.5,
                "season": Season.COLD,
                "tags": ["fjord"],
                "spot": {"name": "quay", "days": 2},
            },
        ),
        (PlaceStruct, PlaceStruct("Oslo", 1.5, Season.COLD, ["fjord"], SpotStruct("quay", 2))),
        (PLACE_SCHEMA, PLAIN),
    ],
)
def test_a_value_is_read_written_and_made_again(kind: Any, value: object) -> None:
    answer = asked(kind)
    assert answer.read(TEXT) == value
    assert json.loads(answer.encoded(value)) == PLAIN
    assert answer.again(PLAIN) == value


@pytest.mark.parametrize("kind", PLACES)
def test_every_family_says_the_same_of_the_same_answer(kind: Any) -> None:
    schema: Any = asked(kind).schema
    assert schema["type"] == "object"
    assert schema["description"] == "A place to go to."
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["city", "score", "season"]
    assert schema["properties"]["score"] == {
        "type": "number",
        "minimum": 0,
        "description": "From 0 up.",
    }
    assert sorted(schema["properties"]["season"]["enum"]) == ["cold", "warm"]
    assert "title" not in json.dumps(schema)
    assert asked(kind).schema == schema


def test_the_schema_is_the_same_object_every_time() -> None:
    answer = asked(PlaceData)
    assert answer.schema is answer.schema


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    ("plain", "says"),
    [
        ({**PLAIN, "city": 3}, r"- city: expected (a valid )?string, got 3"),
        ({**PLAIN, "score": "3"}, r'- score: expected (a valid )?number, got "3"'),
        ({**PLAIN, "score": -1}, r"- score: .*0.*, got -1"),
        ({**PLAIN, "season": "hot"}, r'- season: expected .*warm.*, got "hot"'),
        ({**PLAIN, "tags": ["a", None]}, r"- tags\[1\]: expected (a valid )?string, got null"),
        ({"city": "Oslo", "season": "cold"}, r"- score: missing; expected number: From 0 up\."),
        (
            {**PLAIN, "cities": 1},
            r'- cities: there is no field of this name; did you mean "city"\?|known: city',
        ),
        ({**PLAIN, "spot": {"name": "quay", "days": 1.5}}, r"- spot"),
        ([PLAIN], r"- the answer: expected .*object"),
        ("text", r"- the answer: expected .*object"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_what_would_be_right(
    kind: Any, plain: object, says: str
) -> None:
    message = unfit(kind, json.dumps(plain))
    assert re.search(says, message), message
    assert message.startswith("Your answer does not fit its schema:\n")
    assert message.endswith(
        'Correct it, and answer again with the whole JSON object {"city": …, "score": …, "season": …, "tags": …, "spot": …}, and no other text.'
    )


def test_a_field_that_a_type_does_not_have_is_told_also_where_all_others_fit() -> None:
    for kind in (Spot, SpotModel, SpotStruct):
        assert 'did you mean "days"?' in unfit(kind, '{"name": "quay", "dayz": 2}')


def test_a_type_may_say_that_it_ignores_other_fields_or_keeps_them() -> None:
    class Ignores(BaseModel):
        model_config = ConfigDict(extra="ignore")
        a: int

    class Keeps(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    for kind, left in ((Ignores, {"a": 1}), (Keeps, {"a": 1, "b": 2})):
        assert asked(kind).read('{"a": 1, "b": 2}').model_dump() == left
        assert asked(kind).schema["additionalProperties"] is True


# ---------------------------------------------------------------- values that are no objects


@pytest.mark.parametrize(
    ("kind", "plain", "value"),
    [
        (int, 3, 3),
        (bool, True, True),
        (float, 2, 2.0),
        (list[str], ["a", "b"], ["a", "b"]),
        (list[Spot], [{"name": "quay", "days": 2}], [Spot("quay", 2)]),
        (list[SpotStruct], [{"name": "quay", "days": 2}], [SpotStruct("quay", 2)]),
        (Season, "warm", Season.WARM),
        (Literal["yes", "no"], "no", "no"),
        pytest.param(int | None, None, None, id="int or None"),
        pytest.param(Spot | SpotModel | None, None, None, id="an object or None"),
        (Cat | Dog, {"type": "dog", "tricks": ["roll"]}, Dog(["roll"])),
        (Spot | list[int], {"name": "quay", "days": 2}, Spot("quay", 2)),
        (Spot | list[int], [1, 2], [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
        ({"enum": [1, "a"]}, "a", "a"),
    ],
)
def test_a_value_that_is_no_object_is_asked_for_as_a_result_and_read_with_and_without_it(
    kind: Any, plain: object, value: object
) -> None:
    answer = asked(kind)
    assert answer.schema["type"] == "object"
    assert answer.schema["required"] == ["result"]
    assert answer.read(json.dumps({"result": plain})) == value
    assert answer.read(f'\n{{ "result"\t: {json.dumps(plain, indent=1)}\n}}') == value
    assert answer.read(json.dumps(plain)) == value
    assert answer.read(f"Here you are: {json.dumps({'result': plain})}") == value
    assert json.loads(answer.encoded(value)) == plain
    assert answer.again(plain) == value
    assert answer.partial(json.dumps({"result": plain})) == plain


def test_an_answer_is_never_taken_for_a_value_because_of_its_wrapping() -> None:
    assert "- result: " in unfit({"minimum": 3}, '{"result": 1}')
    assert "- result" in unfit(Found | list[int], '{"result": "x"}')
    assert asked(Found | list[int]).read('{"result": {"result": "x"}}') == Found("x")


def test_what_is_wrong_in_a_result_is_told_with_its_place() -> None:
    assert '- result[1]: expected a valid integer, got "a"\n' in unfit(
        list[int], '{"result": [1, "a"]}'
    )
    assert "- more: there is no field of this name" in unfit(
        list[int], '{"result": [1], "more": 2}'
    )
    assert "- the answer: expected" in unfit(list[int], '{"other": [1]}')
    assert '"3"' in unfit(int, '{"result": "3"}')


def test_an_object_at_the_root_is_not_wrapped() -> None:
    assert asked(dict[str, int]).read('{"a": 1}') == {"a": 1}
    assert asked(Found).read('{"result": "x"}') == Found("x")
    assert asked(Page[Spot]).read('{"items": [{"name": "quay"}]}') == Page([Spot("quay")])
    assert asked(WithStruct).read('{"spot": {"name": "quay"}, "size": 3}') == WithStruct(
        SpotStruct("quay"), 3
    )


@pytest.mark.parametrize("kind", [Tree, TreeStruct])
def test_the_definition_that_a_root_refers_to_stands_in_its_place(kind: Any) -> None:
    schema: Any = asked(kind).schema
    assert schema["type"] == "object"
    assert schema["properties"]["below"]["items"]["$ref"] in ("#/$defs/Tree", "#/$defs/TreeStruct")
    assert asked(kind).read('{"value": 1, "below": [{"value": 2}]}').below[0].value == 2
    assert "- below[0].value: expected" in unfit(kind, '{"value": 1, "below": [{"value": "x"}]}')


def test_a_root_that_says_more_than_its_reference_keeps_both() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "required": ["b"],
        "$defs": {"a": {"type": "object", "required": ["a"]}},
    }
    told: Any = asked(schema).schema
    assert told["properties"]["result"] == {"$ref": "#/$defs/a", "required": ["b"]}
    assert asked(schema).read('{"result": {"a": 1, "b": 2}}') == {"a": 1, "b": 2}
    assert "- result.a: missing" in unfit(schema, '{"result": {"b": 2}}')


def test_references_of_a_wrapped_schema_lead_where_they_led() -> None:
    import jsonschema_rs

    schema = {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/n"}, {"$ref": "#/prefixItems/0"}]},
        "prefixItems": [{"const": 7}],
    }
    answer = asked({**schema, "$defs": {"n": {"type": "integer"}}})
    told = jsonschema_rs.validator_for(answer.schema, offline=True)
    for plain, fits in (
        ([7, 1, [7, [7]]], True),
        ([7, "a"], False),
        ([7, [8]], False),
        ([6], False),
    ):
        assert told.is_valid({"result": plain}) is fits
        if fits:
            assert answer.read(json.dumps(plain)) == plain
        else:
            unfit({**schema, "$defs": {"n": {"type": "integer"}}}, json.dumps(plain))


# ---------------------------------------------------------------- what models put around it


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "\ufeff{}",
        " \n\ufeff {}\r\n",
        "```json\n{}\n```",
        "```\n{}\n```",
        "```JSON\r\n{}\r\n```\r\n",
        "Here is the place:\n\n```json\n{}\n```\n\nAsk me for {{more}}!",
        "Here is the place: {}",
        "{}\n\nThat is all.",
        "Of {{places}} I know [one]: {} It is nice.",
        "```json\n{}",
    ],
)
def test_what_is_around_one_object_is_looked_past(kind: Any, around: str) -> None:
    text = (
        around.replace("{{", "⟨")
        .replace("}}", "⟩")
        .replace("{}", TEXT)
        .replace("⟨", "{")
        .replace("⟩", "}")
    )
    answer = asked(kind)
    assert answer.read(text) == answer.read(TEXT)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        (" \ufeff ", "it is empty"),
        ("I do not know.", "Expecting value at line 1"),
        (TEXT[:-1], "it seems to be cut off"),
        (TEXT[:-20], "line 1"),
        (TEXT + TEXT, "there is more than one JSON object in it"),
        (f"Either {TEXT} or {TEXT}", "there is more than one JSON object in it"),
        (f"```json\n{TEXT}\n```\n```json\n{TEXT}\n```", "there are 2 code fences with JSON in it"),
        (f"[1, {TEXT}", "line 1"),
        (f"[{TEXT}", "line 1"),
        (f"Both: [{TEXT}]", "line 1"),
        (f"Both: [{TEXT}", "line 1"),
        (f'{{"a": {TEXT}, "b": ', "line 1"),
        ("{'city': 'Oslo'}", "Expecting property name"),
        ('{"city": "Oslo",}', "line 1"),
    ],
)
def test_what_is_no_telling_one_object_is_refused(text: str, says: str) -> None:
    message = unfit(PlaceData, text)
    assert message.startswith("Your answer is not valid JSON: ")
    assert says in message
    assert '"city"' in message


def test_a_piece_of_an_answer_that_was_cut_off_is_no_answer() -> None:
    whole = '{"value": 1, "below": [{"value": 2, "below": []}]}'
    for kind in (Tree, TreeStruct):
        for end in range(len(whole)):
            unfit(kind, whole[:end])
            unfit(kind, "Well: " + whole[:end])


# ---------------------------------------------------------------- hard JSON

ANY_NUMBER = {"type": "object", "properties": {"n": {}}}


@dataclass
class Number:
    n: Any


@dataclass
class Real:
    n: float


class RealStruct(msgspec.Struct):
    n: float


class Whole(BaseModel):
    n: int


class WholeStruct(msgspec.Struct):
    n: int


@pytest.mark.parametrize(
    "kind", [ANY_NUMBER, Number, Real, RealStruct, Whole, WholeStruct, dict[str, float], list[Real]]
)
@pytest.mark.parametrize(
    "number",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1E+400",
        "9" * 400 + ".0",
        '"\\ud800"',
        '"\\udc00\\ud800"',
        "[" * 10_000,
        "[" * 10_000 + "]" * 10_000,
        '"\ud800"',
    ],
)
def test_what_no_value_can_be_is_refused_by_every_family(kind: Any, number: str) -> None:
    assert unfit(kind, f'{{"n": {number}}}').startswith("Your answer is not valid JSON: ")


@pytest.mark.parametrize("kind", [ANY_NUMBER, Number, dict[str, Any], TreeStruct])
def test_more_than_two_hundred_levels_are_not_read(kind: Any) -> None:
    text = (
        '{"value": 1, "below": [' * 150 + "]}" * 150
        if kind is TreeStruct
        else '{"n": ' + "[" * 300 + "]" * 300 + "}"
    )
    assert "it is nested deeper than 200 levels" in unfit(kind, text)


@pytest.mark.parametrize("kind", [ANY_NUMBER, Number, Whole, WholeStruct])
def test_an_integer_of_thirty_digits_is_that_integer(kind: Any) -> None:
    answer = asked(kind)
    value = answer.read('{"n": 123456789012345678901234567890}')
    assert (value["n"] if isinstance(value, dict) else value.n) == 123456789012345678901234567890
    assert answer.again(json.loads(answer.encoded(value))) == value


@pytest.mark.parametrize("kind", [ANY_NUMBER, Number, Whole, WholeStruct])
def test_of_a_repeated_name_the_last_value_counts(kind: Any) -> None:
    value = asked(kind).read('{"n": 1, "n": 2}')
    assert (value["n"] if isinstance(value, dict) else value.n) == 2


@pytest.mark.parametrize("kind", [ANY_NUMBER, Whole, WholeStruct])
def test_an_integer_of_ten_thousand_digits_is_refused(kind: Any) -> None:
    unfit(kind, f'{{"n": {"9" * 10_000}}}')


@pytest.mark.parametrize("kind", [{"type": "object"}, dict[str, str]])
def test_words_that_look_odd_are_words(kind: Any) -> None:
    plain = {"a": "NaN and 1e400, Infinity", "b": "\\ud800", "c": "\U0001f9f5", "\u2028": "x\u0000"}
    assert asked(kind).read(json.dumps(plain)) == plain


# ---------------------------------------------------------------- types with code of their own


class Fussy(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def check(cls, a: int) -> int:
        if a == 1:
            raise ValueError("one is too few")
        return a if a < 9 else {}["nine"]


@dataclass
class FussyData:
    a: int

    def __post_init__(self) -> None:
        if self.a == 1:
            raise ValueError("one is too few")
        if self.a > 8:
            raise ZeroDivisionError("nine")


class FussyStruct(msgspec.Struct):
    a: int

    def __post_init__(self) -> None:
        FussyData(self.a)


@pytest.mark.parametrize("kind", [Fussy, FussyData, FussyStruct])
def test_what_the_code_of_a_type_says_no_to_is_unfit(kind: Any) -> None:
    assert "one is too few" in unfit(kind, '{"a": 1}')
    assert "nine" in unfit(kind, '{"a": 9}')
    assert asked(kind).read('{"a": 2}').a == 2


def test_a_message_is_bounded_whatever_is_wrong() -> None:
    for kind in (
        dict[str, int],
        Page[Spot],
        {"type": "object", "additionalProperties": {"type": "integer"}},
    ):
        long = json.dumps({("é" * 500 + str(i)): "x" * 5000 for i in range(200)})
        message = unfit(kind, long)
        assert "more" in message or len(message) < 1500


def test_ten_problems_are_told_and_the_others_are_counted() -> None:
    message = unfit(list[int], json.dumps({"result": ["a"] * 25}))
    assert message.count("\n- result[") == 10
    assert "\n- and 15 more\n" in message


# ---------------------------------------------------------------- from plain data


@pytest.mark.parametrize("kind", [k for k in PLACES if k is not PLACE_SCHEMA])
def test_plain_data_that_does_not_fit_any_more_is_left_as_it_is(kind: Any) -> None:
    old = {"city": "Oslo", "height": 3}
    assert asked(kind).again(old) is old


def test_plain_data_is_read_leniently() -> None:
    assert asked(Spot).again({"name": "quay", "days": "3", "gone": True}) == Spot("quay", 3)


def test_a_value_that_json_has_no_word_for_is_told_all_the_same() -> None:
    @dataclass
    class Holds:
        it: Any = field(default_factory=object)

    told = asked(Holds).encoded(Holds())
    assert "object" in json.loads(told)["it"]


def test_a_shape_is_made_once_also_where_many_threads_ask() -> None:
    answer = asked(PlaceModel)
    schemas: list[object] = []
    threads = [threading.Thread(target=lambda: schemas.append(answer.schema)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(schema) for schema in schemas}) == 1
