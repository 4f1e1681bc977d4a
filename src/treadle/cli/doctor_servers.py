"""MCP server checks of `treadle doctor`. Servers are started only with `--full`. Entry points:
`server_findings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from treadle._internal.environment import child_environment
from treadle._internal.units import count
from treadle.config import Config
from treadle.errors import AgentError

if TYPE_CHECKING:
    from treadle.tools.mcp import McpServer


def server_findings(
    config: Config, *, full: bool, offline: bool
) -> Iterator[tuple[Literal["ok", "note", "bad"], str]]:
    """Yield a finding for each configured server. `offline`: skip the servers that have a URL."""
    if not config.mcp_servers:
        return
    from treadle.tools.mcp import McpServer  # noqa: PLC0415  only if servers are configured
    from treadle.tools.mcp.joining import LEFT_OUT  # noqa: PLC0415  only if servers are configured
    from treadle.tools.mcp.servers import INSTALL  # noqa: PLC0415  only if servers are configured

    if find_spec("mcp") is None:
        yield (
            "bad",
            f"{', '.join(config.mcp_servers)}: MCP servers need the official SDK: {INSTALL}",
        )
        return
    if not full:
        yield (
            "note",
            (
                f"{', '.join(config.mcp_servers)}: not checked; --full starts them and lists "
                "their tools"
            ),
        )
        return
    servers: list[McpServer] = []
    for name, settings in config.mcp_servers.items():
        if offline and settings.url is not None:
            yield "note", f"{name}: not checked, because of --offline"
            continue
        try:
            servers.append(McpServer.of(name, settings, cwd=Path.cwd()))
        except AgentError as e:
            yield "bad", e.message
    try:
        found = anyio.run(_asked, config, servers)
    except AgentError as e:
        yield "bad", e.message
        return
    for server, (tools, said) in zip(servers, found, strict=True):
        if tools or not said:
            yield "ok", f"{server.name}: {count(tools, 'tool')} from {server.place}"
        for text in said:
            yield "note" if tools else "bad", text.removesuffix(LEFT_OUT)


async def _asked(config: Config, servers: list[McpServer]) -> list[tuple[int, list[str]]]:
    """Return the number of tools and the problems of each server, in order."""
    from treadle.tools.mcp import McpServers  # noqa: PLC0415  as above

    found: list[tuple[int, list[str]]] = [(0, []) for _ in servers]
    async with (
        McpServers(environment=child_environment(config.secrets())) as started,
        anyio.create_task_group() as group,
    ):

        async def ask(at: int) -> None:
            said = list[str]()
            tools = await started.tools([servers[at]], warn=said.append)
            found[at] = (len(tools), said)

        for at in range(len(servers)):
            group.start_soon(ask, at)
    return found
