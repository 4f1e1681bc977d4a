"""Tables, colours, JSON and confirmations on the terminal.

Sanitising is in terminal_text.py. Entry points: `put`, `put_json`, `confirm`, `Ink`,
`table`, `limit_option`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import click
import msgspec

from treadle._internal.redaction import Redactor
from treadle._internal.terminal_text import columns, cut, json_shown
from treadle.cli.echo import shown
from treadle.cli.exits import CommandFailed, unwritable

WIDTH = 100
"""Maximum width of output, and its width if that of the terminal is unknown."""
WIDTH_MIN = 40

Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow", "cyan", "alarm"]
_CODES: dict[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "alarm": "1;30;43",
}


def put(text: str) -> None:
    """Print a sanitised text and a line end on stdout. Raises BrokenPipeError or CommandFailed if
    stdout cannot be written.
    """
    _write(shown(text).encode("utf-8", "replace") + b"\n")


def put_bytes(data: bytes) -> None:
    """Write JSON to stdout byte for byte; on a terminal, escape control characters as JSON does.
    Raises as `put`.
    """
    if sys.stdout.isatty():
        data = json_shown(data.decode("utf-8", "replace")).encode()
    _write(data)


def _write(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as e:
        raise unwritable(e) from e


def put_json(value: object, secrets: Redactor) -> None:
    """Print a value as indented JSON with known secrets masked."""
    text = json.dumps(secrets.inside(msgspec.to_builtins(value)), indent=2, ensure_ascii=False)
    _write(json_shown(text).encode("utf-8", "replace") + b"\n")


def confirm(question: str, *, undone: str = "nothing was deleted") -> None:
    """Ask for confirmation on the terminal.

    Raises CommandFailed with `undone` if there is no terminal to ask on, or if the answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandFailed(f"there is no terminal to ask on, so {undone}: add --yes")
    if not click.confirm(question, err=True):
        raise CommandFailed(undone, 1)


def width() -> int:
    """Return the terminal's width, at most 100."""
    return max(min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH), WIDTH_MIN)


class Ink:
    """Colours, applied if stdout is a terminal that shows them."""

    def __init__(self, *, colour: bool | None = None) -> None:
        """Create a palette. `colour`: overrides the detection by terminal and NO_COLOR."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._colour = (sys.stdout.isatty() and wanted) if colour is None else colour

    def __call__(self, text: str, style: Style) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text and self._colour else text


def limit_option(text: str) -> Callable[[Any], Any]:
    """Return the option `--limit`, the number of rows of a list. `text`: its help."""
    return click.option(
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        default=20,
        show_default=True,
        help=text,
    )


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: frozenset[str] = frozenset(),
    ink: Ink,
    style: Callable[[int, str], Style],
    most: int | None = None,
) -> list[str]:
    """Format rows as lines. The last column is cut to the remaining width.

    `right`: names of right-aligned columns. `style(column, text)`: returns the style of a cell.
    `most`: total width, by default `width()`.
    """
    cells = [list(row) for row in rows]
    widths = [max(columns(row[n]) for row in (list(head), *cells)) for n in range(len(head))]
    widths[-1] = min(widths[-1], max((most or width()) - sum(widths[:-1]) - 2 * (len(head) - 1), 8))

    def line(row: Sequence[str], colour: Callable[[int, str], Style]) -> str:
        shown: list[str] = []
        for n, text in enumerate(row):
            fitted = cut(text, widths[n])
            room = " " * (widths[n] - columns(fitted))
            shown.append(
                room + ink(fitted, colour(n, text))
                if head[n] in right
                else ink(fitted, colour(n, text)) + room
            )
        return "  ".join(shown).rstrip()

    return [
        line([name.upper() for name in head], lambda _, __: "dim"),
        *(line(row, style) for row in cells),
    ]
