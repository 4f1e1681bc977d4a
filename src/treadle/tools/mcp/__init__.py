"""Client for MCP servers: their tools become tools of an agent. The modules that use the protocol
import the SDK at the first connection.

apps/mcp_server/ serves agents over MCP. Entry points: `McpServer` defines a server, `McpServers`
holds the servers of a runtime.

    server.py      definition of a server: address, secrets, identity
    servers.py     the servers of a runtime, and the tools that a run uses
    joining.py     the servers that one run asks for tools
    upkeep.py      one server during a runtime's life; starts it again after a failure
    connection.py  one connection, its calls and their failures
    failures.py    errors of our own side of a connection
    stdio.py       transport to a server that is a program
    lines.py       lines of bounded length from its output
    http.py        transport to a server on streamable HTTP
    traffic.py     filter of messages between a server and the SDK
    sieve.py       removes invalid tools from a server's list
    listing.py     tools that can be offered, bounded, and their names
    tool.py        one tool as the loop sees it
    content.py     conversion of a result into content for the model
    questions.py   questions of a server to a person (elicitation)
    words.py       plain text of a server's texts
    pins.py        stored tool definitions, to detect changes
"""

from __future__ import annotations

from treadle.tools.mcp.pins import ChangedTool, Pins
from treadle.tools.mcp.questions import Ask, ServerQuestion
from treadle.tools.mcp.server import HeaderSource, McpServer
from treadle.tools.mcp.servers import McpServers
from treadle.tools.mcp.upkeep import ServerStatus

__all__ = [
    "Ask",
    "ChangedTool",
    "HeaderSource",
    "McpServer",
    "McpServers",
    "Pins",
    "ServerQuestion",
    "ServerStatus",
]
