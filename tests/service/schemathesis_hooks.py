"""What Schemathesis loads first (SCHEMATHESIS_HOOKS), to save most of the time of a run.

Hypothesis builds the strategy of a character class again for each pattern and value, character by
character: for the invisible characters of our patterns, in most of the time. Kept, it gives the same
values. It also reads its table of the characters of an encoding from disk for each strategy of
characters. Schemathesis repeats `maxLength` in a pattern that has no bound, and compiles the result for
each schema that it derives: `[^x]{0,9999}` takes 60 ms. `maxLength` itself stays. It keeps 128
strategies, fewer than our document has, and builds the others again and again.

Remove each once its library no longer needs it.
"""

from __future__ import annotations

import gc
from functools import cache
from re import Pattern
from typing import Any

from hypothesis.strategies import SearchStrategy
from hypothesis.strategies._internal import regex as regexes
from hypothesis.strategies._internal import strings
from schemathesis.generation.hypothesis import canonical_form_cache, canonical_strategy_cache
from schemathesis.generation.jsonschema import strategy as strategies
from schemathesis.specs.openapi import converter

FOLDED_MOST = 1000
"""Longest `maxLength` that becomes part of a pattern."""

_fold = converter.update_quantifier
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


def _short_folded(pattern: str, least: int | None, most: int | None) -> str:
    return _fold(pattern, least, most if most is not None and most <= FOLDED_MOST else None)


strategies.update_quantifier = converter.update_quantifier = _short_folded
regexes.base_regex_strategy = _kept
strings.charmap.intervals_from_codec = cache(strings.charmap.intervals_from_codec)
regexes.CharactersBuilder.strategy = property(_kept_class)
for _cache in (canonical_form_cache, canonical_strategy_cache):
    _cache._maxsize = 100_000

gc.freeze()
gc.set_threshold(50_000, 20, 50)  # values are drawn by the thousand, and few are cycles
