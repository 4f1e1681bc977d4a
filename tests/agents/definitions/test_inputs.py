"""Values of inputs: those that were typed, and those that stand in a file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle import AgentError, Input
from treadle.agents.definitions.inputs import InputType, misfit, missing, typed
from treadle.agents.definitions.keys import INPUT_TYPES


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "5", "5"),
        ("string", " a=b ", " a=b "),
        ("integer", "5", 5),
        ("integer", "-5", -5),
        ("number", "1.5", 1.5),
        ("number", "2", 2),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("array", '["a", 1]', ["a", 1]),
        ("object", '{"a": {"b": null}}', {"a": {"b": None}}),
    ],
)
def test_what_was_typed_becomes_a_value_of_the_declared_type(
    kind: InputType, text: str, value: object
) -> None:
    read = typed("x", text, Input(type=kind))
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("integer", "1.5", "must be an integer, not '1.5'"),
        ("integer", "five", "must be an integer, not 'five'"),
        ("integer", "true", "must be an integer, not 'true'"),
        ("number", "NaN", "must be a number, not 'NaN'"),
        ("number", "1e400", "must be a number, not '1e400'"),
        ("boolean", "1", "must be true or false, not '1'"),
        ("array", "a,b", "must be a JSON array"),
        ("array", "[NaN]", "must be a JSON array"),
        ("array", '{"a": 1}', "must be a JSON array"),
        ("object", "[" * 100_000, "must be a JSON object"),
    ],
)
def test_what_is_of_another_type_is_refused(kind: InputType, text: str, said: str) -> None:
    with pytest.raises(AgentError, match="the input 'x'") as refused:
        typed("x", text, Input(type=kind))
    assert said in refused.value.message


def test_what_a_run_still_needs_is_named() -> None:
    declared = {
        "who": Input(),
        "days": Input(type="integer"),
        "far": Input(required=False),
        "near": Input(default="x"),
    }
    assert missing(declared, "${who}", {"who": "Ada"}) == ["days"]
    assert missing(declared, "${who}", {"who": "Ada", "days": 1}) == []
    assert missing({}, "${b} $${c} ${a} ${b}", {"a": "x"}) == ["b"]


def test_an_input_that_nobody_declared_is_a_text() -> None:
    assert typed("x", "5", None) == "5"


@given(kind=st.sampled_from(INPUT_TYPES), text=st.text(max_size=30))
def test_whatever_is_typed_is_of_its_type_or_refused(kind: Any, text: str) -> None:
    try:
        value = typed("x", text, Input(type=kind))
    except AgentError:
        return
    assert misfit(kind, value) == ""


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=5,
    )
)
def test_json_of_the_type_is_taken_as_it_stands(value: Any) -> None:
    for kind in INPUT_TYPES:
        if kind != "string" and misfit(kind, value) == "":
            assert typed("x", json.dumps(value), Input(type=kind)) == value
