"""Tools of MCP servers as tools of ours. The SDK is imported by the modules that speak the
protocol, at the first connection.

Not here: serving agents over MCP (mcp_server/). Entry: `McpServer` says what a server is,
`McpServers` holds those of a runtime.

    server.py      what a server is before anybody connects: place, secrets, identity
    servers.py     those of a runtime, and the tools that a run gets of them
    tool.py        one tool as the loop sees it
    upkeep.py      one server over a runtime's life, and when it is started again
    connection.py  one connection, its calls, their failures; failures.py: what our own side says in
                   place of an answer
    stdio.py       a server that is a program; lines.py: what it writes, bounded
    http.py        a server on streamable HTTP
    traffic.py     what passes between server and SDK; sieve.py: a list without what in it is no
                   tool
    questions.py   what a server asks a person
    listing.py     what a server offers, bounded; what that is called here; words.py: in
                   plain words
    content.py     an answer as a model can be shown it
    pins.py        what each tool was when it was first seen

    joining.py  the servers that one run asks for tools
"""

from __future__ import annotations

from treadle.tools.mcp.pins import ChangedTool, Pins
from treadle.tools.mcp.questions import Ask, ServerQuestion
from treadle.tools.mcp.server import McpServer
from treadle.tools.mcp.servers import McpServers
from treadle.tools.mcp.upkeep import ServerStatus

__all__ = [
    "Ask",
    "ChangedTool",
    "McpServer",
    "McpServers",
    "Pins",
    "ServerQuestion",
    "ServerStatus",
]
