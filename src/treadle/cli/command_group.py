"""Command group that imports each command only when it is called. Entry points: `CommandGroup`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from typing_extensions import override


@contextmanager
def in_one_sentence() -> Generator[None]:
    """Turn click's usage errors into CommandFailed: one sentence with a pointer to the help."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as e:
        from treadle.cli.exits import CommandFailed  # noqa: PLC0415  only where something was mistyped

        words = _in_our_words(e).rstrip(".")
        where = (
            ""
            if e.ctx is None or "`" in words
            else f"{'' if words.endswith('?') else '.'} See `{e.ctx.command_path} --help`"
        )
        raise CommandFailed(words + where) from e


def _in_our_words(error: click.UsageError) -> str:
    match error:
        case click.NoSuchOption():
            import difflib  # noqa: PLC0415  only where something was mistyped

            near = difflib.get_close_matches(
                error.option_name, error.possibilities or (), n=2, cutoff=0.7
            )
            return f"unknown option {error.option_name!r}" + (
                f": did you mean {' or '.join(near)}?" if near else ""
            )
        case click.NoSuchCommand() if error.ctx is not None and isinstance(
            error.ctx.command, click.Group
        ):
            return (
                f"unknown command {error.command_name!r}"
                f"{_nearest(error.command_name, error.ctx.command.commands)}"
            )
        case click.MissingParameter() if error.param is not None:
            return f"missing argument: {_name(error.param)}"
        case click.BadParameter() if error.param is not None:
            value, _, why = error.message.partition(" is not ")
            value = value.removesuffix(".0")
            if isinstance(error.param.type, click.IntRange | click.FloatRange):
                return f"{_name(error.param)} must be {_number(error.param.type)}, not {value}"
            return (
                (
                    f"{_name(error.param)} must be {why.rstrip('.').removeprefix('a valid ')}, not "
                    f"{value}"
                )
                if why
                else f"{_name(error.param)}: {value}"
            )
        case _ if error.message.startswith("Got unexpected extra argument"):
            said, _, words = error.message.partition("(")
            is_quoted = " " in words and not said.startswith("Got unexpected extra arguments")
            return f"unexpected argument {words.rstrip(').')!r}" + (
                "" if is_quoted else ": put words that belong together in quotes"
            )
        case _:
            is_name = error.message[:2].isupper()  # of a parameter, such as COMMAND
            return error.message if is_name else error.message[:1].lower() + error.message[1:]


def _nearest(name: str, known: Collection[str]) -> str:
    import difflib  # noqa: PLC0415  only where something was mistyped

    near = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {near[0]!r}?" if near else f". Available: {', '.join(known)}"


def _name(parameter: click.Parameter) -> str:
    return (
        parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
    )


def _number(kind: click.IntRange | click.FloatRange) -> str:
    least = (
        ""
        if kind.min is None
        else f" greater than {kind.min:g}"
        if kind.min_open
        else f" of at least {kind.min}"
    )
    return f"a {'whole ' if isinstance(kind, click.IntRange) else ''}number{least}" + (
        "" if kind.max is None else f", at most {kind.max}"
    )


def plugin_command(name: str) -> click.Command | None:
    """Return the command that a plug-in provides, or None. Raises AgentError(invalid)."""
    from treadle.config.plugins import load_plugin  # noqa: PLC0415  only for a name that is not known
    from treadle.errors import AgentError  # noqa: PLC0415  as above

    if (loaded := load_plugin("commands", name)) is None:
        return None
    if not isinstance(loaded.value, click.Command):
        kind = type(loaded.value).__name__
        raise AgentError("invalid", f"{loaded.plugin} is a {kind}, not a click command")
    return loaded.value


class CommandGroup(click.Group):
    """Group that knows the names and help lines of its commands, and imports a command only to run
    it or to show its help.
    """

    def __init__(
        self,
        *arguments: Any,
        known: Mapping[str, tuple[str, str]],
        elsewhere: Mapping[str, str] | None = None,
        plugged: bool = False,
        **more: Any,
    ) -> None:
        """Create a command group. `known` maps a name to `module:attribute` and the command's help
        line; `elsewhere` maps words that are not commands to a hint. `plugged`: plug-ins add
        commands, which are looked up only for a name that is not known.
        """
        super().__init__(*arguments, **more)
        self._known = known
        self._elsewhere = elsewhere or {}
        self._plugged = plugged

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._known, *(name for name in self._plugins() if name not in self._known)]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._known:
            return self._plugin(cmd_name)
        module, _, name = self._known[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), name)

    @override
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        # Completion resolves commands resiliently.
        if (
            args
            and args[0] not in self._known
            and not args[0].startswith("-")
            and not ctx.resilient_parsing
            and args[0] not in self._plugins()
        ):
            raise click.UsageError(f"unknown command {args[0]!r}{self._instead(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def _plugins(self) -> list[str]:
        if not self._plugged:
            return []
        from treadle.config.plugins import names  # noqa: PLC0415  only for a name that is not known

        return names("commands")

    def _plugin(self, name: str) -> click.Command | None:
        """Return the command of a plug-in, or None. Raises CommandFailed if it cannot be loaded."""
        if not self._plugged:
            return None
        from treadle.cli.exits import failing  # noqa: PLC0415  as above

        with failing():
            return plugin_command(name)

    def _instead(self, name: str) -> str:
        if name in self._elsewhere:
            return f": {self._elsewhere[name]}"
        if " " in name and "run" in self._known:
            return ': to run a prompt, use `treadle run "…"`'
        return _nearest(name, [*self._known, *self._plugins()])

    @override
    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        with in_one_sentence():
            return super().make_context(*arguments, **more)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            with in_one_sentence():
                return super().invoke(ctx)
        except KeyboardInterrupt:  # before click reports it as an error
            sys.exit(130)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._known.items()])
