"""The one way in which a command writes lines for a person: colours of our own, and nothing else
that a terminal obeys. Entry: `echo`, `shown`.
"""

from __future__ import annotations

import re
from typing import IO, Any

import click

from treadle._internal.terminal_text import plain

_INK = re.compile(r"(\x1b\[(?:0|1|2|3[1-6]|1;30;43)m)")
"""Colours of `Ink`."""


def shown(text: str) -> str:
    """Without what a terminal would obey, but colours, and without what hides or turns text."""
    if "\x1b" not in text:
        return plain(text)
    return "".join(piece if _INK.fullmatch(piece) else plain(piece) for piece in _INK.split(text))


def echo(
    text: str = "", *, err: bool = False, nl: bool = True, file: IO[Any] | None = None
) -> None:
    """A line on stdout; `err`: on stderr."""
    click.echo(shown(text), err=err, nl=nl, file=file)
