"""Agents as tools of a server of the Model Context Protocol, on stdio or in somebody's web application.

Not here: tools of other people's servers (tools/mcp), and the command (cli/mcp.py). The SDK is imported by the modules below, never by this one.
Entry: `require_sdk`, then `ToolServer` in server.py, `AgentTool` in agents.py, `serve_stdio` in stdio.py.
"""

from __future__ import annotations

from importlib.util import find_spec

from treadle.errors import AgentError

INSTALL = "pip install 'treadle[mcp]'"


def require_sdk() -> None:
    """Raises AgentError(invalid) where the SDK is not installed."""
    if find_spec("mcp") is None:
        raise AgentError("invalid", f"this needs the MCP SDK: {INSTALL}")
