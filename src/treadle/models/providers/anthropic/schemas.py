"""JSON Schemas for answers and strict tools in the words that Claude's API takes, which refuses a
request for any other word in them.

The reader of an answer checks it. Schemas of tools that are not strict go as they are. Entry:
`fitted`, `strict_tools`. Source:
https://platform.claude.com/docs/en/build-with-claude/structured-outputs (2026-11), what it says of
limits, and the SDK's `transform_schema` (2.10).
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.models.model import ToolDefinition
from treadle.models.providers.schema_parts import (
    Schema,
    UnsupportedSchema,
    list_in,
    may_be,
    object_in,
    with_items,
    with_words,
)

OPTIONAL_MAX = 24
UNIONS_MAX = 16
STRICT_MAX = 20
"""Strict tools in one request."""

_SAYS_NOTHING = frozenset(
    {"$schema", "$id", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
_EXAMPLES = frozenset({"default", "examples"})
_TAKEN = frozenset(
    {
        "type",
        "title",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "$defs",
        "definitions",
    }
)
_WORDS = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *(
            "minLength",
            "maxLength",
            "pattern",
            "format",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
        ),
        *("prefixItems", "contentEncoding", "contentMediaType"),
    }
)
"""The model is told these, and nobody holds it to them."""
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_SIMPLE = (str, int, float, type(None))


def fitted(schema: Schema) -> Schema | None:
    """Objects are closed, and bounds become words of the description.

    None where it cannot be said: of recursion, maps, and what is anything at all.
    """
    found = _fitting(schema)
    return None if found is None else found.root


def strict_tools(tools: Sequence[ToolDefinition], answer: Schema | None) -> dict[str, Schema]:
    """By name, the schemas of the tools that can be strict: as many as the limits of one request
    allow, the answer's schema counted first.
    """
    held = dict[str, Schema]()
    optional = unions = 0
    if answer is not None and (first := _fitting(answer)) is not None:
        optional, unions = first.optional, first.unions
    for tool in tools:
        one = _fitting(tool.parameters, exact=True)
        if (
            one is None
            or len(held) == STRICT_MAX
            or optional + one.optional > OPTIONAL_MAX
            or unions + one.unions > UNIONS_MAX
        ):
            continue
        optional, unions = optional + one.optional, unions + one.unions
        held[tool.name] = one.root
    return held


def _fitting(schema: Schema, *, exact: bool = False) -> _Fitting | None:
    try:
        return _Fitting(schema, exact=exact)
    except (UnsupportedSchema, RecursionError):
        return None


class _Fitting:
    """Of one schema.

    `exact`: no object that invites other properties is closed, and defaults and examples become
    words.
    """

    def __init__(self, schema: Schema, *, exact: bool = False) -> None:
        self._root = schema
        self._exact = exact
        self.optional = self.unions = 0
        self._inside: list[str] = []
        """The definitions that are being looked into."""
        self._looked_into: set[str] = set()
        self.root = self._of(schema)
        if self.optional > OPTIONAL_MAX or self.unions > UNIONS_MAX:
            raise UnsupportedSchema

    def _of(self, given: object) -> Schema:
        fields = {
            name: value
            for name, value in object_in(given).items()
            if name not in _SAYS_NOTHING - (_EXAMPLES if self._exact else set())
        }
        fields = with_words(with_items(fields), [name for name in fields if name in _EXAMPLES])
        if "oneOf" in fields and "anyOf" not in fields:
            fields["anyOf"] = fields.pop("oneOf")
        if "allOf" in fields:
            fields = {**_only(fields.pop("allOf")), **fields}
        fitting: Schema = {
            name: {key: self._of(inner) for key, inner in object_in(fields[name]).items()}
            for name in ("$defs", "definitions")
            if name in fields
        }
        if "$ref" in fields:
            return {**fitting, "$ref": self._reference(fields["$ref"])}
        return {**fitting, **self._value(fields)}

    def _reference(self, reference: object) -> str:
        """Looked into once, for what must not be: a definition that holds itself."""
        if (
            not isinstance(reference, str)
            or not reference.startswith(("#/$defs/", "#/definitions/"))
            or reference in self._inside
        ):
            raise UnsupportedSchema
        if reference not in self._looked_into:
            self._looked_into.add(reference)
            where, name = reference[2:].split("/", 1)
            self._inside.append(reference)
            self._of(object_in(self._root.get(where, {})).get(name))
            self._inside.pop()
        return reference

    def _value(self, fields: Schema) -> Schema:
        fitting: Schema = {name: fields[name] for name in ("type", "title") if name in fields}
        if not fields.keys() <= _TAKEN | _WORDS | {"enum", "const"} or not fields.keys() & {
            "type",
            "anyOf",
            "enum",
            "const",
        }:
            raise UnsupportedSchema
        if literals := {name: fields[name] for name in ("enum", "const") if name in fields}:
            if not all(
                isinstance(value, _SIMPLE)
                for value in [*list_in(literals.get("enum", [])), literals.get("const")]
            ):
                raise UnsupportedSchema
            fitting = {**fitting, **literals}
        if "anyOf" in fields:
            fitting["anyOf"] = [self._of(inner) for inner in list_in(fields["anyOf"])]
        self.unions += "anyOf" in fields or isinstance(fields.get("type"), list)
        if may_be(fields, "object"):
            fitting |= self._closed(fields)
        if "items" in fields:
            fitting["items"] = self._of(fields["items"])
        return fitting | _told(fields)

    def _closed(self, fields: Schema) -> Schema:
        more = fields.get("additionalProperties")
        is_open = self._exact and (more is True or not (more is False or fields.get("properties")))
        if (
            is_open
            or more not in (None, True, False)
            or (more is not False and "properties" not in fields)
        ):
            raise UnsupportedSchema  # names of the model's own choosing
        properties = {
            name: self._of(inner) for name, inner in object_in(fields.get("properties", {})).items()
        }
        required = [name for name in list_in(fields.get("required", [])) if name in properties]
        self.optional += len(properties) - len(required)
        return {"properties": properties, "required": required, "additionalProperties": False}


def _told(fields: Schema) -> Schema:
    """What is taken of the bounds, and the description with the others."""
    taken: Schema = {}
    if fields.get("format") in _FORMATS:
        taken["format"] = fields["format"]
    if fields.get("minItems") in (0, 1):
        taken["minItems"] = fields["minItems"]
    described = with_words(
        fields, [name for name in fields if name in _WORDS and name not in taken]
    )
    return (
        {**taken, "description": described["description"]}
        if described.get("description")
        else taken
    )


def _only(parts: object) -> Schema:
    """How a description is put beside a reference.

    Several would each have to be closed, and so exclude each other.
    """
    if len(list_in(parts)) != 1:
        raise UnsupportedSchema
    return object_in(list_in(parts)[0])
