"""Options of every command that starts runs, and the configuration and settings built from them.

The session and the output are options of run.py and work.py. Entry points: `run_options`,
`configured`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click

from treadle.cli.exits import CommandFailed
from treadle.cli.journal_option import journal_option
from treadle.config import FLAGS, Config, load
from treadle.types import Effort, Mode, OnAsk, OnUnknown, Settings

F = TypeVar("F", bound=Callable[..., Any])

ON_ASK: Final = (
    "If a call needs approval and no one can give it: deny denies the call, wait pauses the run "
    "until `treadle runs resume` brings the answer."
)
output_option = click.option(
    "--output",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help=(
        "What is printed: the answer; one JSON object at the end; or one line of JSON for each "
        "event."
    ),
)
output_file_option = click.option(
    "-o",
    "output_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer to FILE instead of standard output.",
)
ON_UNKNOWN: Final = (
    "If it is unknown whether a call took effect: tell the model, wait for a person, or fail."
)


def finite(ctx: click.Context, parameter: click.Parameter, value: float) -> float:
    """Reject `nan` and infinity, which click's number ranges accept. An option callback."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not finite")
    return value


permission_options: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--allow",
        metavar="RULE",
        multiple=True,
        help=(
            'Also allow this, like "npm test", "write(docs)" or fetch; repeatable. Commands '
            "still need the sandbox."
        ),
    ),
    click.option(
        "--network",
        metavar="none|open|HOST,…",
        help=(
            "Network access of commands in mode full: none, open, or these hosts; `default` means "
            "package indexes and source hosts. Default: default."
        ),
    ),
    click.option(
        "--no-sandbox",
        flag_value="off",
        help="Do not confine commands. Those that the sandbox would contain then need approval.",
    ),
)
"""Permission options, also used by commands that resume a run."""

_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--model",
        metavar="MODEL",
        help=(
            "PROVIDER:ID, as `treadle models` lists them. Default: models.large of the "
            "configuration. For tests script:FILE, tape:FILE, record:FILE=MODEL."
        ),
    ),
    click.option(
        "--mode",
        type=click.Choice(get_args(Mode)),
        help=(
            "What runs without approval. plan, ask: reading; accept-edits: also writes in DIR; "
            "full: everything not denied. plan denies everything else. Default: ask."
        ),
    ),
    *permission_options,
    click.option(
        "--cwd",
        type=click.Path(path_type=Path),
        metavar="DIR",
        default=".",
        help="Directory to work in. Default: the working directory.",
    ),
    click.option(
        "--max-turns",
        type=click.IntRange(1),
        metavar="N",
        help="Maximum number of model responses. Default: 50.",
    ),
    click.option(
        "--max-tool-calls",
        type=click.IntRange(1),
        metavar="N",
        help="Maximum number of tool calls. Default: no limit.",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(1),
        metavar="N",
        help="Maximum number of tokens in the whole run, input and output. Default: no limit.",
    ),
    click.option(
        "--max-output-tokens",
        type=click.IntRange(1),
        metavar="N",
        help="Maximum number of tokens in one response. Default: by the model.",
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(0, min_open=True),
        metavar="USD",
        help=(
            "Maximum cost of the whole run in US dollars; the price of the model must be known. "
            "Default: no limit."
        ),
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Maximum duration of the whole run. Default: 600.",
    ),
    click.option(
        "--effort",
        type=click.Choice([e for e in get_args(Effort) if e != "xhigh"]),
        help="How hard the model thinks. Default: the model's own.",
    ),
)


_UNATTENDED: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option(
        "--file",
        "attached",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="FILE",
        help="An image, a PDF or a text to add to the prompt; repeatable.",
    ),
    click.option(
        "--on-ask",
        type=click.Choice(get_args(OnAsk)),
        default="deny",
        show_default=True,
        help=ON_ASK,
    ),
    click.option(
        "--on-unknown",
        type=click.Choice(get_args(OnUnknown)),
        default="tell",
        show_default=True,
        help=ON_UNKNOWN,
    ),
)
"""Options of unattended runs."""


def run_options(command: F) -> F:
    """Add the options of an unattended run; those that set a configuration key apply through
    `configured`.
    """
    return _with(command, (*_OPTIONS, *_UNATTENDED, journal_option))


def chat_options(command: F) -> F:
    """Add the options of a run attended by a person."""
    return _with(command, (*_OPTIONS, journal_option))


def _with(command: F, options: tuple[Callable[[Any], Any], ...]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def configured(options: Mapping[str, Any], *, cwd: Path) -> Config:
    """Return the configuration for runs in `cwd`, overridden by the options.

    Raises AgentError(invalid).
    """
    given = {
        flag: value
        for name, value in options.items()
        if (flag := f"--{name.replace('_', '-')}") in FLAGS and value not in (None, ())
    }
    return load(cwd=cwd, flags=given)


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return the options that are settings of the request. Unlike a default, a setting that the
    model does not support is an error.
    """
    return Settings(effort=options["effort"], max_tokens=options["max_output_tokens"])


def check_directory(cwd: Path) -> None:
    """Raise CommandFailed if `--cwd` is not a directory."""
    if not cwd.is_dir():
        raise CommandFailed(f"--cwd {str(cwd)!r} is not a directory")
