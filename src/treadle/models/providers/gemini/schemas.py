"""A JSON Schema in the words that Gemini's API takes: the same meaning, said otherwise where it
would be refused.

What the schema is for is request.py's. Entry: `fitted`. Source:
https://ai.google.dev/api/generate-content, `responseJsonSchema`: beside `$ref` only `description`
and `default` may stand, and there is no `const`.
"""

from __future__ import annotations

from typing import cast

from treadle.models.providers.encoding import Json

_SCHEMAS_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMA = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
_BESIDE_A_REFERENCE = frozenset({"description", "default"})


def fitted(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    words = {
        name: _inner(name, value)
        for name, value in cast("Json", schema).items()
        if name != "$schema"
    }
    if isinstance(words.get("const"), str | int | float) and not isinstance(words["const"], bool):
        words["enum"] = [words.pop("const")]
    if "$ref" in words and any(
        not name.startswith("$") and name not in _BESIDE_A_REFERENCE for name in words
    ):
        return {"anyOf": [{"$ref": words.pop("$ref")}], **words}
    return words


def _inner(name: str, value: object) -> object:
    if name in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {key: fitted(schema) for key, schema in cast("Json", value).items()}
    if name in _SCHEMAS and isinstance(value, list | tuple):
        return [fitted(schema) for schema in cast("list[object]", value)]
    return fitted(value) if name in _SCHEMA else value
