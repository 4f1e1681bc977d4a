"""Tables of phrases: which one stands at a place among words, the longest first.

A pattern is words with `|` between alternatives and `?` after what may be missing: "mark|set it? as done". Entry: `Phrases`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Generic, TypeVar

T = TypeVar("T")
Keys = Sequence[str]


def known(words: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(words.split())


def spelled(pattern: str) -> list[tuple[str, ...]]:
    """Every row of words that the pattern stands for."""
    choices: list[list[str]] = []
    for part in pattern.split():
        optional = part.endswith("?")
        choices.append(part.removesuffix("?").split("|") + [""] * optional)
    return [row for row in {tuple(w for w in words if w) for words in product(*choices)} if row]


class Phrases(Generic[T]):
    """Rows of words with what each means."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self.rows: dict[tuple[str, ...], T] = {}
        for pattern, value in table.items():
            for row in spelled(pattern):
                self.rows.setdefault(row, value)
        self._first = _by(self.rows, 0)
        self._last = _by(self.rows, -1)

    @classmethod
    def plain(cls: type[Phrases[str]], patterns: Iterable[str]) -> Phrases[str]:
        """A table whose rows mean no more than that they stand there."""
        return cls({pattern: pattern for pattern in patterns})

    def at(self, keys: Keys, place: int = 0) -> tuple[int, T] | None:
        """How many words the longest row has that begins at `place`, and its meaning."""
        if place >= len(keys):
            return None
        for row in self._first.get(keys[place], ()):
            if tuple(keys[place : place + len(row)]) == row:
                return len(row), self.rows[row]
        return None

    def ending(self, keys: Keys, end: int | None = None) -> tuple[int, T] | None:
        """As `at`, for the longest row that ends before `end`."""
        stop = len(keys) if end is None else end
        if stop <= 0:
            return None
        for row in self._last.get(keys[stop - 1], ()):
            if len(row) <= stop and tuple(keys[stop - len(row) : stop]) == row:
                return len(row), self.rows[row]
        return None

    def whole(self, keys: Keys) -> T | None:
        return self.rows.get(tuple(keys))

    @property
    def first_words(self) -> tuple[str, ...]:
        return tuple(self._first)


def _by(rows: Iterable[tuple[str, ...]], place: int) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in sorted(rows, key=lambda r: (-len(r), r)):
        found.setdefault(row[place], []).append(row)
    return found
