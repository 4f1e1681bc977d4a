"""Reader of the small command language. Without a sandbox, only its lines may run without approval.

The language has simple commands of plain or simply quoted words, `|`, `&&`, `||`, `;`, line breaks,
and redirections to /dev/null, from a file, and between descriptors. docs/safety.md defines it.
agreement.py compares the result with bash's grammar. Entry points: `read_line`.
"""

from __future__ import annotations

import re
import unicodedata

from treadle.policy.shell.options import names
from treadle.policy.shell.plain_line import (
    OutsideLanguage,
    PlainCommand,
    PlainLine,
    PlainWord,
    Token,
)

MAX_CHARS = 8_000
MAX_COMMANDS = 200
MAX_WORDS = 400
"""Maximum number of words of a line. A line that exceeds a limit is outside the language."""

RESERVED = names(
    "if then elif else fi case esac for select while until do done in function time coproc"
)
"""Words that bash does not read as a program at the start of a command. Needed by: `ROW ls` (ask or
contained).
"""

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./!-")
"""Needed by: `ls` (allow)."""
_WILD = frozenset("*?")
"""Needed by: `ls *.txt` (allow)."""
_ESCAPABLE = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
r"""Needed by: `echo \$HOME` (allow)."""
_SWALLOWED = frozenset("\\`|")
"""After a non-ASCII byte, bash reads these as part of a character in some older encodings. Needed
by: `echo é|cat` (contained).
"""
_AFTER_A_WORD = frozenset(["", *" \t\n;|&"])
"""Needed by: `ls a.txt` (allow)."""
_OPERATORS = ("&&", "||", "|", ";", "\n")
"""Needed by: `ls; pwd` (allow)."""
_REDIRECT = re.compile(r"(?P<fd>[012]?)(?P<operator>>>|>&|>|<)|(?P<both>&>>?)")
_NAME = re.compile(r"[A-Za-z0-9_.+/-]+|\[|:")


def read_line(text: str, home: str) -> PlainLine | OutsideLanguage:
    """Read `text` as a line of the language. Never raises; takes linear time."""
    if len(text) > MAX_CHARS:
        return OutsideLanguage(f"more than {MAX_CHARS:,} characters", is_beyond=True)
    try:
        return _Reader(text, home).line()
    except _Left as e:
        return e.outside


class _Left(Exception):
    def __init__(self, why: str, *, is_beyond: bool = False) -> None:
        self.outside = OutsideLanguage(why, is_beyond)


