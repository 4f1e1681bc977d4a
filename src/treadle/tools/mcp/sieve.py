"""Filter for lists of tools: removes invalid entries, for which the SDK would reject the whole
list.

listing.py decides which of the others can be offered. Entry point: `Sieve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import mcp_types
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import JSONRPCRequest, JSONRPCResponse, methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from treadle.tools.mcp.words import one_line

_LIST = "tools/list"
_NAME = 60
_TOLD_MOST = 1_000
_IN_WORDS: dict[str, str] = dict.fromkeys(("model_type", "dict_type"), "Input should be an object")


class Sieve:
    """Filter for the messages of one connection."""

    def __init__(self) -> None:
        self.version = ""
        """Version of the protocol, once it is known."""
        self.unfit: dict[str, str] = {}
        """Reasons, by name, for entries that were removed since this was last emptied."""
        self._asked = set[int | str]()

    def asks(self, request: JSONRPCRequest) -> None:
        if request.method == _LIST:
            self._asked.add(request.id)

    def answers(self, response: JSONRPCResponse) -> None:
        """Remove the invalid tools from a response."""
        if response.id not in self._asked:
            return
        self._asked.discard(response.id)
        said: object = response.result.get("tools")
        if not isinstance(said, list) or self._fault({**response.result, "tools": []}) is not None:
            return  # the SDK reports this error
        tools = cast("list[object]", said)
        faults = (
            {}
            if self._fault(response.result) is None
            else {
                place: self._fault({**response.result, "tools": [tool]})
                for place, tool in enumerate(tools)
            }
        )
        wrong = {
            place: why
            for place, tool in enumerate(tools)
            if (why := faults.get(place) or self._wrong_header(tool)) is not None
        }
        for place, why in wrong.items():
            if len(self.unfit) < _TOLD_MOST:
                self.unfit[_name_of(tools[place]) or f"number {place + 1} of its list"] = why
        response.result["tools"] = [tool for place, tool in enumerate(tools) if place not in wrong]

    def _fault(self, result: Mapping[str, Any]) -> str | None:
        """Return the error in the list by the rules of its protocol version, or in its first
        invalid tool by those of the SDK.
        """
        try:
            methods.validate_server_result(_LIST, self.version, result)
            for tool in result["tools"]:
                mcp_types.Tool.model_validate(tool, by_name=False)
        except ValidationError as e:
            first = e.errors(include_input=False, include_context=False, include_url=False)[0]
            where = ".".join(
                str(step) for step in first["loc"] if step != "tools" and not isinstance(step, int)
            )
            what = _IN_WORDS.get(first["type"], first["msg"])
            return f"it does not follow the protocol ({f'{where}: ' if where else ''}{what})"
        return None

    def _wrong_header(self, tool: object) -> str | None:
        """Return the error in a tool's headers, or None. Since 2026-07-28 such a tool must not be
        used; the SDK would omit it silently.
        """
        if self.version not in MODERN_PROTOCOL_VERSIONS:
            return None
        why = find_invalid_x_mcp_header(cast("Mapping[str, Any]", tool).get("inputSchema"))
        return None if why is None else f"a header that it wants cannot be one ({why})"


def _name_of(tool: object) -> str | None:
    name = cast("Mapping[str, object]", tool).get("name") if isinstance(tool, dict) else None
    return one_line(name, _NAME) or None if isinstance(name, str) else None
