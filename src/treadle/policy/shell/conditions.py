"""Judgement of `[ … ]`, `[[ … ]]` and `test`, some of whose operators evaluate their operands.

Entry points: `judge_test`, `judge_plain_test`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from treadle.policy.decision import CallFinding, FindingKind
from treadle.policy.shell.options import names
from treadle.policy.shell.words import ShellWord

_OF_FILES = names("-e -f -d -s -r -w -x -L -h -b -c -p -S -g -u -k -O -G -N")
"""Needed by: `[ ROW a.txt ]` (allow)."""
_OF_TEXTS = frozenset({"-z", "-n", "-t"})
"""Needed by: `[[ ROW a ]]` (contained)."""
_BETWEEN_TEXTS = frozenset({"=", "==", "!=", "<", ">", "=~"})
"""Needed by: `[[ a ROW -x ]]` (contained)."""
_SAME_IN_BRACKETS = frozenset({"=", "==", "!="})
"""Needed by: `[ a = b ]` (allow)."""
_BETWEEN_NUMBERS = names("-eq -ne -lt -le -gt -ge")
"""Needed by: `[ 3 ROW 2 ]` (allow)."""
_BETWEEN_FILES = names("-nt -ot -ef")
"""Needed by: `[ a.txt ROW src/m.py ]` (allow)."""
_GLUE = frozenset({"!", "&&", "||", "(", ")", "-a", "-o"})
"""Needed by: `[[ -f a.txt && a == b ]]` (contained)."""
_NUMBER = re.compile(r"[-+]?\d+")


def judge_test(words: Sequence[ShellWord], looks_at: Callable[[str], CallFinding]) -> CallFinding:
    """Return the finding about a test. `words` include the name or the brackets; `looks_at` judges
    a path.
    """
    if not words or not all(word.is_literal or word.value in _GLUE | {"<", ">"} for word in words):
        return CallFinding(FindingKind.UNSURE, "what it tests is unknown before it runs")
    if redirections_of(words):
        return CallFinding(FindingKind.UNSURE, "'<' and '>' in [ are redirections")
    values = [word.value for word in words]
    double = values[0] == "[["
    inner = values[1:-1] if values[0] in ("[", "[[") and values[-1] in ("]", "]]") else values[1:]
    i = 0
    while i < len(inner):
        left, following = inner[i], inner[i + 1 : i + 3]
        if (
            len(following) == 2
            and following[0] in _BETWEEN_TEXTS | _BETWEEN_NUMBERS | _BETWEEN_FILES
        ):
            if (
                following[0] in _BETWEEN_NUMBERS
                and double
                and not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(following[1]))
            ):
                return CallFinding(
                    FindingKind.UNSURE,
                    "[[ evaluates what it compares as arithmetic, which can run commands",
                )
            if (
                following[0] in _BETWEEN_FILES
                and (found := _worst(looks_at, left, following[1])) is not None
            ):
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
            return CallFinding(
                FindingKind.UNSURE, f"the test {left[:20]!r} can run the content of a name"
            )
    return CallFinding(FindingKind.READS)


def judge_plain_test(
    argv: Sequence[str], looks_at: Callable[[str], CallFinding]
) -> CallFinding | None:
    """Return the finding about `test` or `[` with at most three operands, which bash interprets by
    their number alone.

    Returns None for any other form.
    """
    inner = list(argv[1:-1] if argv[0] == "[" else argv[1:])
    if inner[:1] == ["!"] and len(inner) in (3, 4):
        inner = inner[1:]
    match inner:
        case [operator, path] if operator in _OF_FILES:
            return _worst(looks_at, path) or CallFinding(FindingKind.READS)
        case ["-z" | "-n", _]:
            return CallFinding(FindingKind.READS)
        case [_, operator, _] if operator in _SAME_IN_BRACKETS | _BETWEEN_NUMBERS:
            return CallFinding(FindingKind.READS)
        case [left, operator, right] if operator in _BETWEEN_FILES:
            return _worst(looks_at, left, right) or CallFinding(FindingKind.READS)
        case _:
            return None


def redirections_of(words: Sequence[ShellWord]) -> list[ShellWord]:
    """Return the targets of redirections in `[ … ]`, which the grammar parses as comparisons."""
    if not words or words[0].value != "[":
        return []
    return [following for word, following in pairwise(words) if word.value in ("<", ">")]


def _worst(looks_at: Callable[[str], CallFinding], *paths: str) -> CallFinding | None:
    return next(
        (found for path in paths if (found := looks_at(path)).kind is not FindingKind.READS), None
    )
