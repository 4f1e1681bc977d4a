"""What a JSON Schema holds, looked at on the way to what a provider takes of it.

What that is, is said by json_schema.py and anthropic/schemas.py. Entry: `object_in`, `list_in`, `may_be`.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]


class Outside(Exception):
    """The schema says something that the provider has no words for."""


def object_in(value: object) -> Schema:
    """Raises Outside."""
    if not isinstance(value, dict):
        raise Outside
    return cast("Schema", value)


def list_in(value: object) -> list[Any]:
    """A new one. Raises Outside."""
    if not isinstance(value, list | tuple):
        raise Outside
    return list(cast("list[Any]", value))


def may_be(fields: Schema, kind: str) -> bool:
    """Whether its type, or one of its types, is `kind`."""
    types = fields.get("type")
    return types == kind or (isinstance(types, list) and kind in cast("list[object]", types))
