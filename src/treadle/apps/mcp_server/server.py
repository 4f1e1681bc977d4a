"""Server for any tools, over any transport.

It has no prompts and resources. Agents as tools are in agents.py, stdio in stdio.py. Entry point:
`McpToolServer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import RequestStateSecurity
from mcp.server.request_state import RequestStateBoundary
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from treadle import __version__
from treadle.errors import AgentError
from treadle.tools.registry import unknown_tool

logger = logging.getLogger("treadle")

NAME: Final = "treadle"
STATE_LIVES_S: Final = 24 * 3600.0
"""Seconds for a person to answer a question without an open request."""

Context: TypeAlias = ServerRequestContext[Any, Any]
Reply: TypeAlias = CallToolResult | InputRequiredResult


class ServedTool(Protocol):
    """Tool of the server."""

    @property
    def definition(self) -> Tool:
        """Definition of the tool; the same object each time."""
        ...

    async def call(self, context: Context, params: CallToolRequestParams) -> Reply:
        """Execute a call; calls run concurrently. An AgentError becomes an error result for the
        model.

        Cancelled if the client cancels the request.
        """
        ...


class McpToolServer:
    """Server that lists and calls tools, in both eras of the protocol. `sdk` is the SDK's server,
    for any of its transports.

    State that a client keeps between the two halves of an interrupted call is sealed, so that only
    this process can create it.
    """

    def __init__(
        self,
        served: Iterable[ServedTool],
        *,
        instructions: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """Create an MCP tool server. `instructions` describe the server's tools to the client's
        model. `redact` removes secrets from quoted text.

        Raises AgentError(invalid) if two tools have the same name.
        """
        self._served: dict[str, ServedTool] = {}
        self._redact = redact
        for tool in served:
            name = tool.definition.name
            if name in self._served:
                raise AgentError(
                    "invalid", f"two tools of the server are named {name!r}: rename one"
                )
            self._served[name] = tool
        self.sdk: Server[Any] = Server(
            NAME,
            version=__version__,
            instructions=instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        self.sdk.middleware.append(
            RequestStateBoundary(
                RequestStateSecurity.ephemeral(ttl=STATE_LIVES_S), default_audience=NAME
            )
        )

    async def _list(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[tool.definition for tool in self._served.values()])

    async def _call(self, context: Context, params: CallToolRequestParams) -> Reply:
        tool = self._served.get(params.name)
        if tool is None:
            raise MCPError(
                code=INVALID_PARAMS,
                message=self._redact(unknown_tool(params.name, list(self._served))),
            )
        try:
            return await tool.call(context, params)
        except MCPError:
            raise
        except AgentError as e:
            return refused(self._redact(e.message))
        except Exception:  # request boundary: a bug fails this call alone, and is logged
            logger.exception("the tool %s of the MCP server failed", params.name)
            return refused(
                f"{params.name} failed inside the server; see the server's log (its standard error)"
            )


def refused(message: str) -> CallToolResult:
    """Return an error for the client's model."""
    return CallToolResult(content=[TextContent(text=message)], is_error=True)
