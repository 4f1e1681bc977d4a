"""Typing errors: edit distance, and correction to a word of a list.

Only words of the language are corrected, never titles of tasks. Entry point: `near`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

LONG = 7
"""Length from which two errors are accepted. Shorter words may have one, and those below four
letters only a swap.
"""
_LONGEST = 16


def distance(one: str, other: str, most: int) -> int:
    """Return the number of insertions, deletions, substitutions and transpositions, or `most` + 1
    if there are more.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i] + [0] * len(other)
        for j, against in enumerate(other, 1):
            row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                row[j] = min(row[j], before[j - 2] + 1)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]


def near(word: str, words: Iterable[str]) -> str | None:
    """Return the word of the list that is closest to `word`; None if none is close, or several are
    equally close.
    """
    return _near(word, tuple(words)) if 3 <= len(word) <= _LONGEST and word.isalpha() else None


@lru_cache(maxsize=4096)
def _near(word: str, words: tuple[str, ...]) -> str | None:
    most = 2 if len(word) >= LONG else 1
    best, found = most + 1, list[str]()
    for candidate in words:
        if word[0] != candidate[0] and word[:2] != candidate[1::-1]:
            # The first letter is rarely wrong.
            continue
        away = distance(word, candidate, most)
        if away < best and (len(word) > 3 or sorted(word) == sorted(candidate)):
            best, found = away, [candidate]
        elif away == best <= most:
            found.append(candidate)
    return found[0] if len(found) == 1 else None
