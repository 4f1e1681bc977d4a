"""Schemas of answers in the words that Claude's API takes."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.models.providers.anthropic.schemas import OPTIONAL_MAX, UNIONS_MAX, fitted

TEXT = {"type": "string"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_objects_are_closed_at_every_depth() -> None:
    """The API answers 400 to an object that is not."""
    inner = an_object(b=TEXT)
    assert fitted(
        {**an_object(a={"type": "array", "items": inner}), "additionalProperties": True}
    ) == {
        **an_object(a={"type": "array", "items": {**inner, "additionalProperties": False}}),
        "additionalProperties": False,
    }


def test_a_schema_that_fits_stays_the_same() -> None:
    """As it was recorded."""
    amount = {"anyOf": [{"type": "number"}, {"type": "string", "description": "{pattern: x}"}]}
    schema = {**an_object(amount=amount), "additionalProperties": False}
    assert fitted(schema) == schema


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 9},
            {"type": "integer", "description": "(minimum: 1, maximum: 9)"},
        ),
        (
            {"type": "string", "description": "A name.", "maxLength": 5},
            {"type": "string", "description": "A name. (maxLength: 5)"},
        ),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "string", "format": "iban"},
            {"type": "string", "description": '(format: "iban")'},
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 1},
            {"type": "array", "items": TEXT, "minItems": 1},
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 3},
            {"type": "array", "items": TEXT, "description": "(minItems: 3)"},
        ),
        (
            {"type": ["string", "null"], "default": None, "title": "T"},
            {"type": ["string", "null"], "title": "T"},
        ),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
        ({"const": "a"}, {"const": "a"}),
        ({"allOf": [TEXT], "description": "A name."}, {"type": "string", "description": "A name."}),
    ],
)
def test_bounds_become_words_and_what_says_nothing_goes(
    given: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert fitted(an_object(a=given)) == {**an_object(a=sent), "additionalProperties": False}


def test_references_stay_and_what_they_point_to_is_closed() -> None:
    given = {
        **an_object(
            a={"$ref": "#/$defs/Point", "description": "Here."}, b={"$ref": "#/$defs/Point"}
        ),
        "$defs": {"Point": an_object(x=TEXT)},
    }
    point = {**an_object(x=TEXT), "additionalProperties": False}
    assert fitted(given) == {
        **an_object(a={"$ref": "#/$defs/Point"}, b={"$ref": "#/$defs/Point"}),
        "additionalProperties": False,
        "$defs": {"Point": point},
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {"enum": [["a"]]},
        {"const": {"a": 1}},
        {"allOf": [TEXT, TEXT]},
        {"type": "string", "allOf": [TEXT, TEXT]},
        {"not": TEXT, "type": "string"},
        {"type": "array", "prefixItems": [TEXT]},
        {"$ref": "#"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "#/$defs/Node"},
        "no schema",
    ],
)
def test_what_cannot_be_said_is_told(given: Any) -> None:
    assert fitted({**an_object(a=given), "$defs": {"Node": NODE}}) is None


def test_more_than_the_api_takes_cannot_be_said() -> None:
    def optional(count: int) -> dict[str, Any]:
        return {"type": "object", "properties": {f"p{i}": TEXT for i in range(count)}}

    def unions(count: int) -> dict[str, Any]:
        return an_object(**{f"p{i}": {"type": ["string", "null"]} for i in range(count)})

    assert fitted(optional(OPTIONAL_MAX)) is not None
    assert fitted(optional(OPTIONAL_MAX + 1)) is None
    assert fitted(unions(UNIONS_MAX)) is not None
    assert fitted(unions(UNIONS_MAX + 1)) is None


def test_a_schema_of_any_depth_is_survived() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    assert fitted(an_object(a=schema)) is None


def test_the_schema_that_was_given_is_left_as_it_is() -> None:
    given = an_object(a={"type": "integer", "minimum": 1})
    fitted(given)
    assert given == an_object(a={"type": "integer", "minimum": 1})
