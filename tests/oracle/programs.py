"""Simple commands: every program that looks at files, with its options in every form, and values
and operands good and bad. Entry: `Programs`.

The options stand in options.json, as the programs' own help and manual pages list them (Debian 12):
the policy's tables are not looked at.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path

from tests.oracle.languages import BAIT, FILES, Languages
from tests.oracle.spelling import PIECES, Speller

_OPTIONS: dict[str, list[str]] = json.loads((Path(__file__).parent / "options.json").read_text())
_LETTERS = string.ascii_letters + string.digits
_FIRST = {
    "sed": "sed",
    "awk": "awk",
    "mawk": "awk",
    "gawk": "awk",
    "jq": "jq",
    "grep": "regex",
    "egrep": "regex",
    "fgrep": "regex",
    "rg": "regex",
    "tr": "text",
}
"""The language of the first operand."""
_WORDS = {
    "seq": "number",
    "expr": "text",
    "factor": "number",
    "date": "date",
    "numfmt": "number",
    "basename": "text",
    "dirname": "text",
}
"""The language of all operands."""
_LANGUAGE_OF = {
    "e": "regex",
    "f": "text",
    "expression": "sed",
    "n": "number",
    "d": "text",
    "F": "text",
    "t": "text",
    "k": "number",
    "c": "number",
}
BUILTINS = PIECES["builtins"]
WRAPPERS = PIECES["wrappers"]
PAYLOADS = PIECES["payloads"]


TRAPS = PIECES["traps"]
"""A harmless command, and behind the bar a word for its gap, spelled so that it may not be seen."""


class Programs:
    """Generates simple commands by `speller`."""

    def __init__(self, speller: Speller, payloads: Sequence[str] = PAYLOADS) -> None:
        self._payloads = payloads
        self.speller, self.languages = speller, Languages(speller)
        self._one, self._maybe, self._some = speller.one, speller.maybe, speller.some
        self._names = [name for name in _OPTIONS]

    def payload(self) -> str:
        return self._one(self._payloads)

    def command(self) -> str:
        """One simple command in source form."""
        at = self.speller.chance.random()
        if at < 0.07:
            return self._trap()
        if at < 0.17:
            return self._clustered()
        if at < 0.72:
            return self.spelled(self.words(self._one(self._names)))
        if at < 0.78:
            return self.spelled(["find", *self.languages.find()])
        if at < 0.83:
            return self._test()
        if at < 0.86:
            return self.spelled(["git", *self.languages.git()])
        if at < 0.88:
            return self.spelled(
                [
                    "printf",
                    *self._some(("-v", "x", "--", "a[$(touch pwned)]"), 2),
                    self.languages.printf(),
                    *self._some(("a", "1", "a[$(./x)]"), 2),
                ]
            )
        if at < 0.9:
            return self.spelled(
                ["echo", *self._some(("-n", "-e", "hi", "a b", "*", "$(touch pwned)", "src/*"), 3)]
            )
        if at < 0.96:
            return self._one(BUILTINS)
        return f"{self._one(WRAPPERS)} {self._one(BUILTINS) if self._maybe(0.3) else self.spelled(self.words(self._one(self._names)))}"

    def spelled(self, words: list[str]) -> str:
        name = words[0] if self._maybe(0.97) else self.speller.word(words[0])
        return " ".join([name, *map(self._spelled, words[1:])])

    def _spelled(self, word: str) -> str:
        if word.startswith("~"):
            return word
        return self.speller.usual(word) if self._maybe(0.75) else self.speller.word(word)

    def _test(self) -> str:
        words = [
            word if self._maybe(0.8) or not word else self.speller.word(word)
            for word in self.languages.test()
        ]
        text = " ".join(word or "''" for word in words)
        return self._one(("[ {} ]", "[ {} ]", "[[ {} ]]", "test {}")).replace("{}", text)

    def _trap(self) -> str:
        text, _, bait = self._one(TRAPS).partition("|")
        speller = self.speller
        how = speller.chance.random()
        hidden = (
            speller.mixed(bait)
            if how < 0.4
            else speller.glob(bait)
            if how < 0.65
            else speller.braces([bait, *self._some(("a", "", "."), 2)])
        )
        return text.replace("%", hidden, 1)

    def _clustered(self) -> str:
        """Two options in one word, a bad text and a good one, in any order: readers may differ
        about what belongs to what.
        """
        name = self._one(
            (
                "sed",
                "sed",
                "sed",
                "sed",
                "sort",
                "grep",
                "xxd",
                "file",
                "awk",
                "jq",
                "rg",
                "od",
                "column",
                "tree",
                "cut",
                "diff",
                "head",
                "tail",
                self._one(self._names),
            )
        )
        short = _OPTIONS[name][0] or _LETTERS
        known = self.languages.of[_FIRST[name]] if name in _FIRST else self.languages.file
        words = [
            "-" + self._one(short) + self._one(short) + self._one(("", "", "", "x")),
            known(),
            self._one(("p", "a.txt", "1", "q")),
            "a.txt",
        ]
        if self._maybe(0.5):
            words.insert(int(self.speller.chance.random() * 4), self._one(BAIT))
        if self._maybe(0.5):
            words[0], words[1] = words[1], words[0]
        return self.spelled([name, *words])

    # ------------------------------------------------------------ options and operands

    def words(self, name: str) -> list[str]:
        """The program, options, operands; now and then in an odd order."""
        if name == "find":
            return [name, *self.languages.find()]
        short, long, single = _OPTIONS[name]
        options: list[str] = []
        for _ in range(int(self.speller.chance.random() * 3.2)):
            options += self._option(short, long, single)
        operands = self._operands(name)
        at = self.speller.chance.random()
        if at < 0.7:
            return [name, *options, *operands]
        if at < 0.85:
            return [name, *operands, *options]
        mixed = [*options, *operands]
        cut = int(self.speller.chance.random() * (len(mixed) + 1))
        return [name, *mixed[cut:], *mixed[:cut]]

    def _option(self, short: str, long: str, single: str) -> list[str]:
        at = self.speller.chance.random()
        if (at < 0.55 and short) or not long:
            known = short if self._maybe(0.85) and short else _LETTERS
            word = "-" + "".join(self._one(known) for _ in range(self._one((1, 1, 1, 2, 2, 3))))
            return self._valued(word, word[-1], glue=("", "", "=", ":"))
        if at < 0.85:
            name = self._one(long.split())
            word = "--" + (
                name.rstrip("=")
                if self._maybe(0.8)
                else name.rstrip("=")[: 1 + int(self.speller.chance.random() * len(name))]
            )
            return self._valued(
                word, name.rstrip("="), glue=("=",), probability=0.7 if name.endswith("=") else 0.2
            )
        if at < 0.9 and single:
            word = "-" + self._one(single.split())
            return self._valued(
                word[: 2 + int(self.speller.chance.random() * len(word))], word[1:], glue=("", "=")
            )
        return [self._one(PIECES["_option"])]

    def _valued(
        self, word: str, name: str, glue: tuple[str, ...], probability: float = 0.4
    ) -> list[str]:
        if not self._maybe(probability):
            return [word]
        kind = self.speller.chance.random()
        value = (
            self._one(BAIT)
            if kind < 0.3
            else self._one(FILES)
            if kind < 0.5
            else self.languages.of[_LANGUAGE_OF.get(name, self._one(("text", "number")))]()
        )
        return [word, value] if self._maybe(0.5) else [word + self._one(glue) + value]

    def _operands(self, name: str) -> list[str]:
        if name in _WORDS:
            return [self.languages.of[_WORDS[name]]() for _ in range(self._one((0, 1, 2)))]
        if name in ("git",):
            return self.languages.git()
        first = [self.languages.of[_FIRST[name]]()] if name in _FIRST and self._maybe(0.92) else []
        return [
            *first,
            *(self.languages.file() for _ in range(self._one((0, 1, 1, 1, 1, 2, 2, 3)))),
        ]
