"""A server that offers tools, over whatever carries it; what each of them does is its own business.

Prompts and resources it has none. Agents as tools stand in agents.py, stdio in stdio.py. Entry:
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
from treadle.tools.tool import unknown_tool

logger = logging.getLogger("treadle")

NAME: Final = "treadle"
STATE_LIVES_S: Final = 24 * 3600.0
"""How long a person may take to answer a question, over which no request is open."""

Context: TypeAlias = ServerRequestContext[Any, Any]
Reply: TypeAlias = CallToolResult | InputRequiredResult


class ServedTool(Protocol):
    """One tool of the server."""

    @property
    def definition(self) -> Tool:
        """The same object every time."""
        ...

    async def call(self, context: Context, params: CallToolRequestParams) -> Reply:
        """Calls come side by side. An AgentError is told to the model as this call's error.

        Cancelled where the client cancels the request.
        """
        ...


class McpToolServer:
    """Tells and calls tools, in both eras of the protocol: `sdk` is the SDK's server, to be carried
    by any of its transports.

    What it hands to a client between two halves of a call, which a person's answer parts, is
    sealed: nobody but this process can make one.
    """

    def __init__(
        self,
        served: Iterable[ServedTool],
        *,
        instructions: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`instructions`: what the server's tools are for, for the client's model. `redact` takes
        secrets out of what a refusal quotes.

        Raises AgentError(invalid) where two tools have one name.
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
        except (
            Exception
        ):  # the edge of a request: a bug harms this call alone, and is told where its owner looks
            logger.exception("the tool %s of the MCP server failed", params.name)
            return refused(
                f"{params.name} failed inside the server; what went wrong is in the server's own "
                "log (its standard error)"
            )


def refused(message: str) -> CallToolResult:
    """An error that the client's model reads."""
    return CallToolResult(content=[TextContent(text=message)], is_error=True)
