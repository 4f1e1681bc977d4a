"""The tree of commands, and how errors reach a person. Entry: `app`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click
from typing_extensions import override

from treadle import __version__
from treadle.cli.help import HELP

COMMANDS = {
    "run": ("treadle.cli.run:run", "Run a prompt to its end, headless."),
    "demo": ("treadle.cli.demo:demo", "Watch it find, fix and prove a bug. Needs no key."),
    "config": ("treadle.cli.config:config", "Show, check and set settings."),
    "doctor": ("treadle.cli.doctor:doctor", "Test keys, connection and tools."),
    "completion": ("treadle.cli.completion:completion", "Print shell completion for bash, zsh or fish."),
}


class Commands(click.Group):
    """Knows every command's name and line of help, and imports a command only to run it or to show its own help."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    @override
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:  # which is how completion asks
            import difflib  # noqa: PLC0415  likewise

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(COMMANDS)}."
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # before click takes it for an error
            sys.exit(130)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=Commands, context_settings=HELP)
@click.version_option(__version__, "-V", "--version", message="treadle %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Treadle runs agents: a language model, tools, and the loop between them.

    Start with `treadle demo`, or set ANTHROPIC_API_KEY and `treadle run "…"`.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False  # of every command's output, on a terminal too
    try:
        os.getcwd()
    except OSError as e:
        from treadle.cli.exits import Failed  # noqa: PLC0415  --help must not wait for what only an error needs

        raise Failed("the working directory is gone: change to one that is there") from e
