"""Tools by name, and the message to a model that calls an unknown tool. Entry point:
`ToolRegistry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from treadle.errors import AgentError
from treadle.messages.message import JsonText, Message
from treadle.models.model import ToolDefinition
from treadle.tools.failures import DidNotHappen as DidNotHappen
from treadle.tools.failures import Happened as Happened
from treadle.tools.failures import InvalidArguments as InvalidArguments
from treadle.tools.failures import ToolDeferred as ToolDeferred
from treadle.tools.failures import ToolFailed as ToolFailed
from treadle.tools.tool import Tool, ToolContext, ToolOutput

_NAME_CHARS = 128
_NAMES_SHOWN = 50


class ToolRegistry:
    """Tools by unique name, with lookup in O(1)."""

    defers = False
    """True if some tools are offered only after a search (`tools/tool_search.py`)."""

    def __init__(
        self,
        tools: Sequence[Tool[Any]] = (),
        offers: Callable[[Tool[Any]], bool] = lambda tool: True,
    ) -> None:
        """Create a tool registry. `offers`: predicate that decides whether the model sees a
        tool.
        """
        self._tools, self._offers = dict[str, Tool[Any]](), offers
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool[Any]) -> None:
        """Register a tool. Raises AgentError(invalid) if the name is taken."""
        if tool.name in self._tools:
            raise AgentError(
                "invalid",
                f"two tools are named {tool.name!r}: tool names must be unique; rename one",
            )
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool[Any] | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def list(self) -> list[Tool[Any]]:
        """Return the tools in the order of registration."""
        return [*self._tools.values()]

    def remove(self, name: str) -> bool:
        """Remove a tool. Returns False if there was none."""
        return self._tools.pop(name, None) is not None

    def load(self, history: Sequence[Message]) -> bool:
        """Offer the tools that the model has found in this conversation. Returns True if the
        definitions have changed.
        """
        return False

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions for a request, in the order of registration."""
        return tuple(t.definition for t in self._tools.values() if self._offers(t))

    async def execute(
        self, name: str, ctx: ToolContext[Any], arguments_json: JsonText
    ) -> ToolOutput:
        """Parse the arguments and execute the tool.

        Raises InvalidArguments for an unknown tool or invalid arguments; exceptions of the tool
        propagate.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise InvalidArguments(unknown_tool(name, list(self._tools)))
        return await tool.execute(ctx, tool.parse(arguments_json))

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._tools.values())


def unknown_tool(name: str, known: Sequence[str]) -> str:
    """Return the message to the model about a tool that does not exist, limited in length."""
    close = closest(name, known)
    hint = f"Did you mean {close!r}? " if close is not None else ""
    shown = ", ".join(known[:_NAMES_SHOWN]) + (
        f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    )
    return f"There is no tool named {name[:_NAME_CHARS]!r}. {hint}Available: {shown or 'none'}."


def closest(word: str, words: Sequence[str]) -> str | None:
    """Return the most similar of `words`, ignoring case; None if none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415  costs 5 ms of start-up, and models rarely miss

    folded = {w.casefold(): w for w in reversed(words)}
    found = get_close_matches(word[:_NAME_CHARS].casefold(), folded, n=1)
    return folded[found[0]] if found else None
