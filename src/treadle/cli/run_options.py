"""What can be said of a run on the command line: the options of every command that begins some, and what they come to.

Not here: which conversation it belongs to, and how it looks (run.py, work.py). Entry: `run_options`, `configured`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click

from treadle.cli.exits import Failed
from treadle.cli.journal_option import journal_option
from treadle.config import FLAGS, Config, load
from treadle.types import Effort, Mode, OnAsk, OnUnknown, Settings

F = TypeVar("F", bound=Callable[..., Any])

permission_options: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--allow", metavar="RULE", multiple=True, help="Also allow this, like your permissions.allow; repeatable. Commands still need the sandbox."),
    click.option("--no-sandbox", flag_value="off", help="Do not confine commands. What would run unasked inside the sandbox then asks."),
)
"""Also of commands that go on with a run."""

_OPTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    click.option("--model", metavar="M", help="provider:id, or script:FILE, tape:FILE, record:FILE=MODEL."),
    click.option(
        "--mode", type=click.Choice(get_args(Mode)), help="What may run unasked: plan only looks; ask asks; accept-edits writes files here; full does all."
    ),
    *permission_options,
    click.option("--cwd", type=click.Path(path_type=Path), metavar="DIR", default=".", help="Where to work."),
    click.option(
        "--file", "attached", type=click.Path(path_type=Path), multiple=True, metavar="F", help="An image or a text to add to the prompt; repeatable."
    ),
    click.option("--max-turns", type=click.IntRange(1), metavar="N", help="Responses of the model."),
    click.option("--max-tool-calls", type=click.IntRange(1), metavar="N", help="Calls of tools."),
    click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Tokens of the whole run, input and output."),
    click.option("--max-output-tokens", type=click.IntRange(1), metavar="N", help="Tokens of one response."),
    click.option("--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD", help="Money for the whole run; the price of the model must be known."),
    click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="Seconds."),
    click.option("--effort", type=click.Choice([e for e in get_args(Effort) if e != "xhigh"]), help="How hard the model thinks."),
    click.option("--on-ask", type=click.Choice(get_args(OnAsk)), default="deny", help="What a call meets that needs a person: a no, or the run waits."),
    click.option(
        "--on-unknown",
        type=click.Choice(get_args(OnUnknown)),
        default="tell",
        help="Where nobody knows whether a call took effect: tell the model, wait for a person, or fail.",
    ),
    journal_option,
)


def run_options(command: F) -> F:
    """Gives a command the options of a run; those that set a key reach it through `configured`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def configured(options: Mapping[str, Any], *, cwd: Path) -> Config:
    """The configuration for runs in `cwd`, under what was said on the command line. Raises AgentError(invalid)."""
    given = {flag: value for name, value in options.items() if (flag := f"--{name.replace('_', '-')}") in FLAGS and value not in (None, ())}
    return load(cwd=cwd, flags=given)


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The options that are settings of the call: a model that does not take one is an error, and not left alone as for a default."""
    return Settings(effort=options["effort"], max_tokens=options["max_output_tokens"])


def check_directory(cwd: Path) -> None:
    """Raises Failed where `--cwd` is none."""
    if not cwd.is_dir():
        raise Failed(f"--cwd {str(cwd)!r} is no directory")
