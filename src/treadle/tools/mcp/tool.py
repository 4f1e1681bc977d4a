"""A tool of an MCP server as the loop sees it. A call happens once unless the user's own
configuration believes the server's hints.

Entry: `McpTool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.messages.message import JsonText, MediaPart, TextPart
from treadle.models.model import ToolDefinition
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
    """Made by `McpServers.tools`, for runs that begin now."""

    parallel = True
    timeout_s: float | None = None
    """The server's own `timeout_s` holds, which leaves out the time in which a person is asked."""
    needs_approval = False
    max_output = MAX_OUTPUT_CHARS

    def __init__(self, offered: Offered, server: McpServer, upkeep: Upkeep) -> None:
        """`server`: as the agent has it; `upkeep` may serve others too."""
        self._offered, self._server, self._upkeep = offered, server, upkeep

    @property
    def server(self) -> str:
        return self._server.name

    @property
    def name(self) -> str:
        return self._offered.name

    @property
    def definition(self) -> ToolDefinition:
        return self._offered.arguments.definition

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
        """Return None: it is not known what a foreign tool touches."""
        return None

    async def execute(self, ctx: ToolContext[Any], arguments: dict[str, Any]) -> ToolOutput:
        """Raises ToolFailed for every failure of the server; `happened` is None where it may have
        done something.

        Cancellation: the server is told to stop the call, which takes at most 5 s where it does not
        listen.
        """
        result = await self._upkeep.call(self._server, self._offered, ctx, arguments)
        from treadle.tools.mcp.content import output_of, text_of  # noqa: PLC0415  it brings the SDK's types

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
