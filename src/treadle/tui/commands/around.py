"""Commands that show agents and MCP servers: `/agents` and `/mcp`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from anyio import to_thread
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from treadle._internal.terminal_text import one_line, plain
from treadle._internal.units import count
from treadle.config import Config
from treadle.errors import AgentError
from treadle.tui.drawing import Drawing

if TYPE_CHECKING:
    from treadle.tools.mcp import ServerStatus
    from treadle.tui.desk import Desk

DESCRIPTION_CHARS: Final = 300
TOOLS_SHOWN: Final = 40
STATES: Final = {"running": "tool.mark", "failed": "error", "idle": "dim"}


# ---------------------------------------------------------------- agents


class Colleague(NamedTuple):
    name: str
    place: str
    description: str
    note: str = ""
    """Problem with the agent, or the reason why it cannot be given work."""
    is_wrong: bool = False


async def show_agents(desk: Desk, rest: str) -> None:
    found = await to_thread.run_sync(colleagues, desk.config, desk.cwd)
    if not found:
        desk.tell(
            "No agents are defined here. .treadle/agents/NAME.md defines one, in the project or "
            "in your home: `treadle init` writes an example."
        )
        return
    drawing = Drawing(desk.screen.columns, desk.theme)
    grid = Table.grid(padding=(0, 2))
    for one in found:
        about = Text(one.description, drawing.style("assistant"))
        if one.note:
            about.append(
                f"{' ' if one.description else ''}({one.note})",
                drawing.style("warning" if one.is_wrong else "dim"),
            )
        grid.add_row(
            Text(one.name, drawing.style("key")), about, Text(one.place, drawing.style("dim"))
        )
    hint = (
        "The agent hands work to one of these when it fits, or when you ask for it. `treadle "
        "agents show NAME` shows more."
    )
    desk.show(
        Group(
            Text("Agents that can be handed work", drawing.style("title")),
            grid,
            Text(hint, drawing.style("dim")),
        )
    )


def colleagues(config: Config, cwd: Path) -> list[Colleague]:
    """Return all defined agents, including broken ones.

    Blocks: reads files, and imports modules that the configuration names.
    """
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  it brings the library for YAML

    catalog = Catalog(config, cwd)
    catalog.admit_all()  # shown to a person only, never to a model
    found: list[Colleague] = []
    for name in catalog.names():
        place = _place(catalog.found.files[name].path, cwd) if name in catalog.found.files else ""
        if not place and (of := catalog.modules.agents.get(name)) is not None:
            place = one_line(of.module)
        try:
            agent = catalog.agent(name)
        except AgentError as e:
            found.append(
                Colleague(
                    one_line(name),
                    place,
                    "",
                    one_line(e.message.splitlines()[0], 400),
                    is_wrong=True,
                )
            )
            continue
        note = f"cannot be handed work: it needs {', '.join(agent.needs)}" if agent.needs else ""
        if catalog.is_untrusted(name):
            note = "cannot be handed work: its project is not trusted"
        found.append(
            Colleague(one_line(name), place, one_line(agent.description, DESCRIPTION_CHARS), note)
        )
    return found


def _place(path: Path, cwd: Path) -> str:
    """Return the path relative to `cwd` or to the home directory if it is inside one of them."""
    for base, sign in ((Path(os.path.realpath(cwd)), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return f"{sign}{plain(str(path.relative_to(base)))}"
    return plain(str(path))


# ---------------------------------------------------------------- MCP servers


async def show_servers(desk: Desk, rest: str) -> None:
    servers = await to_thread.run_sync(
        desk.conversation.runtime.mcp_servers, desk.conversation.setting.agent
    )
    if not servers:
        desk.tell(
            "No MCP servers are configured: `mcp_servers` in ~/.treadle/config.yaml names them."
        )
        return
    drawing = Drawing(desk.screen.columns, desk.theme)
    shown: list[RenderableType] = [part for server in servers for part in _server(server, drawing)]
    if any(server.state == "idle" for server in servers):
        shown.append(
            Text(
                "A server is started when a run first needs it, and stops with the chat.",
                drawing.style("dim"),
            )
        )
    if any(server.state == "failed" for server in servers):
        shown.append(
            Text("`treadle doctor --full` starts each and reports problems.", drawing.style("dim"))
        )
    desk.show(Group(*shown))


def _server(server: ServerStatus, drawing: Drawing) -> Iterator[RenderableType]:
    glyphs = drawing.theme.glyphs
    mark = {"running": glyphs.tick, "failed": glyphs.cross}.get(server.state, glyphs.dot)
    says = {
        "running": f"runs, {count(len(server.tools), 'tool')}",
        "failed": "cannot be used",
        "idle": "not started",
    }[server.state]
    head = Text()
    head.append(f"{mark} ", drawing.style(STATES[server.state]))
    head.append(one_line(server.name), drawing.style("key"))
    head.append(f"  {says}  ")
    head.append(one_line(server.place, 200), drawing.style("dim"))
    yield head
    if server.tools:
        more = (
            f" … and {len(server.tools) - TOOLS_SHOWN} more"
            if len(server.tools) > TOOLS_SHOWN
            else ""
        )
        yield Text(
            f"    {', '.join(one_line(tool) for tool in server.tools[:TOOLS_SHOWN])}{more}",
            drawing.style("dim"),
        )
    for text in server.wrong:
        yield Text(f"    {one_line(text, 600)}", drawing.style("warning"))
