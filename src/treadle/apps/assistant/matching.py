"""Search for titles by words: exact titles first, then prefixes of words, other word forms, and
misspellings.

Case, width and punctuation are ignored. Entry points: `meant`, `holding`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from treadle.apps.assistant.stems import stem

Words: TypeAlias = tuple[str, ...]

WORDS_MOST: Final = 20
"""Maximum number of words of a query. Further words are ignored."""
_PASSED_OVER: Final = frozenset(
    {
        "a",
        "an",
        "the",
        "my",
        "our",
        "your",
        "task",
        "tasks",
        "todo",
        "item",
        "items",
        "reminder",
        "thing",
        "stuff",
        "about",
        "called",
        "named",
        "that",
        "this",
    }
    | {"one", "ones", "to", "for", "with", "of", "at", "on", "in", "from", "and"}
)
"""Stop words of a query, ignored unless there is no match otherwise."""
_APOSTROPHES: Final = frozenset("'`\u2019\u02bc\xb4")
_LETTERS_FOR_ONE: Final = 4
_LETTERS_FOR_TWO: Final = 8
_LETTERS_MOST: Final = 40
_GUESSED_MOST: Final = 10_000
"""Maximum number of compared pairs of words. A list of two thousand ordinary titles needs a third
of it.
"""
_PIECE_CHARS: Final = 3
"""Minimum length of a match inside a word. Scripts without word separators have none."""


def meant(query: str, titles: Sequence[str]) -> list[int]:
    """Return the indexes of the best matching titles, in order, including ties."""
    wanted = folded(query)[:WORDS_MOST]
    if not wanted:
        return []
    fewer = tuple(word for word in wanted if word not in _PASSED_OVER)
    ways: list[Callable[[], list[int]]] = [
        lambda: [at for at, title in enumerate(titles) if folded(title) == wanted],
        lambda: _beginning(wanted, titles),
    ]
    if fewer and fewer != wanted:
        ways += [
            lambda: [at for at, title in enumerate(titles) if folded(title) == fewer],
            lambda: _beginning(fewer, titles),
        ]
    ways += [
        lambda: _inside(query, titles),
        lambda: _formed(fewer, titles),
        lambda: _nearly(wanted, titles),
        lambda: _nearly(fewer, titles),
    ]
    return next((found for way in ways if (found := way())), list[int]())


def holding(query: str, texts: Sequence[str]) -> list[int]:
    """Return the indexes of all texts that contain the words, or if there are none, of those with
    similar words.
    """
    wanted = folded(query)[:WORDS_MOST]
    if not wanted:
        return []
    found = {*_beginning(wanted, texts), *_inside(query, texts)}
    return sorted(found) or _nearly(wanted, texts)


@lru_cache(maxsize=8192)
def folded(text: str) -> Words:
    """Return the words of a text. A text without letters and digits, such as one emoji, is split at
    spaces.
    """
    plain = _level(text)
    kept = (
        c if c.isalnum() or unicodedata.category(c)[0] == "M" else "" if c in _APOSTROPHES else " "
        for c in plain
    )
    return tuple("".join(kept).split()) or tuple(plain.split())


def _level(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _beginning(wanted: Words, texts: Sequence[str]) -> list[int]:
    return [
        at
        for at, text in enumerate(texts)
        if all(any(word.startswith(piece) for word in folded(text)) for piece in wanted)
    ]


def _formed(wanted: Words, texts: Sequence[str]) -> list[int]:
    """Return the texts that contain every word in some form: "calling mum" finds "call mum"."""
    stems = {stem(word) for word in wanted}
    return (
        [at for at, text in enumerate(texts) if stems <= {stem(word) for word in folded(text)}]
        if stems
        else []
    )


def _inside(query: str, texts: Sequence[str]) -> list[int]:
    piece = _level(query).strip()
    if len(piece) < _PIECE_CHARS and piece.isascii():
        return []
    return [at for at, text in enumerate(texts) if piece in _level(text)]


# ---------------------------------------------------------------- typing errors


def _nearly(wanted: Words, texts: Sequence[str]) -> list[int]:
    """Return the texts with the fewest misspellings, or none if that takes too many comparisons."""
    guesses = _Guesses()
    slips = (
        {
            at: sum_
            for at, text in enumerate(texts)
            if (sum_ := guesses.slips_of(wanted, folded(text))) is not None
        }
        if wanted
        else {}
    )
    least = min(slips.values(), default=0)
    return [] if guesses.are_too_many else [at for at, count in slips.items() if count == least]


class _Guesses:
    """Edit distances of words, with a limit on comparisons, so that a crafted list cannot block the
    process.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    @property
    def are_too_many(self) -> bool:
        return len(self._known) >= _GUESSED_MOST

    def slips_of(self, wanted: Words, words: Words) -> int | None:
        """Return the number of wrong letters; None if a word is missing."""
        total = 0
        for piece in wanted:
            best = min(
                (count for word in words if (count := self._slips(piece, word)) is not None),
                default=None,
            )
            if best is None:
                return None
            total += best
        return total

    def _slips(self, piece: str, word: str) -> int | None:
        if word.startswith(piece):
            return 0
        longer = max(len(piece), len(word))
        allowed = (
            0
            if not _LETTERS_FOR_ONE <= longer <= _LETTERS_MOST
            else 1
            if longer < _LETTERS_FOR_TWO
            else 2
        )
        if allowed == 0 or abs(len(piece) - len(word)) > allowed or piece.isdecimal():
            return None
        if (count := self._known.get((piece, word))) is None:
            if self.are_too_many:
                return None
            count = self._known[piece, word] = distance(piece, word, allowed)
        return count if count <= allowed else None


def distance(one: str, other: str, most: int) -> int:
    """Return the number of missing, extra, wrong or transposed letters, capped at `most` + 1."""
    far = most + 1
    older: list[int] = []
    before = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i] + [far] * len(other)
        # Values further off the diagonal exceed `most`.
        for j in range(max(1, i - most), min(len(other), i + most) + 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other[j - 1]))
            if older and j > 1 and letter == other[j - 2] and one[i - 2] == other[j - 1]:
                row[j] = min(row[j], older[j - 2] + 1)
        if min(row) > most:
            return far
        older, before = before, row
    return min(before[-1], far)
