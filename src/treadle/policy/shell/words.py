"""Words of a command line as bash reads them: quotes are removed and the home folder is expanded.

A word with any other expansion is not literal. Entry points: `read_word`, `split`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShellWord:
    value: str
    """The value without its unknown parts."""
    is_literal: bool = True
    """True if the program receives exactly `value`, after the expansion of patterns."""
    has_glob: bool = False
    """True if it contains `*`, `?` or `[…]`, which bash expands to file names."""
    wild: frozenset[int] | None = None
    """Indices in `value` of the patterns, for a word of the small language, whose file names can be
    determined exactly; else None.
    """
    others: tuple[str, ...] = ()
    """Other possible values, from a brace expansion or the default of a variable."""

    @property
    def is_fixed(self) -> bool:
        """True if it is exactly one argument with a known value."""
        return self.is_literal and not self.has_glob


_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_EXPANDS = re.compile(r"[\w{(\[@*#?$!'\"-]", re.ASCII)
_STATUS = re.compile(r"\$(?:[?#]|\{[?#]\})")
_HOME = re.compile(r"\$(?:HOME(?!\w)|\{HOME\})", re.ASCII)
MAX_ALTERNATIVES = 40
_ALTERNATIVES = re.compile(r",|\.\.")
_ASSIGNED_TILDE = re.compile(r"\w+\+?=(?:[^'\"\\]*:)?~", re.ASCII)
_DEFAULT = re.compile(r"\$\{\w+(?:\[[^]]*\])?:?[-=+?]([^{}]*)\}", re.ASCII)
_PART_OF_A_PATH = re.compile(r"\$\{(?:HOME|PWD|OLDPWD)[^\w}#]")
"""Expansions of which the beginning of a path may remain, possibly the root. `#` keeps the end."""
_NAME = re.compile(r"\$(?:\w+|\{[^{}]*\}|[@*#?$!-])", re.ASCII)


def read_word(raw: str, home: str) -> ShellWord:
    """Read one word. `raw`: its text in the command line, including quotes."""
    if _PLAIN.fullmatch(raw):
        return ShellWord(raw)
    reader = _Reader(raw, home)
    reader.run()
    value = "".join(reader.out)
    if any(c < " " and c not in "\n\t" for c in value) or "\x7f" in value:
        return ShellWord(value, False)
    return ShellWord(value, reader.literal, reader.glob, None, tuple(reader.others))


class _Reader:
    def __init__(self, raw: str, home: str) -> None:
        self.raw, self.home = raw, home
        self.at = 0
        self.out: list[str] = []
        self.literal, self.glob = True, False
        self.others: list[str] = []

    def run(self) -> None:
        raw = self.raw
        if raw.startswith("~"):
            self._tilde()
        elif _ASSIGNED_TILDE.match(raw):
            self.literal = False
        while self.at < len(raw):
            c = raw[self.at]
            if c == "\\":
                self._escaped()
            elif c == "'":
                self._single()
            elif c == '"':
                self.at += 1
                self._double()
            elif c == "$":
                self._dollar(quoted=False)
            else:
                self._bare(c)

    def _tilde(self) -> None:
        end = next((i for i, c in enumerate(self.raw) if c == "/"), len(self.raw))
        if end == 1 and self.home:
            self.out.append(self.home)
        else:
            self.literal = False
            # the home folder of another user, or a folder that the shell remembers
            self.others.append(self.home or "/")
        self.at = end

    def _bare(self, c: str) -> None:
        if c in "*?" or (c == "[" and "]" in self.raw[self.at :]):
            self.glob = True
        elif c in "`<>()|&; \t\n":
            self.literal = False
        elif c == "{" and self._braces():
            return
        self.out.append(c)
        self.at += 1

    def _braces(self) -> bool:
        """Skip a possible brace expansion, up to the last `}`, since quotes inside do not end it.

        Keeps the first alternative as the value and the others in `others`.
        """
        inner = self.raw[
            self.at + 1 : self.raw.rfind("}") if self.raw.rfind("}") > self.at else len(self.raw)
        ]
        if "{" not in inner and (
            "}" not in self.raw[self.at :] or _ALTERNATIVES.search(inner) is None
        ):
            return False
        self.literal = False
        before = "".join(self.out)
        first, *others = [
            re.sub(r"[{}'\"\\]", "", piece)
            for piece in _ALTERNATIVES.split(inner)[:MAX_ALTERNATIVES]
        ]
        self.out.append(first)
        self.others += [before + other for other in others]
        self.at += len(inner) + 2
        return True

    def _escaped(self) -> None:
        if self.at + 1 >= len(self.raw):
            self.literal = False
        elif (c := self.raw[self.at + 1]) != "\n":
            self.out.append(c)
        self.at += 2

    def _single(self) -> None:
        end = self.raw.find("'", self.at + 1)
        if end < 0:
            self.literal, end = False, len(self.raw)
        self.out.append(self.raw[self.at + 1 : end])
        self.at = end + 1

    def _double(self) -> None:
        raw = self.raw
        while self.at < len(raw):
            c = raw[self.at]
            if c == '"':
                self.at += 1
                return
            if c == "\\" and self.at + 1 < len(raw) and raw[self.at + 1] in '$`"\\\n':
                if raw[self.at + 1] != "\n":
                    self.out.append(raw[self.at + 1])
                self.at += 2
            elif c == "$":
                self._dollar(quoted=True)
            else:
                self.literal = self.literal and c != "`"
                self.out.append(c)
                self.at += 1
        self.literal = False

    def _dollar(self, *, quoted: bool) -> None:
        raw, at = self.raw, self.at
        if not quoted and raw.startswith("$'", at):
            self._ansi()
        elif not quoted and raw.startswith('$"', at):  # a translation, whose text is unknown
            self.literal = False
            self.at += 1
        elif (found := _STATUS.match(raw, at)) is not None:
            self.out.append("0")
            self.at = found.end()
        elif (
            self.home
            and (found := _HOME.match(raw, at)) is not None
            and (quoted or not re.search(r"[\s*?\[]", self.home))
        ):
            self.out.append(self.home)
            self.at = found.end()
        elif at + 1 < len(raw) and (
            _EXPANDS.match(raw, at + 1)
            if not quoted
            else _EXPANDS.match(raw, at + 1) and raw[at + 1] not in "'\""
        ):
            self.literal = False
            if (default := _DEFAULT.match(raw, at)) is not None:
                self.others.append("".join(self.out) + default[1].strip("'\""))
            if _PART_OF_A_PATH.match(raw, at):
                self.others.append("".join(self.out) + "/")
            found = _NAME.match(raw, at)
            self.at = found.end() if found else at + 1
        else:
            self.out.append("$")
            self.at += 1

    def _ansi(self) -> None:
        end = self.at + 2
        while end < len(self.raw) and self.raw[end] != "'":
            end += 2 if self.raw[end] == "\\" else 1
        if end >= len(self.raw):
            self.literal = False
        value = _ESCAPE.sub(_unescaped, self.raw[self.at + 2 : end])
        if _UNSURE_ESCAPE.search(self.raw[self.at + 2 : end]):
            self.literal = False
        if "\0" in value:
            value, self.literal = value[: value.index("\0")], False
        self.out.append(value)
        self.at = end + 1


_ESCAPE = re.compile(
    r"\\(?:x\{?([0-9A-Fa-f]{1,2})\}?|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_UNSURE_ESCAPE = re.compile(r"\\(?:x(?:\{|[89A-Fa-f][0-9A-Fa-f])|[uU]|[2-7]\d\d|c)")
"""Escapes that depend on the version or locale of bash, and bytes that are incomplete characters.
Also matches after `\\\\`.
"""
_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
r"""Needed by: `bash -c $'rm\t-rf\t/'` (deny)."""


def _unescaped(found: re.Match[str]) -> str:
    hexadecimal = found[1] or found[2] or found[3]
    try:
        if hexadecimal:
            return chr(int(hexadecimal, 16))
        if found[4]:
            return chr(int(found[4], 8) & 0xFF)
    except (ValueError, OverflowError):
        return "\0"
    if found[5]:
        return chr(ord(found[5].upper()) & 0x1F)
    return _LETTERS.get(found[6], found[6] if found[6] in "\\'\"?" else "\\" + found[6])


_PIECE = re.compile(r"""(?:[^\s'"\\]+|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)


def split(text: str) -> list[str] | None:
    """Split a text at blanks outside quotes, keeping the quotes; None if a quote is not closed."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _PIECE.match(text, at)
        if found is None:
            return None
        words.append(found[0])
        at = found.end()
    return words
