r"""Text that is safe to print on a terminal, and its width. Each front end has its own colours and
tables.

Removed: control characters, C0 and C1; whole sequences (CSI, and the strings of OSC, DCS, SOS, PM
and APC up to the terminator that ends them on their line); characters that change the direction of
text or are invisible. Text that a person approves shows all of them as escapes. Source: ECMA-48;
xterm's ctlseqs; Unicode TR 36 and 39, and its Default_Ignorable_Code_Point. Entry points: `plain`,
`one_line`, `revealed`, `encodable`, `columns`, `cut`, `wrapped`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache

LINE_CHARS = 120

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
"""Control characters, except tabs and line ends."""
_HIDDEN = (
    "\xad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Invisible characters, except joiners and emoji selectors, which some scripts need."""
_SURROGATES = "\ud800-\udfff"

_UNSEEN = (
    "\xa0\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u200c\u200d\u2028\u2029"
    "\u202f\u205f\u2800\u3000\ufe00-\ufe0f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2"
    "\U000110bd\U000110cd\U00016fe4\U0001d159"
)
"""Characters that are harmless on a terminal, but invisible: joiners, selectors, blank letters,
spaces other than U+0020, line ends that few programs recognize, and symbols without a width.
"""
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
"""Combining marks that belong to no particular script. A letter keeps two at most, because more
would cover the lines above and below.
"""
_STACKED_MOST = 4
"""Marks on one letter in the scripts that need most, such as Tibetan and vocalized Hebrew."""
_OVERLAYS = (
    "\u0334-\u0338\u0488\u0489\u20d2\u20d3\u20d8-\u20da\u20dd-\u20e0\u20e2-\u20e6\u20ea\u20eb"
)
"""Marks that strike a letter through or enclose it."""
_COVERING = f"[{_OVERLAYS}]|(?<=[{_MARKS}]{{2}})[{_MARKS}]"

_ODD = re.compile(f"[{_CONTROLS}{_HIDDEN}{_SURROGATES}]")
_ODD_IN_JSON = re.compile(f"[{_CONTROLS}{_HIDDEN}]")
"""Characters to escape in JSON. Tabs and line ends separate its values, so they are kept."""
_REVEALED = re.compile(f"[{_CONTROLS}{_HIDDEN}{_SURROGATES}{_UNSEEN}]|{_COVERING}")
_REVEALED_IN_LINE = re.compile(f"[\t\n{_CONTROLS}{_HIDDEN}{_SURROGATES}{_UNSEEN}]|{_COVERING}")
_CSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x00-\x08\x0a-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"
_ESCAPE = r"\x1b[ -/]*[0-~]"
_SHOWN_BY_NONE = re.compile(f"{_STRING}|{_CSI}|{_ESCAPE}|[{_CONTROLS}{_HIDDEN}]")
_SPELLED = str.maketrans(
    "\u2026\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u00b7\u2192\u00d7\u2500\u2502\u22ee\u00a0",
    "~--''\"\"*->x-|: ",
)
"""Replacements of the same width."""
_SURROGATE = re.compile(f"[{_SURROGATES}]")


def plain(text: str) -> str:
    """Remove terminal sequences, and characters that hide text or change its direction. Lines and
    tabs stay.
    """
    if (text.isascii() and text.isprintable()) or not _ODD.search(
        text
    ):  # the first test is 20 times faster
        return text
    return _SURROGATE.sub("\ufffd", _SHOWN_BY_NONE.sub("", text))


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    """Return `plain` text in at most `limit` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def revealed(text: str) -> str:
    r"""Return a text for approval, with nothing hidden: control, bidirectional and zero-width
    characters, blanks other than the space, and marks that cover other characters are escaped, as
    in `\x1b` or `\u202e`. Lines and tabs stay.
    """
    return _REVEALED.sub(_named, _unstacked(text))


def revealed_line(text: str) -> str:
    r"""Return `revealed` text in one line, for a path or a name: `\n` becomes `\x0a`."""
    return _REVEALED_IN_LINE.sub(_named, _unstacked(text))


def _unstacked(text: str) -> str:
    """Escape all but the first marks of each letter, whatever the script: a tall stack of them is
    drawn over other lines.
    """
    if text.isascii():
        return text
    pieces, marks = list[str](), 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        pieces.append(character if marks <= _STACKED_MOST else _escape(character))
    return "".join(pieces)


def json_shown(text: str) -> str:
    r"""Return JSON of the same value, with control, bidirectional and hidden characters in its
    strings escaped, as in `\u202e`.
    """
    return _ODD_IN_JSON.sub(_json_escape, text)


def _json_escape(odd: re.Match[str]) -> str:
    return json.dumps(odd[0])[1:-1]


def _named(odd: re.Match[str]) -> str:
    return _escape(odd[0])


def _escape(character: str) -> str:
    code = ord(character)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def encodable(text: str, encoding: str) -> str:
    """Replace characters that the encoding lacks with ASCII of the same width, or `?`."""
    if text.isascii():
        return text
    return "".join(
        c if c.isascii() or _can(c, encoding) else "?" * _columns_of(c)
        for c in text.translate(_SPELLED)
    )


@lru_cache(maxsize=4096)
def _can(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def columns(text: str) -> int:
    """Return the width of the text in terminal columns."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, most: int) -> str:
    """Truncate a text to `most` columns, ending in `…` if anything was cut off."""
    if columns(text) <= most:
        return text
    kept, used = "", 1
    for character in text:
        used += _columns_of(character)
        if used > most:
            break
        kept += character
    return kept.rstrip() + "…"


def wrapped(text: str, most: int) -> list[str]:
    """Wrap a text into lines of at most `most` columns, between words if possible. Only the
    first part of an indented line is indented.
    """
    return [
        line for long in text.expandtabs(4).splitlines() for line in _broken(long.rstrip(), most)
    ]


def _broken(line: str, most: int) -> list[str]:
    """Break a line by columns: not every character is one column wide, and not every script has
    spaces.
    """
    if columns(line) <= most:
        return [line]
    lines, used = [""], 0
    for piece in re.findall(r" +|[^ ]+", line):
        wide = columns(piece)
        if used + wide <= most:
            lines[-1] += piece
            used += wide
        elif piece.isspace():  # a space at the line break is dropped
            used = most
        elif wide <= most:
            lines.append(piece)
            used = wide
        else:
            used = _fill(lines, piece, used, most)
    return [line.rstrip() for line in lines]


def _fill(lines: list[str], word: str, used: int, most: int) -> int:
    """Break a word that is wider than a line. Returns the width of the last line in columns."""
    for character in word:
        wide = _columns_of(character)
        if used + wide > most:
            lines.append("")
            used = 0
        lines[-1] += character
        used += wide
    return used
