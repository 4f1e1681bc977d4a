"""MCP tool as the loop sees it. A call is made at most once, unless the user's configuration trusts
the server's hints.

Entry: `McpTool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from treadle.messages.message import JsonText, MediaPart, TextPart
from treadle.tools.mcp.listing import Offered
from treadle.tools.mcp.server import McpServer
from treadle.tools.mcp.upkeep import Upkeep
from treadle.tools.tool import (
    MAX_OUTPUT_CHARS,
    ProbeAnswer,
    ToolContext,
    ToolFailed,
    ToolOutput,
    Touched,
)
from treadle.types import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence


class McpTool:
    """Tool of an MCP server, created by `McpServers.tools` for new runs."""

    parallel = True
    timeout_s: float | None = None
    """None, because the server's own `timeout_s` applies, excluding the time for questions."""
    needs_approval = False
    max_output = MAX_OUTPUT_CHARS

    def __init__(self, offered: Offered, server: McpServer, upkeep: Upkeep) -> None:
        """Create an MCP tool. `server`: the agent's definition. Other agents may share `upkeep`."""
        self._offered, self._server, self._upkeep = offered, server, upkeep
        known = offered.arguments.definition
        self.definition = structs.replace(known, deferred=True) if server.deferred else known

    @property
    def server(self) -> str:
        return self._server.name

    @property
    def name(self) -> str:
        return self._offered.name

    @property
    def effect(self) -> Effect:
        if not self._server.trust_hints:
            return "once"
        return (
            "pure"
            if self._offered.reads_only
            else "idempotent"
            if self._offered.is_idempotent
            else "once"
        )

    @property
    def trace(self) -> Mapping[str, str]:
        """Attributes of the tool for a trace (`Tracer.tool`)."""
        return {"mcp.server": self.server, "mcp.tool": self._offered.theirs}

    def parse(self, arguments_json: JsonText) -> dict[str, Any]:
        return self._offered.arguments.parse(arguments_json)

    def touches(self, arguments: Any, cwd: Path) -> Touched | None:
        """Return None: the files that a server's tool touches are unknown."""
        return None

    async def execute(self, ctx: ToolContext[Any], arguments: dict[str, Any]) -> ToolOutput:
        """Call the tool. Raises ToolFailed for every failure of the server; its `happened` is None
        if the call may have had an effect.

        Cancellation: notifies the server to stop the call, which takes up to 5 s if the server does
        not read.
        """
        result = await self._upkeep.call(self._server, self._offered, ctx, arguments)
        from treadle.tools.mcp.content import output_of, text_of  # noqa: PLC0415  imports the SDK's types

        clean = self._server.redactor.exact
        if result.is_error:
            raise ToolFailed(clean(text_of(result)), happened=True)
        output = output_of(result)
        return clean(output) if isinstance(output, str) else _cleaned(output, clean)

    async def probe(self, ctx: ToolContext[Any], arguments: Any) -> ProbeAnswer:
        return None

    def __repr__(self) -> str:
        return f"<McpTool {self.name!r}>"


def _cleaned(parts: Sequence[TextPart | MediaPart], clean: Any) -> list[TextPart | MediaPart]:
    return [
        TextPart(text=clean(part.text)) if isinstance(part, TextPart) else part for part in parts
    ]
