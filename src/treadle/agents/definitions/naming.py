"""Resolution of names in `tools`: built-in or module tools, other agents, MCP tools, `complete`.

Entry points: `NameResolver`, `Meaning`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from treadle.agents.definitions.modules import Of, plugin_tool
from treadle.config.readers import nearest
from treadle.config.sections import McpServer
from treadle.errors import AgentError
from treadle.tools.tool import Tool

COMPLETE = "complete"
"""Name of the tool that completes a run."""


class OwnTool(NamedTuple):
    tool: Tool[Any]


class CompletionTool(NamedTuple):
    pass


class Callee(NamedTuple):
    """Another agent, called as a tool."""

    name: str


class ServerTools(NamedTuple):
    """A single tool of an MCP server, or all of them."""

    server: str
    tool: str | None
    """Tool name without the server's prefix; None for all tools."""


Meaning: TypeAlias = OwnTool | CompletionTool | Callee | ServerTools


class UnknownName(Exception):
    """Raised for an unknown or ambiguous name. The text addresses the author of the definition."""


class NameResolver:
    def __init__(
        self,
        agents: Collection[str],
        tools: Mapping[str, Of[Tool[Any]]],
        servers: Mapping[str, McpServer],
        adopt: Callable[[str], bool],
    ) -> None:
        """Create a name resolver. `tools`: tools defined in modules. `adopt`: looks for an agent
        among the plug-ins.
        """
        self._agents, self._tools, self._servers = agents, tools, servers
        self._adopt = adopt

    @cached_property
    def coding(self) -> Mapping[str, Tool[Any]]:
        from treadle.tools.builtin.coding import default_tools  # noqa: PLC0415  slow, and not every definition has tools

        return {tool.name: tool for tool in default_tools()}

    def meaning(self, name: str) -> Meaning:
        """Return the meaning of a tool name. Raises UnknownName."""
        found = self._meanings(name)
        if len(found) > 1:
            raise UnknownName(f"{name!r} is ambiguous, {' and '.join(found)}: rename one of them")
        if found:
            return next(iter(found.values()))
        if (plugged := self._plugged(name)) is not None:
            return plugged
        known = (*self.coding, COMPLETE, *self._tools, *self._agents, *self._servers)
        near = nearest(name, known)
        there_are = f"there are {', '.join(known)}" + "".join(
            f", {server}_…" for server in self._servers
        )
        raise UnknownName(
            f"there is no tool {name[:60]!r}: {f'did you mean {near!r}?' if near else there_are}"
        )

    def _plugged(self, name: str) -> Meaning | None:
        """Return the tool or agent of a plug-in. Raises UnknownName if it cannot be loaded."""
        try:
            if (of := plugin_tool(name)) is not None:
                return OwnTool(of.it)
            return Callee(name) if self._adopt(name) else None
        except AgentError as e:
            raise UnknownName(e.message) from e

    def _meanings(self, name: str) -> dict[str, Meaning]:
        """Return every meaning of a name, keyed by a description."""
        found: dict[str, Meaning] = {}
        if (tool := self.coding.get(name)) is not None:
            found["a coding tool"] = OwnTool(tool)
        if name == COMPLETE:
            found["the end of a run"] = CompletionTool()
        if (of := self._tools.get(name)) is not None:
            found[f"a tool of {of.module}"] = OwnTool(of.it)
        if name in self._agents:
            found["an agent"] = Callee(name)
        if not found and (served := self._served(name)) is not None:
            found["an MCP server's"] = served
        return found

    def _served(self, name: str) -> ServerTools | None:
        """Return the MCP tools that a name selects. Raises UnknownName for a tool that the
        configuration excludes.
        """
        if name in self._servers:
            return ServerTools(name, None)
        owners = [server for server in self._servers if name.startswith(f"{server}_")]
        if not owners:
            return None
        server = max(owners, key=len)
        tool = name.removeprefix(f"{server}_")
        if tool == "*":
            return ServerTools(server, None)
        allowed = self._servers[server].tools
        if allowed is not None and tool not in allowed:
            there = ", ".join(f"{server}_{each}" for each in allowed) or "none"
            raise UnknownName(
                f"mcp_servers.{server}.tools does not include {tool!r}: it allows {there}"
            )
        return ServerTools(server, tool) if tool else None
