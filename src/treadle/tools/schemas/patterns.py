"""The size of a regular expression once its repetitions are written out, found without compiling
it. Entry: `states`.

An estimate of the states of jsonschema-rs's automaton: compiling takes about 2 µs and 100 bytes for
each (measured with 0.38), and matching takes up to 50 ns for each of them and each character.
"""

from __future__ import annotations

import re
from typing import Final

_TIMES: Final = re.compile(r"\{(\d*)(?:(,)(\d*))?\}")
_FOLDS_CASE: Final = re.compile(r"\(\?\w*i")
_WIDE = 9
"""States of a class with nearly all characters of Unicode, in UTF-8."""
_PROPERTY = 300
"""States of a class like `\\p{L}`."""


def states(pattern: str) -> int:
    """At least 1. The pattern need not be valid."""
    sizes, atom, at = [1], 0, 0
    while at < len(pattern):
        char = pattern[at]
        if (
            char == "{"
            and (times := _TIMES.match(pattern, at)) is not None
            and (times[1] or times[3])
        ):
            more = atom * max(int(times[1] or 0), int(times[3] or 0), 1)
            sizes[-1] += more
            atom += more
            at = times.end()
            continue
        if char == "(":
            sizes.append(0)
            atom, at = 0, at + 1
        elif char == ")" and len(sizes) > 1:
            atom, at = sizes.pop() + 1, at + 1
            sizes[-1] += atom
        elif char in "*+?|^$":
            sizes[-1] += 1
            at += 1
        else:
            atom, at = _atom(pattern, at)
            sizes[-1] += atom
    return sum(sizes) * (3 if _FOLDS_CASE.search(pattern) else 1)


def _atom(pattern: str, at: int) -> tuple[int, int]:
    """States of one character or class, and where the next one begins."""
    char = pattern[at]
    if char == "\\":
        return (
            _PROPERTY
            if pattern[at + 1 : at + 2] in "pP"
            else _WIDE
            if pattern[at + 1 : at + 2] in "WDS"
            else 1
        ), at + 2
    if char == "[":
        end = _end_of_class(pattern, at)
        inner = pattern[at:end]
        properties = inner.count("\\p") + inner.count("\\P")
        return len(inner) + _WIDE + _PROPERTY * properties, end
    return (_WIDE if char == "." else len(char.encode("utf-8", "replace"))), at + 1


def _end_of_class(pattern: str, at: int) -> int:
    # a bracket that comes first is one of the characters
    end = at + 2 if pattern[at + 1 : at + 2] != "^" else at + 3
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    return end + 1