class _Reader:
    def __init__(self, text: str, home: str) -> None:
        self.text, self.at = text, 0
        self.home = home if home.startswith("/") and set(home) <= _PLAIN else ""
        self.read = PlainLine()

    def line(self) -> PlainLine:
        self._blanks(breaks=True)
        if self.at == len(self.text):
            raise _Left("no command")
        joined = ""
        while True:
            self.read.commands.append(self._command(joined))
            if len(self.read.commands) > MAX_COMMANDS:
                raise _Left(f"more than {MAX_COMMANDS} commands", is_beyond=True)
            joined = self._joint()
            self._blanks(breaks=joined != "")
            if self.at == len(self.text):
                if joined in ("", ";", "\n"):
                    return self.read
                raise _Left(f"{joined!r} with nothing after it")

    def _blanks(self, *, breaks: bool = False) -> None:
        blanks = " \t\n" if breaks else " \t"
        while self.at < len(self.text) and self.text[self.at] in blanks:
            self.at += 1

    def _joint(self) -> str:
        """Return the operator after a command; empty at the end of the text."""
        if self.at == len(self.text):
            return ""
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                if operator == "|" and self.text.startswith("|&", self.at):
                    raise _Left("'|&'")
                if operator != "\n":
                    self._token(self.at, self.at + len(operator), is_word=False)
                self.at += len(operator)
                return operator
        raise _Left(_described(self.text[self.at]))

    def _token(self, start: int, end: int, *, is_word: bool) -> None:
        self.read.tokens.append(Token(start, end, is_word))
        if len(self.read.tokens) > MAX_WORDS:
            raise _Left(f"more than {MAX_WORDS} words", is_beyond=True)

    # ------------------------------------------------------------ one command

    def _command(self, before: str) -> PlainCommand:
        command = PlainCommand(is_fed=before == "|")
        is_redirected = False
        while True:
            self._blanks()
            if self.at == len(self.text) or any(
                self.text.startswith(operator, self.at) for operator in _OPERATORS
            ):
                break
            if (found := _REDIRECT.match(self.text, self.at)) is not None and command.words:
                self._redirect(found, command)
                is_redirected = True
                continue
            if is_redirected:
                raise _Left("a word after a redirection")
            command.words.append(self._word(is_first=not command.words))
        if not command.words:
            raise _Left(f"no command after {before!r}" if before else "no command")
        self._check_name(command.words)
        return command

    def _check_name(self, words: list[PlainWord]) -> None:
        name = words[0]
        if not name.is_bare or name.wild or not _NAME.fullmatch(name.value):
            raise _Left(f"{name.value[:40]!r} where a program is named")
        if name.value in RESERVED:
            raise _Left(f"the reserved word {name.value!r}")
        if name.value == "[" and (
            words[-1].value != "]" or not words[-1].is_bare or len(words) < 2
        ):
            raise _Left("'[' without ']'")

    def _redirect(self, found: re.Match[str], command: PlainCommand) -> None:
        operator = found["both"] or found["operator"]
        if found["fd"]:
            self._token(found.start(), found.start() + 1, is_word=False)
        self._token(found.end() - len(operator), found.end(), is_word=False)
        self.at = found.end()
        if operator == ">&":
            descriptor = re.compile(r"[012](?=[ \t\n;|&]|$)").match(self.text, self.at)
            if descriptor is None:
                raise _Left("a redirection to something other than /dev/null or a descriptor")
            self._token(self.at, descriptor.end(), is_word=False)
            self.at = descriptor.end()
            return
        self._blanks()
        target = self._word(is_first=False)
        if operator == "<" and not found["fd"] and not target.wild and target.is_exact:
            command.reads.append(target)
        elif not (target.is_bare and target.value == "/dev/null"):
            raise _Left("a redirection to something other than /dev/null or a descriptor")
        if operator in (">>", "&>>"):
            raise _Left(f"{operator!r}")

    # ------------------------------------------------------------ one word

    def _word(self, *, is_first: bool) -> PlainWord:
        text, start = self.text, self.at
        if start == len(text):
            raise _Left("a redirection to nothing")
        value: list[str] = []
        wild: set[int] = set()
        is_bare = is_exact = True
        if text[start] == "~":
            if not self.home or text[start + 1 : start + 2] not in {"/", *_AFTER_A_WORD}:
                raise _Left("'~' where it is not your home folder")
            value.append(self.home)
            self.at, is_bare = start + 1, False
        elif (
            text[start] == ("[" if is_first else "]")
            and text[start + 1 : start + 2] in _AFTER_A_WORD
        ):
            value.append(text[start])
            self.at = start + 1
        while self.at < len(text):
            c = text[self.at]
            if c in _PLAIN:
                value.append(c)
                self.at += 1
            elif c in _AFTER_A_WORD:
                break
            elif c in _WILD:
                wild.add(sum(map(len, value)))
                value.append(c)
                self.at += 1
            else:
                piece, piece_is_exact = self._quoted(c)
                value.append(piece)
                is_bare, is_exact = False, is_exact and piece_is_exact
        if self.at == start:
            raise _Left(_described(text[self.at]))
        self._token(start, self.at, is_word=True)
        return PlainWord(start, self.at, "".join(value), frozenset(wild), is_bare, is_exact)

    def _quoted(self, c: str) -> tuple[str, bool]:
        """Return the value of the piece that begins with the special character `c`, and True if the
        value is exact.
        """
        match c:
            case "'":
                return self._single(), True
            case '"':
                return self._double()
            case "\\":
                return self._escaped(), True
            case "$":
                return self._expansion()
            case _ if not c.isascii():
                return self._beyond_ascii(), True
            case _:
                raise _Left(_described(c))

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise _Left("an unclosed quotation mark")
        value = self.text[self.at + 1 : end]
        for c in value:
            _check_shown(c)
        self.at = end + 1
        return value

    def _double(self) -> tuple[str, bool]:
        text, value, is_exact = self.text, list[str](), True
        self.at += 1
        while self.at < len(text):
            c = text[self.at]
            if c == '"':
                self.at += 1
                return "".join(value), is_exact
            if c == "\\":
                following = text[self.at + 1 : self.at + 2]
                if following in ("", "\n"):
                    raise _Left("a backslash before a line break")
                _check_shown(following)
                value.append(following if following in '$`"\\' else c + following)
                self.at += 2
            elif c == "$":
                if text[self.at + 1 : self.at + 2] in ('"', " ", "|", ")", "/"):
                    value.append(c)
                    self.at += 1
                else:
                    piece, piece_is_exact = self._expansion()
                    value.append(piece)
                    is_exact = is_exact and piece_is_exact
            elif c == "`":
                raise _Left(_described(c))
            elif c > "\x7f":
                value.append(self._beyond_ascii())
            else:
                _check_shown(c)
                value.append(c)
                self.at += 1
        raise _Left("an unclosed quotation mark")

    def _escaped(self) -> str:
        following = self.text[self.at + 1 : self.at + 2]
        if following not in _ESCAPABLE or not following:
            raise _Left("a backslash before a line break, a letter or a digit")
        self.at += 2
        return following

    def _expansion(self) -> tuple[str, bool]:
        for written in ("$?", "${?}"):
            if self.text.startswith(written, self.at):
                self.at += len(written)
                return "0", False
        for written in ("$HOME", "${HOME}"):
            end = self.at + len(written)
            if (
                self.home
                and self.text.startswith(written, self.at)
                and not re.match(r"\w", self.text[end : end + 1])
            ):
                self.at = end
                return self.home, True
        raise _Left("an expansion with '$'")

    def _beyond_ascii(self) -> str:
        c = self.text[self.at]
        _check_shown(c)
        if self.text[self.at + 1 : self.at + 2] in _SWALLOWED and self.at + 1 < len(self.text):
            raise _Left(f"{c!r} before {self.text[self.at + 1]!r}")
        self.at += 1
        return c


def _check_shown(c: str) -> None:
    if c.isascii() and c.isprintable():
        return
    if c.isascii() or unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"):
        raise _Left(f"a line break or an invisible character (U+{ord(c):04X}) inside a word")


_CALLED = {
    "#": "a comment, or '#' outside quotes",
    "$": "an expansion with '$'",
    "`": "a command inside a word",
    "(": "a subshell or a function",
    ")": "a subshell or a function",
    "{": "'{' outside quotes",
    "}": "'}' outside quotes",
    "[": "'[' in a word",
    "]": "']' in a word",
    "~": "'~' inside a word",
    "<": "a redirection that is glued to a word, a here-document or a process substitution",
    ">": "a redirection that is glued to a word",
    "&": "a command in the background",
    "\\": "a backslash at the end",
}
"""Needed by: `(ls)` (contained, "a subshell or a function")."""


def _described(c: str) -> str:
    return _CALLED.get(c, f"the character {c!r} outside quotes")
