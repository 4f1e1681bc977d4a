"""Command lines: simple commands put together by all that bash's grammar has, and by what it has
not. Entry: `Grammar`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.programs import PAYLOADS, Programs
from tests.oracle.spelling import PIECES, Speller

SEPARATORS = PIECES["separators"]
REDIRECTIONS = PIECES["redirections"]
COMMENTS = PIECES["comments"]
SOUP = PIECES["soup"]


class Grammar:
    """Generates lines by `chance`."""

    def __init__(self, speller: Speller, payloads: Sequence[str] = PAYLOADS) -> None:
        """`payloads`: commands that a line may hide."""
        self.programs = Programs(speller, payloads)
        self._one, self._maybe, self._some, self._chance = (
            speller.one,
            speller.maybe,
            speller.some,
            speller.chance,
        )
        self._speller = speller

    def line(self) -> str:
        at = self._chance.random()
        if at < 0.45:
            return self.programs.command()
        if at < 0.6:
            return self.redirected(self.programs.command())
        if at < 0.75:
            return self.listed(2 + int(self._maybe(0.3)))
        if at < 0.81:
            return self.compound(2)
        if at < 0.89:
            return self.dense()
        if at < 0.96:
            return self.soup()
        if at < 0.996:
            return self.commented()
        return self.limit()

    def simple(self) -> str:
        at = self._chance.random()
        if at < 0.6:
            return self._one(
                (
                    "ls",
                    "cat a.txt",
                    "echo hi",
                    "true",
                    "[ a ]",
                    "pwd",
                    "wc -l a.txt",
                    "head -3 numbers",
                    "grep foo a.txt",
                    "sort a.txt",
                    ":",
                    "[ -f a.txt ]",
                )
            )
        if at < 0.92:
            return self.programs.command()
        return self.programs.payload()

    def redirected(self, command: str) -> str:
        words = command.split(" ")
        for _ in range(1 + self._maybe(0.25)):
            at = int(self._chance.random() * (len(words) + 1)) if self._maybe(0.4) else len(words)
            words.insert(at, self._one(REDIRECTIONS))
        return (
            self._one((" ", " ", " ", "")).join(words[-2:]) if len(words) == 2 else " ".join(words)
        )

    def listed(self, count: int) -> str:
        text = self.simple()
        for _ in range(count - 1):
            text += (
                self._one(SEPARATORS[:6]) if self._maybe(0.8) else self._one(SEPARATORS)
            ) + self.simple()
        return self.redirected(text) if self._maybe(0.1) else text

    def compound(self, depth: int) -> str:
        def inner() -> str:
            return (
                self.compound(depth - 1)
                if depth and self._maybe(0.2)
                else self.simple()
                if self._maybe(0.8)
                else self.listed(2)
            )

        form = self._one(
            (
                *(
                    "{ %; }",
                    "(%)",
                    "( % )",
                    "if %; then %; fi",
                    "if %; then %; else %; fi",
                    "for x in a b; do %; done",
                    "while %; do %; break; done",
                    "! %",
                    "time %",
                ),
                *(
                    "until %; do %; done",
                    "case a in a) % ;; *) % ;; esac",
                    "f() { %; }; f",
                    "function f { %; }; f",
                    "coproc %",
                    "((x=1)); %",
                    "echo $(%)",
                    "echo `%`",
                ),
                *(
                    "[[ -f a.txt ]] && %",
                    "for ((i=0;i<2;i++)); do %; done",
                    "select x in a; do %; done",
                    "cat <(%)",
                    "% > >(%)",
                    "{ %;}#; %;}",
                    "x=$(%)",
                    "x=(a b); %",
                ),
                *(
                    "if %; then %\nfi",
                    "(%); %",
                    "{ %\n}",
                    "f() (%); f",
                    "%; exit; %",
                    "alias ls='%'\nls",
                    'echo "$(%)"',
                    "set -- a; %",
                    "cd src && %",
                    "(cd src; %)",
                ),
                *(
                    "if [ a ]; then %; elif %; then %; fi",
                    "{ %; } 2>/dev/null",
                    "(%) 2>&1 | %",
                    "% | { %; }",
                    "! { %; }",
                    "shopt -s extglob; %",
                    "if ! %; then %; fi",
                ),
            )
        )
        while "%" in form:
            form = form.replace("%", inner().replace("%", "\0"), 1)
        return form.replace("\0", "%")

    def dense(self) -> str:
        """Pieces of the policy's own small language and of what lies next to it, with and without
        blanks between them.
        """
        pieces = [
            self._one(
                (
                    "ls",
                    "cat",
                    "echo",
                    "head -2",
                    "wc -l",
                    "sort",
                    "grep a",
                    "true",
                    "[ a",
                    "printf %s",
                    "find",
                    "test",
                )
            )
        ]
        for _ in range(2 + int(self._chance.random() * 7)):
            pieces += [self._one((" ", " ", " ", "")), self._one(PIECES["dense"])]
        return "".join(pieces)

    def soup(self) -> str:
        """Tokens in any order around harmless commands and a payload."""
        tokens = [self._one(SOUP) for _ in range(1 + int(self._chance.random() * 5))]
        tokens.insert(int(self._chance.random() * (len(tokens) + 1)), self.simple())
        tokens += [
            self._one(("; ", ";", "\n", " ", " || ", "|", "&&", "")),
            self.programs.payload(),
        ]
        if self._maybe(0.4):
            tokens.append(self._one(SOUP))
        return "".join(tokens)

    def commented(self) -> str:
        text = self.simple() + self._one(COMMENTS).replace("{}", self.programs.payload())
        return (
            text
            + self._one(("", "", "; ", "\n", ";}"))
            + (self.programs.payload() if self._maybe(0.5) else "")
        )

    def limit(self) -> str:
        """Lines around limits of count and size, with a payload at their end."""
        count = self._one((11, 12, 13, 59, 61, 199, 201, 399, 400, 401, 402, 799, 801, 1001, 2000))
        piece, between = self._one(
            (
                ("[ a ]", ";"),
                (":", ";"),
                ("true", "&&"),
                ("a", " "),
                ("(", ""),
                ("{ :;", " "),
                ("[[ a ]]", "\n"),
                ("x", ""),
                ("test a", ";"),
                ("ls -d .", ";"),
            )
        )
        if piece == "ls -d .":
            count = min(count, 402)
        text = (
            between.join([piece] * count)
            if self._maybe(0.8)
            else "echo " + "x" * self._one((4000, 4096, 20_400, 20_470, 20_480, 20_481, 30_000))
        )
        end = (
            self.programs.payload()
            if self._maybe(0.4)
            else self._one(
                (
                    "[ -v 'a[$(touch pwned)]' ]",
                    "[[ -v 'a[$(touch pwned)]' ]]",
                    "[ a > pwned ]",
                    "cat .env",
                    "-delete",
                )
            )
        )
        return text + (between or " ") + end
