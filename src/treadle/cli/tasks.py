"""`treadle tasks`: the task assistant in the terminal, and its tools for other programs. Entry: `tasks`."""

from __future__ import annotations

import click

from treadle.cli.commands import Commands
from treadle.cli.help import HELP

KNOWN = {"mcp": ("treadle.cli.tasks_mcp:mcp", "Serve the task tools to a client of the Model Context Protocol.")}


@click.group(cls=Commands, known=KNOWN, invoke_without_command=True, context_settings=HELP)
@click.pass_context
def tasks(ctx: click.Context) -> None:
    """Keep a list of tasks."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
