"""JSON Schemas of answers and strict tools in the subset that Claude's API accepts. It rejects
requests with any other keyword.

Readers validate answers. Schemas of non-strict tools are sent unchanged. Entry points: `fitted`,
`strict_tools`. Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs
(2026-11), including its limits, and the SDK's `transform_schema` (2.10).
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
"""Maximum number of strict tools in one request."""

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
"""Keywords that move into the description. The API does not enforce them."""
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_SIMPLE = (str, int, float, type(None))


def fitted(schema: Schema) -> Schema | None:
    """Close objects and move bounds into the descriptions.

    Returns None if the subset cannot express the schema: recursion, maps, and unconstrained values.
    """
    found = _fitting(schema)
    return None if found is None else found.root


def strict_tools(tools: Sequence[ToolDefinition], answer: Schema | None) -> dict[str, Schema]:
    """Return the schemas of the tools that can be strict, by name: as many as the limits of one
    request allow, after the answer's schema.
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
    """Translation of one schema.

    `exact`: open objects are rejected instead of closed, and defaults and examples move into the
    description.
    """

    def __init__(self, schema: Schema, *, exact: bool = False) -> None:
        self._root = schema
        self._exact = exact
        self.optional = self.unions = 0
        self._inside: list[str] = []
        """Definitions on the current path."""
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
        """Check a referenced definition once, and reject one that contains itself."""
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
    """Return the accepted bounds, and a description with the others."""
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
    """Return the only element of `allOf`, which attaches a description to a reference.

    Several would each have to be closed, and would exclude each other.
    """
    if len(list_in(parts)) != 1:
        raise UnsupportedSchema
    return object_in(list_in(parts)[0])
