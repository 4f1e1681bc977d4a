"""Search of a text that could not be parsed: every place that names a denied or dangerous program,
in any quoting.

It finds too much rather than too little, in time linear in the text. Entry points: `commands_in`,
`invisible_in`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

MAX_HITS = 1_000
_REACH = 600
"""Number of characters that are inspected after a program's name."""
_QUOTES = str.maketrans("", "", "'\"\\")
_END = re.compile(r"[;&|\n()`]|\$\(")
_BLANKS = re.compile(r"[\s,{}<>]+")


class TooManyMentions(Exception):
    """Raised if the text names such programs too often to inspect."""


def commands_in(text: str, programs: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words from each mention of one of `programs` to the possible end of its command.
    Raises TooMany.
    """
    names = "|".join(sorted({re.escape(name) for name in programs}, key=len, reverse=True))
    if not names:
        return
    bare = text.replace("\\\n", "").translate(_QUOTES)
    for count, found in enumerate(
        re.finditer(rf"(?<![\w.-])(?:{names})(?![\w-])", bare, re.IGNORECASE)
    ):
        if count >= MAX_HITS:
            raise TooManyMentions
        end = _END.search(bare, found.start(), found.start() + _REACH)
        yield _BLANKS.split(
            bare[found.start() : end.start() if end else found.start() + _REACH].strip()
        )


def names_one_of(programs: Iterable[str], text: str) -> bool:
    """Return True if a text that could not be parsed names one of `programs`."""
    try:
        return next(commands_in(text, programs), None) is not None
    except TooManyMentions:
        return True


def targets_in(text: str) -> Iterator[str]:
    """Yield the targets of `>`. Raises TooMany."""
    for count, found in enumerate(
        re.finditer(r">[>|&]?\s*([^\s;&|()<>`]{1,200})", text.translate(_QUOTES))
    ):
        if count >= MAX_HITS:
            raise TooManyMentions
        yield found[1]


def places_in(text: str, home: str) -> list[str]:
    """Return what may be an absolute path, a path above this folder or one in the home folder,
    wherever it stands.
    """
    pieces = dict.fromkeys(
        re.split(
            r"[^\w./~$@%+-]+", text.replace("${HOME}", "~").replace("$HOME", "~").replace("\\", "")
        )
    )
    return [
        home + piece[1:] if piece.startswith("~") else piece
        for piece in pieces
        if piece.startswith(("/", "~", ".."))
    ]


SPLICED = re.compile(r"[^\s\\]\\\n\S|\\\\\n")


def invisible_in(text: str) -> str | None:
    """Return the code of the first character that is invisible or only looks like a blank."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return None
    for c in text:
        if c in "\n\t " or (c.isascii() and c.isprintable()):
            continue
        if (
            unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
            or c in "\u115f\u1160\u3164\uffa0\u2800\u034f"
            or "\ufe00" <= c <= "\ufe0e"
        ):
            return f"U+{ord(c):04X}"
    return None
