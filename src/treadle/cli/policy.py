"""`treadle policy check`: what would happen to a command, as JSON. Nothing is run. Entry: `policy`.

The decision is policy.py's; here it is only asked for and shown.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, get_args

import click
from typing_extensions import override

from treadle.cli.exits import failing
from treadle.cli.help import HELP
from treadle.cli.run_options import check_directory
from treadle.config import load
from treadle.policy import decide_command, permissions_of
from treadle.redaction import Redactor
from treadle.types import Mode


class OneArgument(click.Command):
    """Says how a command with options is given: left to itself the parser speaks of options of ours that are not there."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as e:
            if e.possibilities:
                raise
            raise click.UsageError(self._in_quotes(given), ctx) from e
        except click.UsageError as e:
            if not e.message.startswith("Got unexpected extra argument"):
                raise
            raise click.UsageError(self._in_quotes(given), ctx) from e

    def _in_quotes(self, given: list[str]) -> str:
        ours = {spelling for parameter in self.params for spelling in parameter.opts}
        words = [word for word in given if word != "--"]
        if not ours.isdisjoint(word.partition("=")[0] for word in words):  # which of them belong to the command is anybody's guess
            words = ["ls", "-la"]
        return f"COMMAND is one argument: put it in quotes, like `treadle policy check -- {shlex.quote(shlex.join(words))}`"


@click.group(context_settings=HELP)
def policy() -> None:
    """Say what would happen to a command, without running it."""


@policy.command(cls=OneArgument, context_settings=HELP, short_help="Print what would happen to a command, and why.")
@click.argument("command")
@click.option("--mode", type=click.Choice(get_args(Mode)), help="As for `treadle run`. Default: that of the configuration.")
@click.option("--allow", metavar="RULE", multiple=True, help='Also allow this, like "npm test"; repeatable.')
@click.option("--deny", metavar="RULE", multiple=True, help='Also deny this, like "git push"; repeatable.')
@click.option("--cwd", type=click.Path(path_type=Path), metavar="DIR", default=".", help="Where it would run. Default: the working directory.")
def check(command: str, mode: str | None, allow: tuple[str, ...], deny: tuple[str, ...], cwd: Path) -> None:
    """Print what would happen to COMMAND, as JSON: decision, why, and the commands found in it.

    COMMAND is one argument, in quotes, like: treadle policy check -- "git push --force".

    allow: it runs unasked, with or without a sandbox. contained: unasked inside the sandbox only, else it asks. ask: it needs a
    person, and without one it is refused. deny: it is refused whatever a rule or a mode says.

    Exits with 0 whatever the decision.
    """
    check_directory(cwd)
    with failing():
        flags = {"--mode": mode, "--allow": allow or None, "--deny": deny or None}
        config = load(cwd=cwd, flags=flags)
        for warning in config.warnings:
            click.echo(f"! {warning}", err=True)
        said = config.permissions
        permissions = permissions_of(allow=said.allow, ask=said.ask, deny=said.deny, own=config.home)
    decision = decide_command(config.defaults.mode, command, cwd.resolve(), permissions)
    answer: dict[str, Any] = {
        "decision": decision.verdict,
        "why": decision.reason,
        "commands": [{"argv": list(each.argv), "decision": each.verdict, "why": each.why} for each in decision.commands],
    }
    if decision.pattern is not None:
        answer["pattern"] = list(decision.pattern)
    text = json.dumps(answer, ensure_ascii=True, indent=2 if sys.stdout.isatty() else None)
    click.echo(Redactor(config.secrets()).exact(text))
