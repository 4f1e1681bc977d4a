"""Schemas with an object at their root, as providers require. A root that refers to a definition is
replaced by the definition; any other schema is wrapped in an object.

Provider modules make all other adaptations. Entry points: `rooted`, `RESULT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from treadle._internal.json_text import JsonText
from treadle.tools.schemas.tidy import walked

_Schema: TypeAlias = dict[str, Any]

RESULT: Final = "result"
"""Name of the only property of a wrapped answer."""
_LOCAL: Final = re.compile(r"#/(\$defs|definitions)(?:/([^/]*)|$)")
_WRAPPED: Final = re.compile(rf'\{{\s*"{RESULT}"\s*:')
_STAYS: Final = ("$defs", "definitions", "$schema")
"""Keywords that move to the root of the wrapper, so that references to definitions stay valid."""

_BESIDE: Final = frozenset({"$ref", "title", "description", "default", "examples", *_STAYS})
"""Keywords that add nothing to a reference at the root."""


def rooted(schema: _Schema) -> tuple[_Schema, bool]:
    """Return the schema for providers, and True if it wraps the value as `result`."""
    whole = _with_definition(schema)
    if whole.get("type") == "object" or ("type" not in whole and "properties" in whole):
        return whole, False
    return _wrapped(schema), True


def unwrapped(text: JsonText) -> JsonText:
    """Return the value in `{"result": …}`, as JSON if the text is JSON and has no other property;
    any other text unchanged.
    """
    begin = _WRAPPED.match(text)
    return text[begin.end() : -1].strip() if begin and text.endswith("}") else text


def _with_definition(schema: _Schema) -> _Schema:
    """Replace a root that is only a reference by its definition."""
    for _ in range(10):
        found = _LOCAL.fullmatch(str(schema.get("$ref")))
        definition = cast("object", schema.get(found[1], {}).get(found[2])) if found else None
        if (
            not isinstance(definition, Mapping)
            or "$id" in definition
            or not schema.keys() <= _BESIDE
        ):
            break
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**cast("Mapping[str, Any]", definition), **beside}
    return schema


def _wrapped(schema: _Schema) -> _Schema:
    own: _Schema = {
        "type": "object",
        "properties": {},
        "required": [RESULT],
        "additionalProperties": False,
    }
    # a nested resource: its references resolve within it
    if "$id" in schema or ("id" in schema and "/draft-04/" in str(schema.get("$schema"))):
        return {
            **own,
            "properties": {RESULT: schema},
            **({"$schema": schema["$schema"]} if "$schema" in schema else {}),
        }
    held = {name: value for name, value in schema.items() if name not in _STAYS}
    stays = {name: schema[name] for name in _STAYS if name in schema}
    return walked({**own, "properties": {RESULT: held}, **stays}, _moved)


def _moved(schema: _Schema) -> _Schema:
    reference = schema.get("$ref")
    if (
        not isinstance(reference, str)
        or not (reference == "#" or reference.startswith("#/"))
        or _LOCAL.match(reference)
    ):
        return schema
    return {**schema, "$ref": f"#/properties/{RESULT}{reference[1:]}"}
