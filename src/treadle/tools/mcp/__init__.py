"""Tools of MCP servers as tools of ours. The SDK is imported by the modules that speak the protocol, at the first connection.

Not here: serving agents over MCP (mcp_server/). Entry: `McpServer` says what a server is, `McpServers` holds those of a runtime.
"""

from __future__ import annotations

from treadle.tools.mcp.pins import ChangedTool, Pins
from treadle.tools.mcp.questions import Ask, Question
from treadle.tools.mcp.server import McpServer
from treadle.tools.mcp.servers import McpServers

__all__ = ["Ask", "ChangedTool", "McpServer", "McpServers", "Pins", "Question"]
