"""Hosted tools, which a provider runs on its own servers: selection by settings, and display of
their calls.

Each wire names and encodes them. Entry points: `wanted`, `left_out`, `shown_call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import msgspec

from treadle._internal.hosted_tools import CodeExecution, TypedTool, WebSearch, name_of
from treadle.errors import AgentError
from treadle.types import Settings

T = TypeVar("T")

SHOWN_CHARS = 200
_RUN_BY: Mapping[str, str] = {
    "web_search": "Claude, whose API takes max_uses and allowed_domains; OpenAI's Responses API "
    "takes allowed_domains",
    "code_execution": "Claude, OpenAI's Responses API or Gemini",
    "file_search": "OpenAI's Responses API",
}


def wanted(
    settings: Settings, offered: Mapping[str, T], detailed: Callable[[T, TypedTool], T | None]
) -> list[T]:
    """Return the wire's definitions of the hosted tools in `settings`, in order, without
    duplicates.

    `detailed` adds the details of a typed tool to a definition; None if the API cannot honour them.
    Such a tool is omitted, and so is an unrestricted tool with the same definition.
    """
    chosen = settings.hosted_tools or ()
    typed = [offered.get(name_of(tool)) for tool in chosen if not isinstance(tool, str)]
    found = list[T]()
    for tool in chosen:
        one = offered.get(name_of(tool))
        if one is None or (isinstance(tool, str) and one in typed):
            continue
        made = one if isinstance(tool, str) else detailed(one, tool)
        if made is not None and made not in found:
            found.append(made)
    return found


def left_out(
    settings: Settings, offered: Mapping[str, T], detailed: Callable[[T, TypedTool], T | None]
) -> tuple[str, ...]:
    """Return notes about names in `settings` that are not offered.

    Raises AgentError(invalid) for a typed tool that this API cannot run as stated.
    """
    notes = list[str]()
    for tool in settings.hosted_tools or ():
        one = offered.get(name_of(tool))
        if isinstance(tool, str):
            if one is None:
                notes.append(f"the hosted tool {tool!r} is not offered here: it was left out")
        elif one is None or detailed(one, tool) is None:
            raise AgentError(
                "invalid",
                f"{tool!r} cannot be run by the provider of this model: "
                + ("leave it out" if one is None else "leave out its details")
                + f", or choose {_RUN_BY[name_of(tool)]}",
            )
    return tuple(notes)


def nothing(definition: T, tool: TypedTool) -> T | None:
    """Return the definition of a tool without details; None if the tool has any."""
    return definition if tool in (WebSearch(), CodeExecution()) else None


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
