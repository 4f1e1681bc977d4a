"""Text on stdout that is no answer of a model: how wide it is, its colours, tables, and values as JSON.

What stands in it is each command's business. Entry: `put`, `put_json`, `confirm`, `Ink`, `cut`, `table`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import click
import msgspec

from treadle.cli.exits import Failed, unwritable
from treadle.redaction import Redactor

WIDTH = 100
"""Columns that are used at most, and where nobody can tell how many there are."""
WIDTH_MIN = 40

Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow", "cyan", "alarm"]
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "alarm": "1;30;43"}


def put(text: str) -> None:
    """One text and a line end on stdout. Raises what ends a command where stdout takes no more."""
    put_bytes(text.encode("utf-8", "replace") + b"\n")


def put_bytes(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as e:
        raise unwritable(e) from e


def put_json(value: object, secrets: Redactor) -> None:
    """A value as one indented JSON text, known secrets taken out of it."""
    put(json.dumps(secrets.inside(msgspec.to_builtins(value)), indent=2, ensure_ascii=False))


def confirm(question: str, *, undone: str = "nothing was deleted") -> None:
    """Asks on a terminal. Raises Failed, with what then is not done, where nobody can be asked, and where the answer is no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failed(f"nobody is there to be asked, so {undone}: add --yes")
    if not click.confirm(question, err=True):
        raise Failed(undone, 1)


def width() -> int:
    """Columns to fill: those of the terminal where there is one, and 100 at most."""
    return max(min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH), WIDTH_MIN)


class Ink:
    """Colours, where stdout is a terminal that shows them."""

    def __init__(self, *, colour: bool | None = None) -> None:
        """`colour`: None asks the terminal and NO_COLOR."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._colour = (sys.stdout.isatty() and wanted) if colour is None else colour

    def __call__(self, text: str, style: Style) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text and self._colour else text


# ---------------------------------------------------------------- width


def columns(text: str) -> int:
    """How many columns of a terminal it takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, most: int) -> str:
    """The beginning of it that fits into so many columns, with `…` where something is missing."""
    if columns(text) <= most:
        return text
    kept, used = "", 1
    for character in text:
        used += _columns_of(character)
        if used > most:
            break
        kept += character
    return kept.rstrip() + "…"


def wrapped(text: str, most: int) -> list[str]:
    """Its lines, none wider than that, broken between words where there are any; what is indented begins so."""
    return [line for long in text.expandtabs(4).splitlines() for line in _broken(long.rstrip(), most)]


def _broken(line: str, most: int) -> list[str]:
    """By columns: not every character is one wide, and not every script has spaces."""
    if columns(line) <= most:
        return [line]
    lines, used = [""], 0
    for piece in re.findall(r" +|[^ ]+", line):
        wide = columns(piece)
        if used + wide <= most:
            lines[-1] += piece
            used += wide
        elif piece.isspace():  # it stands where the line is broken
            used = most
        elif wide <= most:
            lines.append(piece)
            used = wide
        else:
            used = _fill(lines, piece, used, most)
    return [line.rstrip() for line in lines]


def _fill(lines: list[str], word: str, used: int, most: int) -> int:
    """A word that no line can hold; gives the columns that the last line takes then."""
    for character in word:
        wide = _columns_of(character)
        if used + wide > most:
            lines.append("")
            used = 0
        lines[-1] += character
        used += wide
    return used


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, right: frozenset[str] = frozenset(), ink: Ink, style: Callable[[int, str], Style]
) -> list[str]:
    """The last column takes what is left of the width. `right`: the columns of numbers; `style(column, text)`: the colour of a cell."""
    cells = [list(row) for row in rows]
    widths = [max(columns(row[n]) for row in (list(head), *cells)) for n in range(len(head))]
    widths[-1] = min(widths[-1], max(width() - sum(widths[:-1]) - 2 * (len(head) - 1), 8))

    def line(row: Sequence[str], colour: Callable[[int, str], Style]) -> str:
        shown: list[str] = []
        for n, text in enumerate(row):
            fitted = cut(text, widths[n])
            room = " " * (widths[n] - columns(fitted))
            shown.append(room + ink(fitted, colour(n, text)) if head[n] in right else ink(fitted, colour(n, text)) + room)
        return "  ".join(shown).rstrip()

    return [line([name.upper() for name in head], lambda _, __: "dim"), *(line(row, style) for row in cells)]


# ---------------------------------------------------------------- numbers and times


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tokens(number: int) -> str:
    """In at most five characters."""
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k" if number < 99_950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M"


def money(usd: float | None, *, more: bool = False) -> str:
    """US dollars: $0.0042, $0.42, $12.30. None: what nobody knows the price of. `more`: there is something of which that is so."""
    if usd is None:
        return "unknown"
    shown = f"${usd:,.2f}" if usd >= 0.995 or usd == 0 else f"${usd:.2f}" if usd >= 0.0995 else f"${usd:.4f}" if usd >= 0.00005 else "<$0.0001"
    return f"{shown} + unknown" if more else shown


def size(size_bytes: int) -> str:
    number = float(size_bytes)
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def lasting(seconds: float) -> str:
    """A span of time: 12 ms, 3.1 s, 2:41 min, 5:02 h, 3.2 days."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}:{rest:02} min"
    if seconds < 86_370:
        hours, rest = divmod(round(seconds / 60), 60)
        return f"{hours}:{rest:02} h"
    return f"{seconds / 86_400:.1f} days"


def ago(at: datetime, now: datetime) -> str:
    """How long ago, in one number."""
    seconds = max((now - at).total_seconds(), 0)
    for most, unit, seconds_each in ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600)):
        if seconds < most:
            return f"{seconds / seconds_each:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def local(at: datetime) -> str:
    """Date and time as the clock on the wall has them."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
