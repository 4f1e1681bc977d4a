"""Agents as tools of a Model Context Protocol server, on stdio or in a web application.

See also: tools of other servers (tools/mcp), the command (cli/mcp.py). The modules below import the
SDK, this one does not. Entry points: `require_sdk`, then `ToolServer`, `AgentTool` and
`serve_stdio`.

    server.py      a server for any tools
    stdio.py       exclusive use of standard input and output
    lines.py       splitting input into lines, and refusals of invalid ones
    agents.py      an agent as a tool: each call is a run
    questions.py   asking the person at the client, in both eras of the protocol
    progress.py    progress of a run while its request is open
    answers.py     the end of a run as a tool result
"""

from __future__ import annotations

from importlib.util import find_spec

from treadle.errors import AgentError

INSTALL = "pip install 'treadle[mcp]'"


def require_sdk() -> None:
    """Raise AgentError(invalid) if the SDK is not installed."""
    if find_spec("mcp") is None:
        raise AgentError("invalid", f"this needs the MCP SDK: {INSTALL}")
