"""Lines that try to run what a rule denies, or what is never run, without seeming to. Entry:

`DeniedLines`, `violated`.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence

from tests.oracle.grammar import Grammar
from tests.oracle.programs import WRAPPERS
from tests.oracle.spelling import PIECES, Speller

_INTERPRETERS = re.compile(
    r"\b(?:[gm]?awk|sed|jq|python3?|perl|node|ruby|lua|make|npm|vim|ex|ed|bc|dc|php|tclsh|gdb|ctags|less|man)\b|\./x|\bsrc/x|\bbin/"
)
"""Programs with texts of their own, which no reader of command lines sees, and files of the
workspace that hold more.
"""
_VALUED = (
    "-c",
    "-C",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--exec-path",
)


class DeniedLines:
    """Endless lines of one seed."""

    def __init__(self, seed: str, payloads: str = "denied") -> None:
        """`payloads`: the table with the commands, `denied` or `denied paths`."""
        self._speller = Speller(random.Random(seed))
        self._payloads: list[str] = PIECES[payloads]
        self._grammar = Grammar(self._speller, payloads=self._payloads)

    def __iter__(self) -> Iterator[str]:
        grammar, chance = self._grammar, self._speller.chance
        while True:
            at = chance.random()
            if at < 0.4:
                line = self._spelled()
            elif at < 0.6:
                line = f"{self._speller.one(WRAPPERS)} {self._spelled()}"
            elif at < 0.8:
                line = grammar.soup()
            else:
                line = grammar.compound(1)
            if not _INTERPRETERS.search(line):
                yield line.replace("\0", "")

    def _spelled(self) -> str:
        words = self._speller.one(self._payloads).split(" ")
        odd = int(self._speller.chance.random() * len(words))
        return " ".join(
            self._speller.word(word) if i == odd or self._speller.maybe(0.2) else word
            for i, word in enumerate(words)
        )


def violated(noted: Sequence[Sequence[str]], home: str) -> tuple[str, ...]:
    """The rules of judge.DENIED, and what is never run, that programs with these arguments break."""
    found: set[str] = set()
    for name, *words in noted:
        if name == "rm":
            found.add("ran rm")
            if any(_is_recursive(word) for word in words) and any(
                _is_vital(word, home) for word in words if not word.startswith("-")
            ):
                found.add("ran never")
        elif name == "git" and _git_command(words) in ("push", "send-pack"):
            found.add("ran git push")
    return tuple(sorted(found))


def _is_recursive(option: str) -> bool:
    """Whether rm takes it for `-r` or `--recursive`.

    It refuses everything else that begins alike, such as `--recursive0`.
    """
    return bool(re.match(r"-\w*[rR]", option)) or (
        len(option) > 2 and "--recursive".startswith(option)
    )


def _is_vital(path: str, home: str) -> bool:
    place = os.path.normpath(os.path.join(home, "../work", path))
    return place in ("/", "//", "/usr", "/etc", "/var", "/home", home, os.path.dirname(home))


def _git_command(words: Sequence[str]) -> str:
    """The command of a git line, its aliases resolved."""
    aliases: dict[str, str] = {}
    i = 0
    while i < len(words) and words[i].startswith("-"):
        if (
            words[i] == "-c"
            and i + 1 < len(words)
            and (alias := re.fullmatch(r"alias\.([^=]+)=(.*)", words[i + 1]))
        ):
            aliases[alias[1]] = alias[2].split(" ")[0]
        i += 2 if words[i] in _VALUED else 1
    command = words[i] if i < len(words) else ""
    return aliases.get(command, command)
