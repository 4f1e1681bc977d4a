"""A server's words before anybody reads them: without what is not seen or moves a cursor, and not
longer than said.

Entry: `plain`, `one_line`.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Controls, and formats such as the tags and the turns of direction in which instructions are
hidden.
"""
_JOINERS = "\u200c\u200d"
"""Joiners, which many scripts and emojis need."""


def plain(text: str, longest: int) -> str:
    """Lines and tabs stay."""
    cut = text[: longest + 1]
    clean = "".join(
        c for c in cut if c in "\n\t" or c in _JOINERS or unicodedata.category(c) not in _UNSEEN
    )
    return clean if len(cut) <= longest else f"{clean[:longest]}…"


def one_line(text: str, longest: int) -> str:
    return " ".join(plain(text, longest).split())
