"""Plain text of a server's texts: without invisible characters and terminal sequences, and
truncated.

Entry points: `plain`, `one_line`.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Control characters, and format characters such as tags and changes of direction, which can hide
instructions.
"""
_JOINERS = "\u200c\u200d"
"""Joiners, which many scripts and emoji need."""


def plain(text: str, longest: int) -> str:
    """Return plain text of at most `longest` characters. Lines and tabs stay."""
    cut = text[: longest + 1]
    clean = "".join(
        c for c in cut if c in "\n\t" or c in _JOINERS or unicodedata.category(c) not in _UNSEEN
    )
    return clean if len(cut) <= longest else f"{clean[:longest]}…"


def one_line(text: str, longest: int) -> str:
    return " ".join(plain(text, longest).split())
