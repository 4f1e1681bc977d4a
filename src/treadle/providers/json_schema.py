"""JSON Schemas as OpenAI takes them: whether one is within its strict subset, and the least change that makes another acceptable.

Which field of a body a schema goes into is each wire's own. Entry: `strict`, `parameters`.
Source: https://developers.openai.com/api/docs/guides/structured-outputs (2026-11), and the errors of the API for what it says nothing of.
"""

from __future__ import annotations

from typing import cast

from treadle.providers.schema_parts import Outside, Schema, list_in, may_be, object_in

_KEPT = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs", "definitions"),
        *("title", "description", "pattern", "format", "minItems", "maxItems"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_SAYS_NOTHING = frozenset({"$schema", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Left out: the strict subset does not know them, and no answer depends on them."""
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LITERAL = frozenset({"enum", "const", "default", "examples"})
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
DEPTH_MAX = 10
PROPERTIES_MAX = 5000
DEPTH_OF_SEARCH = 100
"""Deeper schemas are sent as they are."""


def strict(schema: Schema) -> Schema | None:
    """The schema in the strict subset: whatever fits it fits `schema` too. None where it cannot be said there.

    Objects are closed and all of their properties required, which asks for more than `schema` does and never for less.
    """
    if schema.get("type") != "object":
        return None
    count = [0]
    try:
        return _strict(schema, 1, count)
    except (Outside, RecursionError):
        return None


def _strict(schema: object, depth: int, count: list[int]) -> Schema:
    if not isinstance(schema, dict) or depth > DEPTH_MAX:
        raise Outside
    fields = {name: value for name, value in cast("Schema", schema).items() if name not in _SAYS_NOTHING}
    if not fields.keys() <= _KEPT or fields.get("format", "date") not in _FORMATS or not _known_types(fields.get("type")):
        raise Outside
    if "$ref" in fields and (not str(fields["$ref"]).startswith("#") or fields.keys() - {"$ref", "title", "description"}):
        raise Outside
    for name in ("$defs", "definitions"):
        if name in fields:
            fields[name] = {key: _strict(inner, 1, count) for key, inner in object_in(fields[name]).items()}
    if "anyOf" in fields:
        fields["anyOf"] = [_strict(inner, depth, count) for inner in list_in(fields["anyOf"])]
    if "items" in fields:
        fields["items"] = _strict(fields["items"], depth + 1, count)
    elif may_be(fields, "array"):
        raise Outside
    if may_be(fields, "object") or "properties" in fields:
        _close(fields, depth, count)
    elif not fields.keys() & {"type", "enum", "const", "anyOf", "$ref"}:
        raise Outside
    return fields


def _close(fields: Schema, depth: int, count: list[int]) -> None:
    more, properties = fields.get("additionalProperties"), object_in(fields.get("properties", {}))
    count[0] += len(properties)
    if count[0] > PROPERTIES_MAX or more not in (None, True, False) or not (properties or more is False or (more is None and "properties" in fields)):
        raise Outside  # names of the model's own choosing
    if not set(list_in(fields.get("required", []))) <= properties.keys():
        raise Outside
    fields["properties"] = {name: _strict(inner, depth + 1, count) for name, inner in properties.items()}
    fields["required"] = list(properties)
    fields["additionalProperties"] = False


def parameters(schema: Schema) -> Schema:
    """Parameters of a function: the API refuses those that are no object, objects without properties, and arrays of nobody knows what."""
    fitted = cast("Schema", _with_items(schema, 0))
    if fitted.get("type") == "object" and "properties" in fitted:
        return fitted
    return {**fitted, "type": "object", "properties": fitted.get("properties", {})}


def _with_items(schema: object, depth: int, *, by_name: bool = False) -> object:
    """The same object where nothing is to be changed. `by_name`: it holds schemas by names that are anybody's choice."""
    if depth > DEPTH_OF_SEARCH:
        return schema
    if isinstance(schema, list):
        items = cast("list[object]", schema)
        changed = [_with_items(inner, depth + 1) for inner in items]
        return items if all(a is b for a, b in zip(items, changed, strict=True)) else changed
    if not isinstance(schema, dict):
        return schema
    fields = cast("Schema", schema)
    literal, of_names = (frozenset[str](), frozenset[str]()) if by_name else (_LITERAL, _BY_NAME)
    fitted = {name: inner if name in literal else _with_items(inner, depth + 1, by_name=name in of_names) for name, inner in fields.items()}
    if not by_name and may_be(fitted, "array") and "items" not in fitted and "prefixItems" not in fitted:
        fitted["items"] = {}
    return fields if fitted.keys() == fields.keys() and all(fitted[name] is inner for name, inner in fields.items()) else fitted


def _known_types(types: object) -> bool:
    return types is None or all(isinstance(kind, str) and kind in _TYPES for kind in (cast("list[object]", types) if isinstance(types, list) else [types]))
