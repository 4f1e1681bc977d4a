"""What a text may hold that could not be parsed: every place where a denied or dangerous program is named, however it is quoted.

It sees too much rather than too little, in time that grows with the text alone. Entry: `commands_in`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_HITS = 1_000
_REACH = 600
"""Characters behind a program's name that are looked at."""
_QUOTES = str.maketrans("", "", "'\"\\")
_END = re.compile(r"[;&|\n()`]|\$\(")
_BLANKS = re.compile(r"[\s,{}<>]+")


class TooMany(Exception):
    """The text names such programs more often than can be looked at."""


def commands_in(text: str, programs: Iterable[str]) -> Iterator[list[str]]:
    """Words from each mention of one of `programs` to what may end its command. Raises TooMany."""
    names = "|".join(sorted({re.escape(name) for name in programs}, key=len, reverse=True))
    if not names:
        return
    bare = text.replace("\\\n", "").translate(_QUOTES)
    for count, found in enumerate(re.finditer(rf"(?<![\w.-])(?:{names})(?![\w-])", bare, re.IGNORECASE)):
        if count >= MAX_HITS:
            raise TooMany
        end = _END.search(bare, found.start(), found.start() + _REACH)
        yield _BLANKS.split(bare[found.start() : end.start() if end else found.start() + _REACH].strip())


def targets_in(text: str) -> Iterator[str]:
    """What stands behind a `>`. Raises TooMany."""
    for count, found in enumerate(re.finditer(r">[>|&]?\s*([^\s;&|()<>`]{1,200})", text.translate(_QUOTES))):
        if count >= MAX_HITS:
            raise TooMany
        yield found[1]
