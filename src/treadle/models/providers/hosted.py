"""Hosted tools, which a provider runs on its own servers: selection by settings, and display of
their calls.

Each wire names and encodes them. Entry points: `wanted`, `left_out`, `shown_call`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec

from treadle.types import Settings

T = TypeVar("T")

SHOWN_CHARS = 200


def wanted(settings: Settings, offered: Mapping[str, T]) -> list[T]:
    """Return the wire's definitions of the hosted tools in `settings`, in order, without
    duplicates.
    """
    found = list[T]()
    for name in settings.hosted_tools or ():
        if name in offered and offered[name] not in found:
            found.append(offered[name])
    return found


def left_out(settings: Settings, offered: Mapping[str, object]) -> tuple[str, ...]:
    """Return notes about tools in `settings` that are not offered."""
    return tuple(
        f"the hosted tool {name!r} is not offered here: it was left out"
        for name in settings.hosted_tools or ()
        if name not in offered
    )


def shown_call(name: str, arguments: bytes | msgspec.Raw) -> str:
    """Format a call in one line: the tool, and its first text argument (a query, an address, a
    program).
    """
    try:
        text = _first_text(msgspec.json.decode(arguments))
    except (ValueError, RecursionError):
        text = ""
    return f"{name} {' '.join(text.split())[:SHOWN_CHARS]}".strip()


def _first_text(value: object) -> str:
    if isinstance(value, str):
        return value
    inner = (
        cast("dict[str, object]", value).values()
        if isinstance(value, dict)
        else cast("list[object]", value)
        if isinstance(value, list)
        else ()
    )
    return next((text for one in inner if (text := _first_text(one))), "")
