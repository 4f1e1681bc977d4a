"""`treadle tasks mcp`: serves the task tools as MCP tools over standard input and output.

The tools are in treadle.apps.assistant. Entry points: `mcp`.
"""

from __future__ import annotations

import sys

import anyio
import click

from treadle.cli.database_option import database_option, database_url, require_database
from treadle.cli.echo import echo
from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.mcp import Stopped


@click.command(context_settings=HELP)
@database_option
@click.pass_obj
def mcp(before: dict[str, str | None] | None, database: str | None) -> None:
    """Serve the task tools over the Model Context Protocol, on standard input and output.

    A client starts this command. The tasks are those of `treadle tasks`. Deleting tasks, or
    changing many, needs the user's confirmation: through the client if it supports that, else with
    a code in a second call.

    Ends when the client closes the input, with exit code 0; with 2 on a usage error, 130 when
    stopped.
    """
    from treadle.apps.mcp_server import require_sdk  # noqa: PLC0415  --help needs none of it

    with failing():
        require_database()
        require_sdk()
        url = database_url(database or (before or {}).get("database"))
        stopped = anyio.run(_serve, url)
    sys.exit(130 if stopped else 0)


async def _serve(url: str) -> bool:
    """Serve until the input closes. Return True if a signal ended it."""
    from treadle.apps.assistant.over_mcp import tasks_over_mcp  # noqa: PLC0415  not needed for --help
    from treadle.apps.assistant.server import MCPToolServer  # noqa: PLC0415  not needed for --help
    from treadle.apps.assistant.terminal_user import terminal_user  # noqa: PLC0415  not needed for --help
    from treadle.apps.mcp_server.stdio import serve_stdio  # noqa: PLC0415  brings the SDK
    from treadle.service.database.database import Database  # noqa: PLC0415  brings SQLAlchemy

    stopped = Stopped()
    async with Database.open(url) as database:
        server = tasks_over_mcp(MCPToolServer(database), lambda _: terminal_user())
        if sys.stdin.isatty():
            echo(
                (
                    "! serving tasks to an MCP client on standard input, which is meant for "
                    "programs; Ctrl-C stops it"
                ),
                err=True,
            )
        async with anyio.create_task_group() as group:
            group.start_soon(stopped.watch, group.cancel_scope)
            await serve_stdio(server)
            group.cancel_scope.cancel()
    return stopped.by_signal
