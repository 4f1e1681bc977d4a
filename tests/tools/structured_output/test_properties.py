"""What was read, written and read again is the same, whatever the values are."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import json_value, nasty_text
from tests.tools.structured_output.places import PLACE_SCHEMA, PLACES, Season, Tree, TreeStruct
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.contract import AnswerType, Unfit

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
spot = st.fixed_dictionaries({"name": text, "days": st.integers(-(2**63), 2**63 - 1)})
place = st.fixed_dictionaries(
    {
        "city": text,
        "score": st.floats(0, allow_nan=False, allow_infinity=False),
        "season": st.sampled_from([one.value for one in Season]),
        "tags": st.lists(text, max_size=3),
        "spot": st.none() | spot,
    }
)
trees = st.recursive(
    st.fixed_dictionaries({"value": st.integers(), "below": st.just(cast("list[Any]", []))}),
    lambda below: st.fixed_dictionaries(
        {"value": st.integers(), "below": st.lists(below, max_size=3)}
    ),
    max_leaves=8,
)
ANSWERS: dict[Any, tuple[AnswerType[Any] | None, st.SearchStrategy[Any]]] = {
    **{getattr(kind, "__name__", "schema"): (answer_type(kind), place) for kind in PLACES},
    "tree": (answer_type(Tree), trees),
    "tree of structs": (answer_type(TreeStruct), trees),
    "list": (
        answer_type(list[dict[str, int]]),
        st.lists(st.dictionaries(text, st.integers(), max_size=3), max_size=3),
    ),
    "enum": (answer_type(Season), st.sampled_from(["warm", "cold"])),
    "union": (
        answer_type(cast("Any", int | list[float] | None)),
        st.none() | st.integers() | st.lists(st.floats(allow_nan=False, allow_infinity=False)),
    ),
    "anything": (
        answer_type({"description": "Anything."}),
        json_value.filter(lambda value: _is_sound(value) and value != {"result": value}),
    ),
}


def _is_sound(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


@pytest.mark.parametrize("name", ANSWERS)
@given(st.data())
@settings(max_examples=60)
def test_a_value_survives_being_written_and_read(name: str, data: st.DataObject) -> None:
    answer, plain_values = ANSWERS[name]
    assert answer is not None
    plain = data.draw(plain_values)
    value = answer.read(
        json.dumps(
            {"result": plain} if answer.schema["required"] == ["result"] else plain,
            ensure_ascii=data.draw(st.booleans()),
        )
    )
    encoded = answer.encoded(value)
    assert json.loads(encoded) == plain
    assert answer.again(json.loads(encoded)) == value
    assert answer.read(encoded) == value or isinstance(plain, dict)


@pytest.mark.parametrize("name", ANSWERS)
@given(
    st.one_of(
        nasty_text,
        json_value.map(json.dumps),
        st.builds(lambda a, b: f"{a}{json.dumps(b)}{a}", nasty_text, json_value),
    )
)
@settings(max_examples=60)
def test_reading_gives_a_value_or_words_for_the_model_whatever_the_text_is(
    name: str, text: str
) -> None:
    answer = ANSWERS[name][0]
    assert answer is not None
    if _fits(answer, text):
        encoded = answer.encoded(answer.read(text))
        assert answer.encoded(answer.again(json.loads(encoded))) == encoded


@given(place, st.sampled_from(sorted(PLACE_SCHEMA["properties"])), json_value)
def test_all_families_agree_on_what_fits(plain: dict[str, Any], name: str, other: Any) -> None:
    changed = json.dumps({**plain, name: other})
    fits = {
        getattr(kind, "__name__", "schema"): _fits(
            ANSWERS[getattr(kind, "__name__", "schema")][0], changed
        )
        for kind in PLACES
    }
    assert len(set(fits.values())) == 1, (changed, fits)


def _fits(answer: AnswerType[Any] | None, text: str) -> bool:
    assert answer is not None
    try:
        answer.read(text)
    except Unfit as e:
        return len(e.message) > 1500
    return True
