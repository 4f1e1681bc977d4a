"""`[ … ]`, `[[ … ]]` and `test`: which of their questions only look. Some evaluate what they are given. Entry: `judge_test`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from treadle.shell.options import names
from treadle.shell.words import Word
from treadle.verdicts import Finding, Kind

_OF_FILES = names("-e -f -d -s -r -w -x -L -h -b -c -p -S -g -u -k -O -G -N")
_OF_TEXTS = frozenset({"-z", "-n", "-t"})
_BETWEEN_TEXTS = frozenset({"=", "==", "!=", "<", ">", "=~"})
_BETWEEN_NUMBERS = names("-eq -ne -lt -le -gt -ge")
_BETWEEN_FILES = names("-nt -ot -ef")
_GLUE = frozenset({"!", "&&", "||", "(", ")", "-a", "-o"})
_NUMBER = re.compile(r"[-+]?\d+")


def judge_test(words: Sequence[Word], looks_at: Callable[[str], Finding]) -> Finding:
    """`words` with the name or the brackets."""
    if not words or not all(word.is_literal or word.value in _GLUE | {"<", ">"} for word in words):
        return Finding(Kind.UNSURE, "what it tests is not known before it runs")
    values = [word.value for word in words]
    double = values[0] == "[["
    inner = values[1:-1] if values[0] in ("[", "[[") and values[-1] in ("]", "]]") else values[1:]
    i = 0
    while i < len(inner):
        left, following = inner[i], inner[i + 1 : i + 3]
        if len(following) == 2 and following[0] in _BETWEEN_TEXTS | _BETWEEN_NUMBERS | _BETWEEN_FILES:
            if following[0] in _BETWEEN_NUMBERS and double and not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(following[1])):
                return Finding(Kind.UNSURE, "[[ evaluates what it compares as arithmetic, which can run commands")
            if following[0] in _BETWEEN_FILES and (found := _worst(looks_at, left, following[1])) is not None:
                return found
            i += 3
        elif left in _OF_FILES and following:
            if (found := _worst(looks_at, following[0])) is not None:
                return found
            i += 2
        elif left in _OF_TEXTS and following:
            i += 2
        elif left in _GLUE or not left.startswith("-"):
            i += 1
        else:
            return Finding(Kind.UNSURE, f"the test {left[:20]!r} can run what stands in a name")
    return Finding(Kind.READS)


def _worst(looks_at: Callable[[str], Finding], *paths: str) -> Finding | None:
    return next((found for path in paths if (found := looks_at(path)).kind is not Kind.READS), None)
