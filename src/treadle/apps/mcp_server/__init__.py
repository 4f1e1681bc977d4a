"""Agents as tools of a server of the Model Context Protocol, on stdio or in somebody's web
application.

Not here: tools of other people's servers (tools/mcp), and the command (cli/mcp.py). The SDK is
imported by the modules below, never by this one. Entry: `require_sdk`, then `ToolServer`,
`AgentTool` and `serve_stdio`.

    server.py      a server that offers tools, whatever they do
    stdio.py       the server on standard input and output, which belong to it alone
    lines.py       what a client writes, and what is answered where it is no message
    agents.py      an agent as a tool: a call is a run
    questions.py   asking the person at the client, in both eras of the protocol
    progress.py    what a run does, told while its request is open
    answers.py     the end of a run as the result of a tool
"""

from __future__ import annotations

from importlib.util import find_spec

from treadle.errors import AgentError

INSTALL = "pip install 'treadle[mcp]'"


def require_sdk() -> None:
    """Raises AgentError(invalid) where the SDK is not installed."""
    if find_spec("mcp") is None:
        raise AgentError("invalid", f"this needs the MCP SDK: {INSTALL}")
