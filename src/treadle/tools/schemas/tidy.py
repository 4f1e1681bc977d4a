"""Pydantic's JSON Schema, shortened for a model: without titles, and with definitions inlined if
they are short or used only once.

The meaning stays the same. Entry points: `tidy`, `closed`, `walked`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

_Schema: TypeAlias = dict[str, Any]

STRUCT: Final = "x-struct"
"""Key of a Struct's schema in pydantic's schema until `tidy` merges it (structs.py). Its value is
text, because pydantic would resolve its references.
"""
_REF: Final = "#/$defs/"
_SHORT_CHARS: Final = 300
_NAMED: Final = frozenset(
    {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
)
"""Keywords whose values are objects with names, not keywords, as keys."""
_VALUES: Final = frozenset({"default", "const", "enum", "examples", "required"})
"""Keywords whose values are not schemas."""


def tidy(schema: _Schema) -> _Schema:
    """Return the shortened schema as a copy."""
    definitions: dict[str, _Schema] = dict(schema.get("$defs", {}))
    root = walked(
        {k: v for k, v in schema.items() if k != "$defs"}, lambda s: _lifted(s, definitions)
    )
    pending = list(definitions)
    done: dict[str, _Schema] = {}
    while pending:
        name = pending.pop()
        done[name] = walked(definitions[name], lambda s: _lifted(s, definitions))
        pending.extend(n for n in definitions if n not in done and n not in pending)
    return _inlined(root, done)


def _lifted(schema: _Schema, definitions: dict[str, _Schema]) -> _Schema:
    """Return the schema without pydantic's titles and OpenAPI's discriminators, and move the
    definitions of Structs to `definitions`.

    Titles of a NamedTuple's items, which are the names of its fields, become descriptions.
    """
    if STRUCT in schema:
        held = json.loads(schema[STRUCT])
        definitions.update(held["definitions"])
        schema = {**held["schema"], **schema}
    if "prefixItems" in schema:
        schema = {
            **schema,
            "prefixItems": [
                {"description": place["title"], **place} if "title" in place else place
                for place in schema["prefixItems"]
            ],
        }
    return {k: v for k, v in schema.items() if k not in ("title", "discriminator", STRUCT)}


def _inlined(root: _Schema, definitions: dict[str, _Schema]) -> _Schema:
    uses = [name for schema in (root, *definitions.values()) for name in _references(schema)]
    kept = [
        name
        for name, d in definitions.items()
        if _recursive(name, definitions)
        or (uses.count(name) > 1 and len(json.dumps(d)) > _SHORT_CHARS)
    ]
    names = _short_names(kept)

    def put(schema: _Schema) -> _Schema:
        while (name := _reference(schema)) is not None:
            beside = {k: v for k, v in schema.items() if k != "$ref"}
            if name in names:
                return {"$ref": _REF + names[name], **beside}
            schema = {**definitions[name], **beside}
        return schema

    out = walked(root, put)
    if names:
        out["$defs"] = {short: walked(definitions[name], put) for name, short in names.items()}
    return out


def _short_names(kept: list[str]) -> dict[str, str]:
    """Return the final name of each definition. A Struct's definition is called
    `module.Struct:Name` at first, to avoid collisions; if the name is unique, it becomes `Name`.
    """
    shorts = [name.rpartition(":")[2] for name in kept]
    return {
        name: short if shorts.count(short) == 1 else name
        for name, short in zip(kept, shorts, strict=True)
    }


def _reference(schema: _Schema) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix(_REF) if isinstance(ref, str) and ref.startswith(_REF) else None


def _references(schema: _Schema) -> Iterator[str]:
    found: list[str] = []

    def note(s: _Schema) -> _Schema:
        if (name := _reference(s)) is not None:
            found.append(name)
        return s

    walked(schema, note)
    yield from found


def _recursive(name: str, definitions: dict[str, _Schema]) -> bool:
    seen: set[str] = set()
    pending = [name]
    while pending:
        for below in _references(definitions[pending.pop()]):
            if below == name:
                return True
            if below not in seen:
                seen.add(below)
                pending.append(below)
    return False


def closed(schema: _Schema) -> _Schema:
    """Return a copy that forbids additional properties in each object with `properties`, unless its
    schema already has `additionalProperties`.
    """

    def close(s: _Schema) -> _Schema:
        return (
            {**s, "additionalProperties": False}
            if s.get("type") == "object" and "properties" in s and "additionalProperties" not in s
            else s
        )

    return walked(schema, close)


def walked(schema: Any, change: Callable[[_Schema], _Schema]) -> Any:
    """Return a copy in which `change` is applied to each schema, outermost first."""
    if isinstance(schema, list):
        return [walked(item, change) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    out: _Schema = {}
    for key, value in change(cast("_Schema", schema)).items():
        if key in _NAMED and isinstance(value, dict):
            out[key] = {
                name: walked(inner, change) for name, inner in cast("_Schema", value).items()
            }
        else:
            out[key] = value if key in _VALUES else walked(value, change)
    return out
