"""A line of the small language as values. Entry points: `PlainLine`, `OutsideLanguage`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class OutsideLanguage(NamedTuple):
    """The reason why a line is outside the language."""

    why: str
    """The first part outside the language, as the end of a sentence that begins with "it has"."""
    is_beyond: bool = False
    """True if the line exceeds a limit, so that the rest was not read."""


class PlainWord(NamedTuple):
    start: int
    end: int
    value: str
    wild: frozenset[int] = frozenset()
    """Indices in `value` of the unquoted `*` and `?`."""
    is_bare: bool = True
    """True if it is written without quotes, escapes or expansions."""
    is_exact: bool = True
    """False if the word contains `$?`, for which `value` has a 0."""


@dataclass(slots=True)
class PlainCommand:
    words: list[PlainWord] = field(default_factory=list[PlainWord])
    reads: list[PlainWord] = field(default_factory=list[PlainWord])
    """Files after `<`."""
    is_fed: bool = False
    """True if it follows a `|`."""


class Token(NamedTuple):
    start: int
    end: int
    is_word: bool


@dataclass(slots=True)
class PlainLine:
    commands: list[PlainCommand] = field(default_factory=list[PlainCommand])
    tokens: list[Token] = field(default_factory=list[Token])
    """Words, operators and parts of redirections, in order, without line breaks."""
