"""What a JSON Schema holds, looked at on the way to what a provider takes of it.

What that is, is said by json_schema.py and anthropic/schemas.py. Entry: `object_in`, `list_in`,
`may_be`, `with_items`, `with_words`.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

from treadle.models.providers.encoding import dumped

Schema: TypeAlias = dict[str, Any]


class UnsupportedSchema(Exception):
    """The schema says something that the provider has no words for."""


def object_in(value: object) -> Schema:
    """Raises Outside."""
    if not isinstance(value, dict):
        raise UnsupportedSchema
    return cast("Schema", value)


def list_in(value: object) -> list[Any]:
    """A new one. Raises Outside."""
    if not isinstance(value, list | tuple):
        raise UnsupportedSchema
    return list(cast("list[Any]", value))


def may_be(fields: Schema, kind: str) -> bool:
    """Whether its type, or one of its types, is `kind`."""
    types = fields.get("type")
    return types == kind or (isinstance(types, list) and kind in cast("list[object]", types))


_OF_PLACES = frozenset({"title", "description", "default"})
"""Keywords that tell one place of a tuple from another of the same type."""


def with_items(fields: Schema) -> Schema:
    """A tuple's schema with `items`, any of the types of its places, and its length as bounds.

    Any other is returned as it is.
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
    """The schema with these keywords moved into its description."""
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
