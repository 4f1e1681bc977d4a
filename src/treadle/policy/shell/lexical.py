"""Search of unparsed text for mentions of denied or dangerous programs, in any quoting.

Takes linear time, and prefers false positives to false negatives. Entry points: `commands_in`,
`invisible_in`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

MAX_HITS = 1_000
_REACH = 600
"""Number of characters to examine from a program's name on."""
_QUOTES = str.maketrans("", "", "'\"\\")
_END = re.compile(r"[;&|\n()`]|\$\(")
_BLANKS = re.compile(r"[\s,{}<>]+")


class TooManyMentions(Exception):
    """Raised if a text mentions such programs too often."""


def commands_in(text: str, programs: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words from each mention of one of `programs` to the possible end of its command.

    Raises TooManyMentions.
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
    """Return True if an unparsed text mentions one of `programs`."""
    try:
        return next(commands_in(text, programs), None) is not None
    except TooManyMentions:
        return True


def targets_in(text: str) -> Iterator[str]:
    """Yield the targets of `>`. Raises TooManyMentions."""
    for count, found in enumerate(
        re.finditer(r">[>|&]?\s*([^\s;&|()<>`]{1,200})", text.translate(_QUOTES))
    ):
        if count >= MAX_HITS:
            raise TooManyMentions
        yield found[1]


def places_in(text: str, home: str) -> list[str]:
    """Return everything in a text that may be an absolute path, a path in the home folder, or one
    that begins with `..`.
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
    """Return the code point of the first character that is invisible or looks like a blank."""
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
