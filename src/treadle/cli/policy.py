"""`treadle policy check`: prints the policy's decision on one command line or on a stream of them.
Runs nothing.

The decision is made in treadle.policy; this module reads input and prints results. Entry points:
`policy`.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast, get_args

import click
from typing_extensions import override

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import one_line, revealed
from treadle.cli.echo import echo
from treadle.cli.exits import CommandFailed, failing
from treadle.cli.help import HELP
from treadle.cli.run_options import check_directory
from treadle.cli.terminal import Ink, Style, put, table
from treadle.config import load
from treadle.policy.decision import Verdict
from treadle.policy.permissions import Permissions, permissions_of
from treadle.policy.policy import Decision, decide_command
from treadle.types import Mode

MAX_LINE_BYTES = 1024 * 1024
"""Maximum size of a line of `--from`: longer than any command that can be started."""
_INK: dict[Verdict, Style] = {"allow": "green", "contained": "cyan", "ask": "yellow", "deny": "red"}


class OneArgument(click.Command):
    """Command whose usage errors say to quote the argument. By default click would report options
    of the checked command as unknown options of this one.
    """

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
        # The boundary between our options and the command is ambiguous, so show an example.
        if not ours.isdisjoint(word.partition("=")[0] for word in words):
            words = ["ls", "-la"]
        return (
            "COMMAND must be a single argument: quote it, like `treadle policy check -- "
            f"{shlex.quote(shlex.join(words))}`"
        )


@click.group(context_settings=HELP)
def policy() -> None:
    """Check what would happen to a command, without running it."""


@policy.command(
    cls=OneArgument,
    context_settings=HELP,
    short_help="Print what would happen to a command, and why.",
)
@click.argument("command", required=False)
@click.option(
    "--from",
    "source",
    metavar="FILE|-",
    help=(
        "Read commands from a file or standard input (-), one JSON object per line, like "
        '{"command": "ls"}.'
    ),
)
@click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    help="As for `treadle run`. Default: from the configuration.",
)
@click.option(
    "--allow", metavar="RULE", multiple=True, help='Also allow this, like "npm test"; repeatable.'
)
@click.option(
    "--deny", metavar="RULE", multiple=True, help='Also deny this, like "git push"; repeatable.'
)
@click.option(
    "--cwd",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=".",
    help="Where it would run. Default: the working directory.",
)
def check(
    command: str | None,
    source: str | None,
    mode: str | None,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    cwd: Path,
) -> None:
    """Print what would happen to COMMAND: the decision, the reason, and the commands found in it.
    As JSON, except on a terminal.

    COMMAND is one argument, in quotes, like: treadle policy check -- "git push --force".

    allow: it runs without approval, with or without a sandbox. contained: it runs without approval
    inside the sandbox only, else it asks. ask: it needs approval, and is denied if no one can
    approve. deny: it is denied whatever a rule or a mode allows.

    With --from, each line of the input is a JSON object with `command` and, if it differs from
    --mode, `mode`. Each gets one result line, in the order of the input and as soon as it is read;
    a bad line gets one with `error` and its number.

    Exits with 0 whatever the decision, and with 2 if a line of --from is bad.
    """
    if (command is None) == (source is None):
        raise click.UsageError(
            "give either COMMAND, one argument in quotes, or --from with a file of JSON lines"
            + (", not both" if source else "")
        )
    check_directory(cwd)
    with failing():
        flags = {"--mode": mode, "--allow": allow or None, "--deny": deny or None}
        config = load(cwd=cwd, flags=flags)
        for warning in config.warnings:
            echo(f"! {warning}", err=True)
        said = config.permissions
        permissions = permissions_of(
            allow=said.allow, ask=said.ask, deny=said.deny, own=config.home
        )
    checker = _Checker(config.defaults.mode, cwd.resolve(), permissions, Redactor(config.secrets()))
    if source is None:
        assert command is not None
        checker.show(command, checker.decision(command, config.defaults.mode))
    elif not checker.stream(source):
        sys.exit(2)


# ---------------------------------------------------------------- one result


class _Checker(NamedTuple):
    """Checker of commands with the same mode, directory and permissions."""

    mode: Mode
    cwd: Path
    permissions: Permissions
    secrets: Redactor

    def decision(self, command: str, mode: Mode) -> Decision:
        return decide_command(mode, command, self.cwd, self.permissions)

    def show(self, command: str, decision: Decision) -> None:
        lines = (
            _for_a_person(command, decision)
            if sys.stdout.isatty()
            else [json.dumps(_as_json(decision))]
        )
        put(self.secrets.exact("\n".join(lines)))

    def stream(self, source: str) -> bool:
        """Answer each line of the input. Return True if every line was valid."""
        all_well = True
        with _opened(source) as stream:
            for number, line in enumerate(_lines(stream), 1):
                if number > 1 and sys.stdout.isatty():
                    put("")
                try:
                    command, mode = _request(line, self.mode)
                except ValueError as e:
                    all_well = False
                    put(
                        self.secrets.exact(
                            f"! line {number}: {e}"
                            if sys.stdout.isatty()
                            else json.dumps({"error": str(e), "line": number})
                        )
                    )
                else:
                    self.show(command, self.decision(command, mode))
        return all_well


def _as_json(decision: Decision) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "decision": decision.verdict,
        "why": decision.reason,
        "commands": [
            {"argv": list(each.argv), "decision": each.verdict, "why": each.why}
            for each in decision.commands
        ],
    }
    if decision.pattern is not None:
        answer["pattern"] = list(decision.pattern)
    return answer


def _for_a_person(command: str, decision: Decision) -> list[str]:
    """Return the lines for a terminal: the decision with its reason, a row for each command found,
    and the rules that would allow the command line.
    """
    ink = Ink()
    lines = [ink(decision.verdict, _INK[decision.verdict]) + f"  {one_line(revealed(command))}"]
    if decision.reason:
        lines.append(f"why: {revealed(decision.reason)}")
    rows = [
        (
            each.verdict,
            one_line(revealed(shlex.join(each.argv)), 60),
            each.why and one_line(revealed(each.why)),
        )
        for each in decision.commands
    ]
    if rows:
        lines += table(
            ("decision", "command", "why"),
            rows,
            ink=ink,
            style=lambda column, text: _INK[cast("Verdict", text)] if column == 0 else "",
        )
    if decision.pattern is not None:
        lines.append(
            "allowed by: "
            + ", ".join(f"--allow {shlex.quote(revealed(rule))}" for rule in decision.pattern)
        )
    return lines


# ---------------------------------------------------------------- a stream of commands


def _opened(source: str) -> Any:
    """Return a context manager for the input as bytes. Raises CommandFailed if the file cannot be
    read.
    """
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(source).open("rb")
    except OSError as e:
        raise CommandFailed(f"cannot read {source!r}: {e.strerror or e}") from e


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield each line once it is complete, without its line end, truncated above MAX_LINE_BYTES."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES)
        yield line.removesuffix(b"\n")


def _request(line: bytes, mode: Mode) -> tuple[str, Mode]:
    """Return the command and the mode of a line. `mode`: mode of a line that names none.

    Raises ValueError with a message for users.
    """
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise ValueError("it is not valid JSON") from e
    if not isinstance(value, dict):
        raise ValueError('it is not a JSON object like {"command": "ls"}')
    said = cast("dict[str, object]", value)
    command, wanted = said.get("command"), said.get("mode")
    if not isinstance(command, str):
        raise ValueError("it has no command" if command is None else "its command is not text")
    try:
        command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as e:
        raise ValueError(
            "its command has half of a surrogate pair, which cannot be passed to a program"
        ) from e
    if wanted is not None and wanted not in get_args(Mode):
        raise ValueError(f"its mode must be one of {', '.join(get_args(Mode))}")
    return command, mode if wanted is None else cast("Mode", wanted)
