"""Regular expressions for `*` and `?` that match any text in linear time.

Callers define the names that patterns apply to, and handle `**`. Entry point: `wildcards`.
"""

from __future__ import annotations

import re


def wildcards(pattern: str, character: str) -> str:
    """Return a regular expression in which `*` matches any number of `character`, an expression for
    a single character, and `?` matches one.

    The text after each star except the last matches at the first possible place and never
    backtracks, so a failing match takes no longer than a successful one.
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
