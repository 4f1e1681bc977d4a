"""Tables of phrases that find the longest match at a place among words.

A pattern is words with `|` between alternatives and `?` after an optional one: "mark|set it? as
done". Patterns are not expanded: a few of them represent thousands of phrases. Entry point:
`Phrases`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Keys = Sequence[str]
Pattern: TypeAlias = tuple[tuple[frozenset[str], bool], ...]
"""Alternatives for each word, with True if the word is optional."""


def known(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


def pattern_of(text: str) -> Pattern:
    return tuple(
        (frozenset(part.removesuffix("?").split("|")), part.endswith("?") and part != "?")
        for part in text.split()
    )


class Phrases(Generic[T]):
    """Table of patterns with their meanings. Of matches with equal length, the first one counts."""

    def __init__(self, table: Mapping[str, T]) -> None:
        forward = [(pattern_of(text), value) for text, value in table.items()]
        self._from: dict[str, list[tuple[Pattern, T]]] = _by_first(forward)
        self._to: dict[str, list[tuple[Pattern, T]]] = _by_first(
            [(pattern[::-1], value) for pattern, value in forward]
        )

    @classmethod
    def plain(cls: type[Phrases[str]], patterns: Iterable[str]) -> Phrases[str]:
        """Return a table of patterns without meanings."""
        return cls({pattern: pattern for pattern in patterns})

    def at(self, keys: Keys, place: int = 0) -> tuple[int, T] | None:
        """Return the length of the longest phrase at `place`, and its meaning."""
        if place >= len(keys):
            return None
        return _longest(self._from.get(keys[place], ()), keys, place, 1)

    def ending(self, keys: Keys, end: int | None = None) -> tuple[int, T] | None:
        """Return the length of the longest phrase that ends before `end`, and its meaning."""
        last = (len(keys) if end is None else end) - 1
        return None if last < 0 else _longest(self._to.get(keys[last], ()), keys, last, -1)

    def whole(self, keys: Keys) -> T | None:
        if not keys:
            return None
        return next(
            (
                value
                for pattern, value in self._from.get(keys[0], ())
                if len(keys) in _lengths(pattern, keys, 0, 1)
            ),
            None,
        )

    def begins_with(self, key: str) -> bool:
        return key in self._from


def _by_first(table: Iterable[tuple[Pattern, T]]) -> dict[str, list[tuple[Pattern, T]]]:
    found: dict[str, list[tuple[Pattern, T]]] = {}
    for pattern, value in table:
        first = set[str]()
        for words, optional in pattern:
            first |= words
            if not optional:
                break
        for word in first:
            found.setdefault(word, []).append((pattern, value))
    return found


def _longest(
    candidates: Iterable[tuple[Pattern, T]], keys: Keys, place: int, step: int
) -> tuple[int, T] | None:
    best: tuple[int, T] | None = None
    for pattern, value in candidates:
        most = max(_lengths(pattern, keys, place, step), default=0)
        if most > (best[0] if best is not None else 0):
            best = most, value
    return best


def _lengths(pattern: Pattern, keys: Keys, place: int, step: int) -> set[int]:
    """Return the lengths that a match at `place` can have; empty without a match."""
    lengths = {0}
    for words, optional in pattern:
        further = {
            n + 1
            for n in lengths
            if 0 <= (at := place + n * step) < len(keys) and keys[at] in words
        }
        lengths = further | lengths if optional else further
        if not lengths:
            break
    return lengths
