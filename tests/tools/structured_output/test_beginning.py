"""The beginning of an answer as it is written: what more text brings only adds to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_value, nasty_text
from tests.tools.structured_output.places import PLACES, Spot
from treadle.tools.structured_output import answer_type
from treadle.tools.structured_output.beginning import beginning


def leads_to(before: object, after: object) -> bool:
    """Whether one value is the beginning of the other."""
    match before, after:
        case None, _:
            return True
        case str(), str():
            return after.startswith(before)
        case list(), list():
            return (
                len(before) <= len(after)
                and all(a == b for a, b in zip(before[:-1], after, strict=False))
                and all(map(leads_to, before, after))
            )
        case dict(), dict():
            names = list(before)
            return (
                names == list(after)[: len(names)]
                and all(before[n] == after[n] for n in names[:-1])
                and all(leads_to(before[n], after[n]) for n in names)
            )
        case _:
            return before == after and type(before) is type(after)


nested = json_value.filter(lambda value: isinstance(value, (list, dict)))


@given(nested, st.booleans(), st.sampled_from([None, 1]))
def test_each_beginning_of_a_text_tells_the_beginning_of_what_the_next_one_tells(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    told: object = None
    for end in range(len(text) + 1):
        now = beginning(text[:end])
        assert leads_to(told, now), (text[:end], told, now)
        told = now
    assert told is not None


@given(nasty_text)
def test_nothing_is_raised_whatever_the_text_is(text: str) -> None:
    for kind in PLACES:
        answer = answer_type(kind)
        assert answer is not None
        answer.partial(text)
        answer.partial('{"city": ' + text)
        answer.so_far('{"city": ' + text)
    for kind in (int, list[Spot]):
        answer = answer_type(kind)
        assert answer is not None
        answer.partial(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("Here", None),
        ("{", {}),
        ('{"ci', {}),
        ('{"city": ', {}),
        ('{"city": "Os', {"city": "Os"}),
        ('{"city": "Os\\u00', {"city": "Os"}),
        ('{"city": "\\ud83e\\udd', {"city": ""}),
        ('{"city": "Room 10', {"city": "Room 10"}),
        ('{"city": "a\\"10', {"city": 'a"10'}),
        ('{"n": 1', {}),
        ('{"n": 1.', {}),
        ('{"n": -', {}),
        ('{"n": 12,', {"n": 12}),
        ('{"n": 12}', {"n": 12}),
        ('{"n": tru', {}),
        ("[1, 2", [1]),
        ("```json\n{", {}),
        ('\ufeff```\n{"a": "b', {"a": "b"}),
        ('```json\n{"a": "b"}\n```', {"a": "b"}),
        ('Sure: {"a": "b', {"a": "b"}),
        ('Sure: {"a": "b"} and more', {"a": "b"}),
        ("1", None),
        ('{"a": "\\ud800x', {"a": "\ufffdx"}),
        ("[" * 10_000, None),
    ],
)
def test_what_is_told_of_a_text(text: str, value: object) -> None:
    assert beginning(text) == value


def test_a_wrapped_value_is_told_without_its_wrapping() -> None:
    answer = answer_type(list[Spot])
    assert answer is not None
    assert [
        answer.partial(text)
        for text in ("{", '{"res', '{"result": [', '{"result": [{"name": "q', '[{"name": "q')
    ] == [
        None,
        None,
        [],
        [{"name": "q"}],
        [{"name": "q"}],
    ]


@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: getattr(kind, "__name__", "schema"))
def test_the_value_so_far_is_one_of_the_type_and_grows_to_the_whole(kind: Any) -> None:
    answer = answer_type(kind)
    assert answer is not None
    plain = {
        "city": "Oslo",
        "score": 1.5,
        "season": "warm",
        "tags": ["cold", "wet"],
        "spot": {"name": "quay", "days": 3},
    }
    text = json.dumps(plain)
    seen = [answer.so_far(text[:end]) for end in range(len(text) + 1)]
    whole = answer.read(text)
    assert seen[-1] == whole
    first = text.index('"warm"') + len('"warm"') - 1
    assert seen[:first] == [None] * first, "the season is required, and half a word is none"
    assert all(type(value) is type(whole) for value in seen[first + 1 :])
    told = [json.loads(answer.encoded(value)) for value in seen[first + 1 :]]
    assert {tuple(one.get("tags") or ()) for one in told} == {
        (),
        *[("cold"[:n],) for n in range(5)],
        *[("cold", "wet"[:n]) for n in range(4)],
    }
    assert next(one["spot"]["name"] for one in told if one.get("spot")) == ""


def test_an_element_that_is_not_complete_enough_is_left_out() -> None:
    answer = answer_type(list[Spot])
    assert answer is not None
    text = '{"result": [{"name": "quay"}, {"days": 3, "name": "m'
    assert answer.so_far(text) == [Spot("quay"), Spot("m", 3)]
    assert answer.so_far(text[: text.index(', "name": "m')]) == [Spot("quay")]
    assert answer.so_far('{"result": [') == []
    assert answer.so_far('{"resu') is None
    assert answer.so_far("Well, ") is None
    count = answer_type(int)
    assert count is not None
    assert count.so_far('{"result": 12') is None
    assert count.so_far('{"result": 12}') == 12


def test_the_errors_of_a_type_make_no_value_so_far() -> None:
    @dataclass
    class Odd:
        name: str

        def __post_init__(self) -> None:
            raise RuntimeError(self.name)

    answer = answer_type(Odd | list[Odd])
    assert answer is not None
    assert answer.so_far('{"result": {"name": "a"}}') is None
    assert answer.so_far('{"result": [{"name": "a"') == []
