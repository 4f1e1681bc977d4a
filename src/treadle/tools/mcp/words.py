"""Plain text from a server's texts: without invisible characters and terminal sequences, and
truncated.

Entry points: `plain`, `one_line`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Control characters, and format characters such as tags and direction marks, which can hide
instructions.
"""
_BLANK = frozenset(
    {
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE0E),
        *range(0xE0100, 0xE01F0),
    }
)
"""Letters and marks that are also invisible: variation selectors can carry a byte each. Source:
Unicode's Default_Ignorable_Code_Point; U+2800 is a blank.
"""
_SELECTORS, _JOINERS = "\ufe0e\ufe0f", "\u200c\u200d"
"""Characters that many scripts and emoji need: one selector behind a visible character, and one
joiner behind that, if it is not ASCII.
"""


def plain(text: str, longest: int) -> str:
    """Return plain text of at most `longest` characters. Line breaks and tabs are kept."""
    cut = text[: longest + 1]
    clean = "".join(_visible(cut))
    return clean if len(cut) <= longest else f"{clean[:longest]}…"


def _visible(text: str) -> Iterator[str]:
    bindable = ""
    """Invisible characters that may follow this one."""
    for character in text:
        if character in _SELECTORS or character in _JOINERS:
            if character not in bindable:
                continue
            bindable = _JOINERS if character in _SELECTORS else ""
        elif character not in "\n\t" and (
            ord(character) in _BLANK or unicodedata.category(character) in _UNSEEN
        ):
            continue
        else:
            bindable = "" if character.isascii() else _SELECTORS + _JOINERS
        yield character


def one_line(text: str, longest: int) -> str:
    return " ".join(plain(text, longest).split())
