"""A group of commands that imports each of them only when it is called. Which there are is said where a group is made. Entry: `Commands`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import click
from typing_extensions import override


class Commands(click.Group):
    """Knows every command's name and line of help, and imports a command only to run it or to show its own help."""

    def __init__(self, *arguments: Any, known: Mapping[str, tuple[str, str]], **more: Any) -> None:
        """`known`: by name, where the command is, as `module:name`, and its line of help."""
        super().__init__(*arguments, **more)
        self._known = known

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._known)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._known:
            return None
        module, _, name = self._known[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    @override
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self._known and not args[0].startswith("-") and not ctx.resilient_parsing:  # which is how completion asks
            import difflib  # noqa: PLC0415  only where something was mistyped

            near = difflib.get_close_matches(args[0], self._known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" There are: {', '.join(self._known)}."
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
            formatter.write_dl([(name, line) for name, (_, line) in self._known.items()])
