"""The published schema of the format and the reader agree on what is right."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.definitions.format import definition_schema
from treadle.agents.definitions.key_reader import LIMITS
from treadle.agents.definitions.keys import INPUT_KEYS, INPUT_TYPES, KEYS, read_keys
from treadle.agents.definitions.places import DefinitionFile
from treadle.agents.definitions.text import document_of
from treadle.types import Limits

SCHEMA = definition_schema()
EDITOR = jsonschema_rs.Draft202012Validator(SCHEMA)


def test_it_is_a_schema_of_the_same_keys() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    properties = SCHEMA["properties"]
    assert set(properties) == set(KEYS)
    assert set(properties["limits"]["properties"]) == set(LIMITS) == set(Limits.__struct_fields__)
    assert set(properties["inputs"]["additionalProperties"]["properties"]) == set(INPUT_KEYS)
    assert properties["inputs"]["additionalProperties"]["properties"]["type"]["enum"] == list(
        INPUT_TYPES
    )


def names() -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(["read", "grep", "", " "]) | st.integers(0, 1), max_size=3)


def numbers() -> st.SearchStrategy[Any]:
    return st.none() | st.integers(-1, 3) | st.sampled_from([0.5, 1.5, "many", True])


def an_input() -> st.SearchStrategy[Any]:
    return (
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["string", "strin", 5]),
                "required": st.booleans() | st.just("x"),
                "extra": st.just(1),
            },
        )
        | st.none()
    )


DEFINITIONS = st.fixed_dictionaries(
    {},
    optional={
        "description": st.sampled_from(["A guide", "", " ", 5, None]),
        "model": st.sampled_from(["small", "anthropic:x", "", 5, None, "opus", ":x", "anthropic:"]),
        "tools": names() | st.none() | st.just("read"),
        "limits": st.none()
        | st.just(5)
        | st.dictionaries(st.sampled_from([*LIMITS, "turn"]), numbers(), max_size=3),
        "inputs": st.none()
        | st.just([])
        | st.dictionaries(st.sampled_from(["who", "wh-o", "1"]), an_input(), max_size=2),
        "output": st.sampled_from([None, {}, {"type": "object"}, {"type": "string"}, "text", []]),
        "instructions": st.sampled_from(["Hello.", "", 5, None]),
        "modle": st.just("x"),
    },
)


@pytest.mark.parametrize(
    "given_",
    [
        {"description": "x"},
        {"description": "x", "limits": {"turns": 3}, "inputs": {"who": {"type": "string"}}},
    ],
)
def test_what_is_right_is_right_for_both(given_: dict[str, Any]) -> None:
    assert EDITOR.is_valid(given_)
    assert right(given_)


@given(DEFINITIONS)
def test_an_editor_and_the_reader_say_the_same(said: dict[str, Any]) -> None:
    assert EDITOR.is_valid(said) == right(said), said


def right(said: dict[str, Any]) -> bool:
    """As the reader finds it key by key, and with a model's name that can be one: a schema cannot
    tell which inputs the instructions use.
    """
    file = DefinitionFile("guide", __import__("pathlib").Path("guide.yaml"))
    definition, problems = read_keys(file, document_of(json.dumps(said), markdown=False))
    model = definition.model.text if definition.model is not None else "small"
    return all("is unused" in problem.text for problem in problems) and (
        model in ("large", "small") or all(model.partition(":"))
    )
