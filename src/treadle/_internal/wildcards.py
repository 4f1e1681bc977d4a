"""`*` and `?` as regular expressions that stay quick on whatever they are held against.

What the names are that such patterns are about, and `**`, is for whoever has them. Entry:
`wildcards`.
"""

from __future__ import annotations

import re


def wildcards(pattern: str, character: str) -> str:
    """A regular expression: `*` is any number of `character`, itself one for a single character,
    and `?` is one of it.

    Each star but the last takes the first place where what follows it fits, and never another: so
    it takes no time to find that nothing does.
    """
    first, *more = (
        "".join(character if c == "?" else re.escape(c) for c in piece)
        for piece in pattern.split("*")
    )
    if not more:
        return first
    *middle, last = more
    return "".join(
        [first, *(f"(?>{character}*?{piece})" for piece in middle if piece), f"{character}*{last}"]
    )
