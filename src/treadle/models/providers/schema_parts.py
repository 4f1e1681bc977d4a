"""Helpers for translating JSON Schemas.

json_schema.py and anthropic/schemas.py define what each provider accepts. Entry points:
`object_in`, `list_in`, `may_be`, `with_items`, `with_words`.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from treadle.models.providers.encoding import dumped

Schema: TypeAlias = dict[str, Any]


class UnsupportedSchema(Exception):
    """Raised if the provider's subset cannot express the schema."""


def object_in(value: object) -> Schema:
    """Return the value as a schema object. Raises UnsupportedSchema."""
    if not isinstance(value, dict):
        raise UnsupportedSchema
    return cast("Schema", value)


def list_in(value: object) -> list[Any]:
    """Return a copy of the value as a list. Raises UnsupportedSchema."""
    if not isinstance(value, list | tuple):
        raise UnsupportedSchema
    return list(cast("list[Any]", value))


def may_be(fields: Schema, kind: str) -> bool:
    """Return True if the type, or one of the types, is `kind`."""
    types = fields.get("type")
    return types == kind or (isinstance(types, list) and kind in cast("list[object]", types))


_OF_PLACES = frozenset({"title", "description", "default"})
"""Keywords that distinguish tuple items of the same type."""


def with_items(fields: Schema) -> Schema:
    """Rewrite a tuple schema with `items` of any of its types, and its length as bounds.

    Any other schema is returned unchanged.
    """
    places = cast("list[object] | None", fields.get("prefixItems"))
    if not isinstance(places, list | tuple) or not places or isinstance(fields.get("items"), dict):
        return fields
    kinds = list[object]()
    for place in places:
        kind = (
            {name: value for name, value in cast("Schema", place).items() if name not in _OF_PLACES}
            if isinstance(place, dict)
            else place
        )
        if kind not in kinds:
            kinds.append(kind)
    bounded = {**fields, "items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds}}
    if fields.get("items") is not True:
        bounded.setdefault("maxItems", len(places))
    return bounded


def with_words(fields: Schema, names: list[str]) -> Schema:
    """Move these keywords into the description."""
    if not names:
        return fields
    told = [
        name
        for name in names
        if name != "prefixItems"
        or any(place != fields.get("items") for place in list_in(fields[name]))
    ]
    said = ", ".join(f"{name}: {dumped(fields[name]).decode()}" for name in told)
    words = " ".join(
        filter(None, [str(fields.get("description") or ""), f"({said})" if said else ""])
    )
    return {
        **{name: value for name, value in fields.items() if name not in names},
        **({"description": words} if words else {}),
    }
