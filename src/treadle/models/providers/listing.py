"""Model lists of providers: how to fetch a page, and tolerant readers of untrusted fields.

Each wire knows its pages (models_list.py in its folder); compatible_list.py interprets the entries
of compatible servers. Entry points: `Listed`, `fetched`, `entries`, `listed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar, cast

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.errors import AgentError
from treadle.models.providers.connection import Connection, read_whole
from treadle.models.providers.exchange import is_refused, refused
from treadle.models.providers.refusals import Refusals

PAGES_MAX = 20
PAGE_BYTES_MAX = 16 * 1024 * 1024
MODELS_MAX = 5000
ID_CHARS_MAX = 256
TOKENS_MAX = 1 << 40

T = TypeVar("T")
Fields: TypeAlias = Mapping[str, object]
"""JSON object with unvalidated values."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A model as reported by its provider."""

    id: str
    abilities: Abilities = UNKNOWN
    input_usd: float | None = None
    """Input price in USD per million tokens."""
    output_usd: float | None = None


async def fetched(connection: Connection, path: str, refusals: Refusals) -> object:
    """Fetch a page as JSON. Raises AgentError: network for invalid JSON, else the provider's
    error.
    """
    async with connection.get(path, {}) as reply:
        if is_refused(reply):
            raise await refused(reply, refusals)
        page = await read_whole(reply, PAGE_BYTES_MAX)
    try:
        return msgspec.json.decode(page)
    except (ValueError, RecursionError) as e:
        raise AgentError("network", f"the list of models cannot be read: {e}", status=200) from e


def entries(page: object, under: str = "data") -> list[Fields]:
    """Return the objects of a page that is a list, or an object that contains one.

    Raises AgentError(network) if there is none.
    """
    inside = cast("Fields", page).get(under) if isinstance(page, dict) else page
    if not isinstance(inside, list):
        raise AgentError(
            "network",
            "the server answered, but not with a list of models: check base_url",
            status=200,
        )
    return [
        cast("Fields", entry) for entry in cast("list[object]", inside) if isinstance(entry, dict)
    ]


def listed(found: Iterable[Fields], read: Callable[[str, Fields], Listed | None]) -> list[Listed]:
    """Read each entry with an id, without duplicates. `read` returns None for entries that are not
    language models.
    """
    models: dict[str, Listed] = {}
    for entry in found:
        model_id = entry.get("id")
        if (
            not isinstance(model_id, str)
            or not 0 < len(model_id) <= ID_CHARS_MAX
            or not model_id.isprintable()
        ):
            continue
        if len(models) < MODELS_MAX and (model := read(model_id, entry)) is not None:
            models.setdefault(model_id, model)
    return list(models.values())


# ---------------------------------------------------------------- untrusted fields


def first(*values: T | None) -> T | None:
    """Return the first known value."""
    return next((value for value in values if value is not None), None)


def fields_of(value: object) -> Fields:
    return cast("Fields", value) if isinstance(value, dict) else {}


def mapping(fields: Fields, name: str) -> Fields:
    return fields_of(fields.get(name))


def flag(fields: Fields, name: str) -> bool | None:
    value = fields.get(name)
    return value if isinstance(value, bool) else None


def tokens(fields: Fields, name: str) -> int | None:
    value = number(fields, name)
    return int(value) if value is not None and 1 <= value <= TOKENS_MAX else None


def number(fields: Fields, name: str) -> float | None:
    """Return a number of at least 0; some servers encode it as a string."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        read = float(value)
    except (ValueError, OverflowError):
        return None
    return read if 0 <= read < math.inf else None


def words(fields: Fields, name: str) -> frozenset[str] | None:
    value = fields.get(name)
    return (
        frozenset(word for word in cast("list[object]", value) if isinstance(word, str))
        if isinstance(value, list)
        else None
    )
