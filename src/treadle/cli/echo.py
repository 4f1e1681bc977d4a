"""Sanitised output for people: keeps Treadle's own colours and drops every other control sequence.
Entry points: `echo`, `shown`.
"""

from __future__ import annotations

import re
from typing import IO, Any

import click

from treadle._internal.terminal_text import plain

_INK = re.compile(r"(\x1b\[(?:0|1|2|3[1-6]|1;30;43)m)")
"""Pattern of the colours of `Ink`."""


def shown(text: str) -> str:
    """Return `text` without control sequences other than colours, and without hidden or
    bidirectional characters.
    """
    if "\x1b" not in text:
        return plain(text)
    return "".join(piece if _INK.fullmatch(piece) else plain(piece) for piece in _INK.split(text))


def echo(
    text: str = "", *, err: bool = False, nl: bool = True, file: IO[Any] | None = None
) -> None:
    """Print a sanitised line on stdout, or on stderr if `err`."""
    click.echo(shown(text), err=err, nl=nl, file=file)
