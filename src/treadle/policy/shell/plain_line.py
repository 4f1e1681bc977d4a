"""A line of the small language as values. Entry points: `PlainLine`, `OutsideLanguage`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class OutsideLanguage(NamedTuple):
    """Raised for a line outside the language."""

    why: str
    """The first thing outside the language, as the end of a sentence that begins with "it has"."""
    is_beyond: bool = False
    """True if a limit was reached, so that the rest was not read."""


class PlainWord(NamedTuple):
    start: int
    end: int
    value: str
    wild: frozenset[int] = frozenset()
    """Positions in `value` of `*` and `?` that match file names."""
    is_bare: bool = True
    """True if it is written without quotes, escapes or expansions."""
    is_exact: bool = True
    """False if it contains `$?`: `value` has a 0 where bash puts a number."""


@dataclass(slots=True)
class PlainCommand:
    words: list[PlainWord] = field(default_factory=list[PlainWord])
    reads: list[PlainWord] = field(default_factory=list[PlainWord])
    """Files after `<`."""
    is_fed: bool = False
    """True after a `|`."""


class Token(NamedTuple):
    start: int
    end: int
    is_word: bool


@dataclass(slots=True)
class PlainLine:
    commands: list[PlainCommand] = field(default_factory=list[PlainCommand])
    tokens: list[Token] = field(default_factory=list[Token])
    """Words, operators and the parts of redirections, in order, without line breaks."""
