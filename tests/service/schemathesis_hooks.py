"""What Schemathesis loads first (SCHEMATHESIS_HOOKS): Hypothesis builds the strategy of a character
class anew for each pattern and value, character by character, which for the invisible characters of
our patterns is most of the time of a run. Kept, it gives the same values.

Remove this once Hypothesis keeps them itself.
"""

from __future__ import annotations

from re import Pattern
from typing import Any

from hypothesis.strategies import SearchStrategy
from hypothesis.strategies._internal import regex as regexes

_build, _of_class = regexes.base_regex_strategy, regexes.CharactersBuilder.strategy
_patterns: dict[tuple[Pattern[Any], str], SearchStrategy[Any]] = {}
_classes: dict[object, SearchStrategy[Any]] = {}


def _kept(
    regex: Pattern[Any], *, parsed: Any = None, alphabet: SearchStrategy[Any] | None
) -> SearchStrategy[Any]:
    """Return the strategy of a pattern over an alphabet; `parsed` follows from the pattern."""
    key = regex, repr(alphabet)
    if key not in _patterns:
        _patterns[key] = _build(regex, parsed=parsed, alphabet=alphabet)
    return _patterns[key]


def _kept_class(built: Any) -> SearchStrategy[Any]:
    key = (
        frozenset(built._whitelist_chars),
        built._intervals,
        built._negate,
        built._alphabet.intervals,
    )
    if key not in _classes:
        _classes[key] = _of_class.__get__(built)
    return _classes[key]


regexes.base_regex_strategy = _kept
regexes.CharactersBuilder.strategy = property(_kept_class)
