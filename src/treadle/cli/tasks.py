"""`treadle tasks`: the task assistant in the terminal, and its tools over MCP. Entry points:
`tasks`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from typing_extensions import override

from treadle.cli.command_group import CommandGroup
from treadle.cli.database_option import database_option, require_database
from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.journal_option import journal_option

F = TypeVar("F", bound=Callable[..., Any])

KNOWN = {
    "mcp": (
        "treadle.cli.tasks_mcp:mcp",
        "Serve the task tools to a client of the Model Context Protocol.",
    )
}
MODEL = (
    "PROVIDER:ID, or `embedded`, which needs no key. Default: the configured model if it has a "
    "key, else embedded."
)


def _options(command: F) -> F:
    return click.option("--model", metavar="MODEL", help=MODEL)(
        database_option(journal_option(command))
    )


class _Talk(CommandGroup):
    """Group that treats an unknown command as a message."""

    @override
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in KNOWN and not ctx.resilient_parsing:
            return "say", say, args
        return super().resolve_command(ctx, args)

    @override
    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] [MESSAGE | mcp]")


@click.group(cls=_Talk, known=KNOWN, invoke_without_command=True, context_settings=HELP)
@_options
@click.pass_context
def tasks(ctx: click.Context, **options: str | None) -> None:
    """Keep a list of tasks, in plain language: `treadle tasks "add milk tomorrow"`.

    Without MESSAGE it prompts for messages; from a pipe it reads one per line. Ctrl-C stops the
    current message, Ctrl-D ends. Deleting tasks, or changing many at the same time, needs
    the confirmation that the reply asks for: `treadle tasks "yes delete"`.

    Exits with 0, with 1 if a message failed, 2 on a usage error, 3 on a timeout, 130 when stopped.
    """
    ctx.obj = options
    if ctx.invoked_subcommand is None:
        _talk((), options)


@click.command(hidden=True, context_settings=HELP)
@click.argument("words", nargs=-1, metavar="MESSAGE")
@_options
@click.pass_obj
def say(before: dict[str, str | None], words: tuple[str, ...], **options: str | None) -> None:
    """Send one message."""
    _talk(
        words,
        {name: value if value is not None else before.get(name) for name, value in options.items()},
    )


def _talk(words: tuple[str, ...], options: dict[str, str | None]) -> None:
    with failing():
        require_database()
    from treadle.cli.tasks_chat import talk  # noqa: PLC0415  --help needs none of it

    sys.exit(talk(" ".join(words), options))
