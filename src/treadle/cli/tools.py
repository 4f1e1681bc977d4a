"""`treadle tools`: lists the tools that a definition can name. Entry points: `tools`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import plain
from treadle.cli.echo import echo
from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.run_options import check_directory
from treadle.cli.terminal import Ink, Style, put, put_json, table
from treadle.cli.tools_accept import accept
from treadle.config import Config, load
from treadle.config.plugins import names
from treadle.errors import AgentError
from treadle.tools.tool import Tool


@click.group(context_settings=HELP)
def tools() -> None:
    """List the tools available to agents: built-in tools, those of Python modules, of plug-ins, and
    of MCP servers.
    """


@tools.command(
    "list",
    context_settings=HELP,
    short_help="List the tools, and the effect of repeating each.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="A list of objects: name, effect, source, place, description.",
)
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=".",
    help="Directory whose configuration is used.",
)
def list_(as_json: bool, cwd: Path) -> None:
    """List the names that the `tools` of a definition can contain, in addition to names of agents.

    The effect is the consequence of repeating a call: pure changes nothing, idempotent is safe to
    repeat, once must not happen twice. MCP servers are not started: SERVER_* means all tools of a
    server.
    """
    check_directory(cwd)
    with failing():
        config = load(cwd=cwd)
        secrets = Redactor(config.secrets())
        rows, problems = _rows(config, cwd)
    for line in (*config.warnings, *problems):
        echo(f"! {plain(secrets.text(line))}", err=True)
    if as_json:
        put_json(rows, secrets)
        return
    cells = [
        [row["name"], row["effect"], row["place"], plain(_first_sentence(row["description"]))]
        for row in rows
    ]
    for line in table(
        ["name", "effect", "from", "description"], cells, ink=Ink(), style=partial(_style)
    ):
        put(secrets.text(line))


tools.add_command(accept)


def _style(column: int, text: str) -> Style:
    return "bold" if column == 0 else "yellow" if text == "once" else ""


def _rows(config: Config, cwd: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of the tools, and the problems of modules that could not be imported."""
    from treadle.agents.definitions import Catalog  # noqa: PLC0415  --help needs none of it
    from treadle.agents.definitions.modules import plugin_tool  # noqa: PLC0415  not needed for --help
    from treadle.tools.builtin.complete import Complete  # noqa: PLC0415  not needed for --help

    catalog = Catalog(config, cwd)
    rows = [_row(tool, "coding", "treadle") for tool in catalog.tool_names.coding.values()]
    rows.append(_row(Complete(None), "completion", "treadle"))
    rows += [_row(of.it, "module", of.module) for of in catalog.modules.tools.values()]
    problems = [str(problem) for problem in catalog.modules.problems]
    for name in names("tools"):
        try:
            if name not in {row["name"] for row in rows} and (of := plugin_tool(name)) is not None:
                rows.append(_row(of.it, "plug-in", of.module))
        except AgentError as e:
            problems.append(e.message)
    return [*rows, *_served(config)], problems


def _row(tool: Tool[Any], source: str, place: str) -> dict[str, Any]:
    return {
        "name": tool.name,
        "effect": tool.effect,
        "source": source,
        "place": place,
        "description": tool.definition.description,
    }


def _served(config: Config) -> Iterator[dict[str, Any]]:
    for name, server in config.mcp_servers.items():
        for tool in ("*",) if server.tools is None else server.tools:
            said = (
                f"All tools of the MCP server {name}."
                if tool == "*"
                else f"The tool {tool} of the MCP server {name}."
            )
            yield {
                "name": f"{name}_{tool}",
                "effect": "once",
                "source": "mcp",
                "place": f"mcp_servers.{name}",
                "description": said,
            }


def _first_sentence(text: str) -> str:
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".")
