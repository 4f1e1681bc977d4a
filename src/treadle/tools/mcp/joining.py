"""Tools of the servers that one run uses: of those that have responded, and of those that join
later.

Entry point: `Joining`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import anyio

from treadle.tools.mcp.server import McpServer
from treadle.tools.mcp.tool import McpTool

LEFT_OUT = "; its tools are not available in this run"
"""End of the warning about an unusable server."""


class Joining:
    """Tools of a run's servers, added by the tasks that list them and taken by the run. Not
    thread-safe.
    """

    def __init__(self, servers: Sequence[McpServer], taken: Collection[str]) -> None:
        """Create a collection of tools that join. `taken`: names of the run's own tools."""
        self.found: dict[McpServer, list[McpTool]] = {}
        self.missed: dict[McpServer, str] = {}
        """Reasons why servers are unusable."""
        self.notes: list[str] = []
        """Messages for the user, not taken yet."""
        self._names = {*taken}
        self._names_of_servers = tuple(dict.fromkeys(server.name for server in servers))
        self.servers = tuple(dict.fromkeys(servers))
        self._open = [*self.servers]
        """Servers whose tools the run has not taken, in order."""
        self._late = False
        self._settled = anyio.Event()

    def settle(self) -> None:
        """Record that a server has responded or failed."""
        if all(server in self.found or server in self.missed for server in self._open):
            self._settled.set()

    async def wait(self, within_s: float) -> None:
        """Wait up to `within_s` seconds until every server has responded or failed."""
        with anyio.move_on_after(within_s):
            await self._settled.wait()

    def take(self) -> tuple[list[McpTool], list[str]]:
        """Return the tools that have arrived since the last call, and messages for the user.

        The messages of the first call name the servers that have not responded yet.
        """
        tools = list[McpTool]()
        for server in [one for one in self._open if one in self.found or one in self.missed]:
            self._open.remove(server)
            tools += self._of(server)
        if not self._late:
            self._late = True
            self.notes += [
                (
                    f"the MCP server {one.name!r} has not started yet: the run begins without its "
                    "tools, which join at a later turn"
                )
                for one in self._open
            ]
        notes, self.notes = self.notes, []
        return tools, notes

    def _rival(self, server: McpServer, tool: McpTool) -> str | None:
        """Return another server whose names include this tool's: `a` has a tool `b_do`, and there
        is a server `a_b`. None if there is none.
        """
        longer = [name for name in self._names_of_servers if len(name) > len(server.name)]
        return next((name for name in longer if tool.name.startswith(f"{name}_")), None)

    def _of(self, server: McpServer) -> list[McpTool]:
        if (why := self.missed.get(server)) is not None:
            self.notes.append(why + LEFT_OUT)
            return []
        tools = list[McpTool]()
        for tool in self.found[server]:
            if (rival := self._rival(server, tool)) is not None:
                self.notes.append(
                    f"the MCP server {server.name!r}: its tool {tool.name!r} is not offered, "
                    f"because it is named like one of the server {rival!r}, whose rules would "
                    "apply to it: rename one of the two servers"
                )
            elif tool.name in self._names:
                note = (
                    f"its tool {tool.name!r} is not offered, because another tool has that name: "
                    "rename the server"
                )
                self.notes.append(f"the MCP server {tool.server!r}: {note}")
            else:
                self._names.add(tool.name)
                tools.append(tool)
        if self._late:
            self.notes.append(
                f"the MCP server {server.name!r} has started: its tools are available from "
                f"this turn on ({len(tools)})"
            )
        return tools
