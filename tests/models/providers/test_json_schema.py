"""Schemas as OpenAI takes them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.providers.json_schema import parameters, strict

TEXT = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def test_a_schema_that_is_strict_already_stays_as_it_is() -> None:
    schema = closed(
        a=TEXT,
        b={"type": ["integer", "null"]},
        c={"type": "array", "items": closed(d={"enum": ["x", "y"]})},
        e={"anyOf": [TEXT, {"type": "null"}]},
    )
    assert strict(schema) == schema


def test_objects_are_closed_and_all_of_them_is_required() -> None:
    schema = {
        "type": "object",
        "properties": {"a": TEXT, "b": {"type": "object", "properties": {"c": TEXT}}},
        "required": ["a"],
    }
    assert strict(schema) == closed(a=TEXT, b=closed(c=TEXT))


def test_what_no_answer_depends_on_is_left_out() -> None:
    schema = {
        "$schema": "x",
        "type": "object",
        "properties": {"a": {**TEXT, "default": "x", "examples": ["y"]}},
    }
    assert strict(schema) == closed(a=TEXT)


def test_definitions_are_made_strict_too() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    }
    fitted = strict(
        {
            "type": "object",
            "properties": {"first": {"$ref": "#/$defs/Node"}},
            "$defs": {"Node": node},
        }
    )
    assert fitted is not None
    assert fitted["$defs"]["Node"] == closed(next=node["properties"]["next"])


@pytest.mark.parametrize(
    "schema",
    [
        {},
        TEXT,
        {"type": "array", "items": TEXT},
        {"type": "object"} | {"additionalProperties": TEXT},
        {"type": "object", "additionalProperties": True},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "patternProperties": {"x": TEXT}},
        {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": TEXT}}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"allOf": [TEXT, TEXT]}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": TEXT}},
        {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}},
        {"type": "object", "properties": {"a": TEXT}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"type": "of_2027"}}},
        {"type": "object", "properties": "nonsense"},
    ],
)
def test_what_the_strict_subset_cannot_say_is_not_made_strict(schema: dict[str, Any]) -> None:
    assert strict(schema) is None


def test_what_the_strict_subset_lacks_is_translated_or_described() -> None:
    cat, dog = closed(kind={"const": "cat"}), closed(kind={"const": "dog"})
    pair = {
        "type": "array",
        "prefixItems": [{**TEXT, "title": "x"}, {"type": "integer"}],
        "minItems": 2,
        "maxItems": 2,
    }
    schema = closed(
        animal={"oneOf": [cat, dog]},
        name={"type": "string", "minLength": 1, "maxLength": 9, "description": "Name."},
        plain={"type": "string", "pattern": "^(?:a|\\(\\?b)$"},
        look={"type": "string", "pattern": "^(?!a)b$"},
        link={"type": "string", "format": "uri"},
        pair=pair,
        alike={"type": "array", "prefixItems": [TEXT, TEXT], "minItems": 2, "maxItems": 2},
        node={"$ref": "#/$defs/Node", "description": "A node."},
    ) | {"$defs": {"Node": closed(a=TEXT)}}
    fitted = strict(schema, exact=True)
    assert fitted is not None
    assert fitted["properties"] == {
        "animal": {"anyOf": [cat, dog]},
        "name": {**TEXT, "description": "Name. (minLength: 1, maxLength: 9)"},
        "plain": {**TEXT, "pattern": "^(?:a|\\(\\?b)$"},
        "look": {**TEXT, "description": '(pattern: "^(?!a)b$")'},
        "link": {**TEXT, "description": '(format: "uri")'},
        "pair": {
            "type": "array",
            "items": {"anyOf": [TEXT, {"type": "integer"}]},
            "minItems": 2,
            "maxItems": 2,
            "description": '(prefixItems: [{"type":"string","title":"x"},{"type":"integer"}])',
        },
        "alike": {"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2},
        "node": {"anyOf": [{"$ref": "#/$defs/Node"}], "description": "A node."},
    }
    assert strict(fitted) == fitted


@pytest.mark.parametrize(
    "change",
    [
        {"required": []},
        {"additionalProperties": True},
        {"properties": {"a": {**TEXT, "default": "x"}}},
    ],
)
def test_parameters_that_strictness_would_change_are_not_exact(change: dict[str, Any]) -> None:
    assert strict(closed(a=TEXT) | change) is not None
    assert strict(closed(a=TEXT) | change, exact=True) is None


def test_what_is_too_deep_is_not_made_strict() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(30):
        schema = closed(a=schema)
    assert strict(schema) is None


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            TEXT,
            {"type": "integer"},
            {"enum": ["x", 1]},
            {"type": ["string", "null"]},
            {"type": "string", "default": "x"},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(
            lambda properties, required: {
                "type": "object",
                "properties": properties,
                "required": [n for n in properties if n in required],
            },
            st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
            st.sets(st.sampled_from(["a", "b", "c"])),
        ),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.sampled_from(["x", 1, None, "y"]),
    lambda v: (
        st.lists(v, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), v, max_size=3)
    ),
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), SCHEMAS, max_size=3), VALUES)
def test_whatever_fits_the_strict_schema_fits_the_one_that_was_given(
    properties: dict[str, Any], value: Any
) -> None:
    schema = {"type": "object", "properties": properties}
    before = json.dumps(schema)
    fitted = strict(schema)
    assert json.dumps(schema) == before
    if fitted is not None:
        assert strict(fitted) == fitted
        if jsonschema_rs.is_valid(fitted, value):
            assert jsonschema_rs.is_valid(schema, value)


def test_parameters_are_an_object_with_properties_and_lists_of_something() -> None:
    assert parameters({}) == {"type": "object", "properties": {}}
    assert parameters({"type": "object"}) == {"type": "object", "properties": {}}
    pair = {"type": "array", "prefixItems": [TEXT, {"type": "array"}], "maxItems": 2}
    with_items = {
        "prefixItems": [TEXT, {"type": "array", "items": {}}],
        "items": {"anyOf": [TEXT, {"type": "array", "items": {}}]},
    }
    assert parameters({"type": "object", "properties": {"a": pair}})["properties"] == {
        "a": {**pair, **with_items}
    }
    lists = {
        "type": "object",
        "properties": {
            "a": {"type": "array"},
            "b": {"anyOf": [{"type": ["array", "null"]}]},
            "c": {"type": "array", "items": TEXT},
        },
    }
    assert parameters(lists)["properties"] == {
        "a": {"type": "array", "items": {}},
        "b": {"anyOf": [{"type": ["array", "null"], "items": {}}]},
        "c": {"type": "array", "items": TEXT},
    }
    assert lists["properties"]["a"] == {"type": "array"}


def test_a_parameter_may_be_called_like_a_word_of_schemas() -> None:
    named = {
        name: {"type": "array"}
        for name in ("default", "examples", "enum", "type", "properties", "items")
    }
    assert parameters({"type": "object", "properties": named})["properties"] == {
        name: {"type": "array", "items": {}} for name in named
    }
    assert parameters({"type": "object", "properties": {"a": {"default": {"type": "array"}}}})[
        "properties"
    ] == {"a": {"default": {"type": "array"}}}


def test_parameters_that_are_taken_as_they_are_are_the_same_object() -> None:
    schema = closed(
        a=TEXT,
        b={"type": "array", "prefixItems": [TEXT], "items": TEXT},
        c={"enum": [{"type": "array"}]},
        type={"type": "string"},
    )
    assert parameters(schema) is schema


def test_nothing_is_too_deep_to_be_sent() -> None:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(2_000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert parameters(schema) is schema
    assert strict(schema) is None
