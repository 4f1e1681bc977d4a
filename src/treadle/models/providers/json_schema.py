"""JSON Schemas for OpenAI: translation into the strict subset, and the smallest change that makes
other schemas acceptable.

Each wire places schemas in its bodies. Entry points: `strict`, `parameters`. Source:
https://developers.openai.com/api/docs/guides/structured-outputs (2026-11), and the API's errors
where it is silent.
"""

from __future__ import annotations

import re
from typing import cast

from treadle.models.providers.schema_parts import (
    Schema,
    UnsupportedSchema,
    list_in,
    may_be,
    object_in,
    with_items,
    with_words,
)

_KEPT = frozenset(
    {
        *(
            "type",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "enum",
            "const",
            "anyOf",
            "$ref",
            "$defs",
            "definitions",
        ),
        *("title", "description", "pattern", "format", "minItems", "maxItems"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_DESCRIBED = frozenset(
    {
        "minLength",
        "maxLength",
        "uniqueItems",
        "prefixItems",
        "minProperties",
        "maxProperties",
        "contentEncoding",
        "contentMediaType",
    }
)
"""Keywords outside the subset that move into the description."""
_EXAMPLES = frozenset({"default", "examples"})
_SAYS_NOTHING = _EXAMPLES | {"$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly"}
"""Keywords that are dropped: the strict subset does not include them, and they do not constrain
values.
"""
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_LITERAL = frozenset({"enum", "const", "default", "examples"})
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_REFERENCE = re.compile(r"#(/(\$defs|definitions)/[^/]+)?")
_ESCAPED = re.compile(r"\\[^1-9]")
_NOT_IN_PATTERNS = re.compile(r"\\|\(\?(?!:)")
"""Look-around, back-references, flags and named groups."""
DEPTH_MAX = 10
PROPERTIES_MAX = 5000
DEPTH_OF_SEARCH = 100
"""Maximum depth. Deeper schemas are sent unchanged."""


def strict(schema: Schema, *, exact: bool = False) -> Schema | None:
    """Translate a schema into the strict subset; None if that is not possible.

    Objects are closed and all their properties required. Lengths, look-around patterns and the
    order of a tuple's types move into the description, so a value that fits the result may still
    violate those. `exact`: return None instead of closing an open object, requiring an optional
    property or dropping an example. Used for tools, whose optional parameters stay optional.
    """
    if schema.get("type") != "object" or schema.keys() & {"anyOf", "oneOf", "allOf"}:
        return None
    try:
        return _Strict(exact).of(schema, 1)
    except (UnsupportedSchema, RecursionError):
        return None


class _Strict:
    """Translation of one schema."""

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._count = 0
        """Number of properties so far."""

    def of(self, schema: object, depth: int) -> Schema:
        given = object_in(schema)
        if depth > DEPTH_MAX or (self._exact and given.keys() & _EXAMPLES):
            raise UnsupportedSchema
        fields = with_items(
            {name: value for name, value in given.items() if name not in _SAYS_NOTHING}
        )
        if "oneOf" in fields and "anyOf" not in fields:
            fields["anyOf"] = fields.pop("oneOf")
        if not fields.keys() <= _KEPT | _DESCRIBED or not _known_types(fields.get("type")):
            raise UnsupportedSchema
        for name in ("$defs", "definitions"):
            if name in fields:
                fields[name] = {
                    key: self.of(inner, 1) for key, inner in object_in(fields[name]).items()
                }
        if "$ref" in fields:
            return _referring(fields)
        if "anyOf" in fields:
            fields["anyOf"] = [self.of(inner, depth) for inner in list_in(fields["anyOf"])]
        if "items" in fields:
            fields["items"] = self.of(fields["items"], depth + 1)
        elif may_be(fields, "array"):
            raise UnsupportedSchema
        if may_be(fields, "object") or "properties" in fields:
            self._close(fields, depth)
        elif not fields.keys() & {"type", "enum", "const", "anyOf"}:
            raise UnsupportedSchema
        return with_words(fields, [name for name in fields if _is_described(name, fields[name])])

    def _close(self, fields: Schema, depth: int) -> None:
        more, properties = (
            fields.get("additionalProperties"),
            object_in(fields.get("properties", {})),
        )
        self._count += len(properties)
        if (
            self._count > PROPERTIES_MAX
            or more not in (None, True, False)
            or not (properties or more is False or (more is None and "properties" in fields))
        ):
            raise UnsupportedSchema  # names of the model's own choosing
        required = set(list_in(fields.get("required", [])))
        as_open = more is True or (more is None and not properties)
        if not required <= properties.keys() or (
            self._exact and (as_open or len(required) < len(properties))
        ):
            raise UnsupportedSchema
        fields["properties"] = {
            name: self.of(inner, depth + 1) for name, inner in properties.items()
        }
        fields["required"] = list(properties)
        fields["additionalProperties"] = False


def _referring(fields: Schema) -> Schema:
    """Translate a reference, which allows no sibling keywords: a description wraps it."""
    reference, beside = (
        fields["$ref"],
        {
            name: value
            for name, value in fields.items()
            if name not in ("$ref", "$defs", "definitions")
        },
    )
    if not _REFERENCE.fullmatch(str(reference)) or not beside.keys() <= {"title", "description"}:
        raise UnsupportedSchema
    return (
        {
            "anyOf": [{"$ref": reference}],
            **{name: value for name, value in fields.items() if name != "$ref"},
        }
        if beside
        else fields
    )


def _is_described(name: str, value: object) -> bool:
    if name == "pattern":
        return _NOT_IN_PATTERNS.search(_ESCAPED.sub("", str(value))) is not None
    return name in _DESCRIBED or (name == "format" and value not in _FORMATS)


def parameters(schema: Schema) -> Schema:
    """Adapt the parameters of a function.

    The API rejects parameters that are not an object, objects without properties, and arrays
    without `items`, including tuples.
    """
    fitted = cast("Schema", _complete(schema, 0))
    if fitted.get("type") == "object" and "properties" in fitted:
        return fitted
    return {**fitted, "type": "object", "properties": fitted.get("properties", {})}


def _complete(schema: object, depth: int, *, by_name: bool = False) -> object:
    """Complete a schema, or return the same object if nothing changes.

    `by_name`: the keys are names chosen by the schema's author.
    """
    if depth > DEPTH_OF_SEARCH:
        return schema
    if isinstance(schema, list):
        items = cast("list[object]", schema)
        changed = [_complete(inner, depth + 1) for inner in items]
        return items if all(a is b for a, b in zip(items, changed, strict=True)) else changed
    if not isinstance(schema, dict):
        return schema
    fields = cast("Schema", schema)
    literal, of_names = (frozenset[str](), frozenset[str]()) if by_name else (_LITERAL, _BY_NAME)
    fitted = {
        name: inner if name in literal else _complete(inner, depth + 1, by_name=name in of_names)
        for name, inner in fields.items()
    }
    if not by_name:
        fitted = with_items(fitted)
        if may_be(fitted, "array") and "items" not in fitted:
            fitted["items"] = {}
    return (
        fields
        if fitted.keys() == fields.keys()
        and all(fitted[name] is inner for name, inner in fields.items())
        else fitted
    )


def _known_types(types: object) -> bool:
    return types is None or all(
        isinstance(kind, str) and kind in _TYPES
        for kind in (cast("list[object]", types) if isinstance(types, list) else [types])
    )
