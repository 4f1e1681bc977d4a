"""Programs in the little languages that arguments hold: sed, awk, jq, find, printf, test, expr,
dates, git. Entry: `Languages`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle.spelling import PIECES, Speller

FILES = PIECES["files"]
BAIT = PIECES["bait"]
COMMANDS = (
    "touch pwned",
    "./x",
    ": > pwned",
    "cat .env",
    "cat ../outside/secret.txt",
    "cat private/notes.txt",
)


class Languages:
    """Generates texts by `speller`."""

    def __init__(self, speller: Speller) -> None:
        self._one, self._maybe, self._some = speller.one, speller.maybe, speller.some
        self.of: dict[str, Callable[[], str]] = {
            "sed": self.sed,
            "awk": self.awk,
            "jq": self.jq,
            "printf": self.printf,
            "regex": self.regex,
            "date": self.date,
            "number": lambda: self._one(
                ("1", "2", "0", "-1", "+2", "3k", "1,2", "2-", "99999999", "0x10", "1e3")
            ),
            "text": lambda: self._one(PIECES["__init__"]),
        }

    def file(self) -> str:
        return self._one(FILES) if self._maybe(0.75) else self._one(BAIT)

    def regex(self) -> str:
        return self._one(PIECES["regex"])

    def sed(self) -> str:
        commands = PIECES["sed commands"]
        addresses = PIECES["sed addresses"]
        return self._one((";", "\n", " ; ", ";;", "")).join(
            self._one(addresses) + self._one(commands)
            for _ in range(1 + int(self._maybe(0.4)) + self._maybe(0.2))
        )

    def awk(self) -> str:
        actions = PIECES["awk actions"]
        pattern = self._one(
            (
                "",
                "",
                "NR==1",
                "/a/",
                "$1>2",
                "BEGIN",
                "END",
                "!x[$0]++",
                'BEGIN{FS=","}',
                "NR>1 && NR<3",
                '@include "prog.awk"\nBEGIN',
            )
        )
        return self._one(
            (
                f"{pattern}{{{self._one(actions)}}}",
                f"{pattern} {{ {self._one(actions)}; {self._one(actions)} }}",
                pattern or "1",
            )
        )

    def jq(self) -> str:
        pieces = PIECES["jq pieces"]
        return self._one(("|", ",", " | ", " ")).join(
            self._one(pieces) for _ in range(1 + self._maybe(0.4))
        )

    def printf(self) -> str:
        return "".join(self._one(PIECES["printf"]) for _ in range(3))

    def date(self) -> str:
        return self._one(
            (
                "+%F",
                "+%s",
                "now",
                "2020-01-01",
                "010112002020",
                "-1 day",
                "+%s %n",
                "12:00",
                "@0",
                "0101",
            )
        )

    def find(self) -> list[str]:
        tests = PIECES["find tests"]
        return [
            *self._some(
                (
                    ".",
                    "src",
                    "docs",
                    "dir-out",
                    "..",
                    "-delete",
                    "a.txt",
                    "private",
                    "--",
                    "-f",
                    "~",
                ),
                2,
            ),
            *(w for t in self._some(tests, 4) for w in t),
        ]

    def test(self) -> list[str]:
        unary = PIECES["test unary"]
        binary = PIECES["test binary"]
        names = PIECES["test names"]
        form = self._one(("u", "b", "b", "uu", "n", "ub", "bub"))
        words: list[str] = []
        for kind in form:
            words += [self._one(("-a", "-o", "&&", "||", "!"))] if words else []
            words += {
                "u": [self._one(unary), self._one(names)],
                "b": [self._one(names), self._one(binary), self._one(names)],
                "n": [self._one(names)],
            }[kind]
        return words

    def git(self) -> list[str]:
        commands = PIECES["git commands"]
        options = PIECES["git options"]
        before = (
            "--no-pager",
            "-p",
            "-c",
            "core.fsmonitor=./x",
            "-C",
            "src",
            "--git-dir=.git",
            "--exec-path=.",
            "-P",
            "--work-tree=..",
            "--no-optional-locks",
        )
        operands = PIECES["git operands"]
        return [
            *(self._some(before, 2) if self._maybe(0.2) else []),
            self._one(commands),
            *self._some(options, 3),
            *self._some(operands, 2),
            *self._some(options, 1),
        ]
