"""Tokenization of a text, tables of phrases, and typing errors.

A pattern is words with `|` between alternatives and `?` after an optional one: "mark|set it? as
done"; " / " separates patterns. Patterns are not expanded: a few represent thousands of phrases.
Quoted text is one word that matches no table. Misspelt days and field names get the key of the word
that they mean. All functions are linear in the text. Entry points: `words_of`, `phrase`, `Phrases`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from treadle.apps.assistant.matching import distance

T = TypeVar("T")
Keys: TypeAlias = Sequence[str]
Pattern: TypeAlias = tuple[tuple[frozenset[str], bool], ...]
"""Alternatives for each word, with True if the word is optional."""
Row: TypeAlias = tuple[Pattern, T]


def known(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


def numbered(words: str, start: int = 0) -> dict[str, int]:
    """Return the numbers of the words, which commas separate if they mean the same."""
    groups = enumerate(words.split(), start)
    return {word: number for number, group in groups for word in group.split(",")}


class Phrases(Generic[T]):
    """Table of patterns with their meanings. Of matches with equal length, the first one counts."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._from: dict[str, list[Row[T]]] = {}
        self._to: dict[str, list[Row[T]]] = {}
        for text, value in table.items():
            for pattern in map(pattern_of, text.split(" / ")):
                _file(self._from, pattern, value)
                _file(self._to, pattern[::-1], value)

    @classmethod
    def plain(cls: type[Phrases[str]], patterns: str) -> Phrases[str]:
        """Return a table of patterns without meanings."""
        return cls({patterns: ""})

    def at(self, keys: Keys, place: int = 0) -> tuple[int, T] | None:
        """Return the length of the longest phrase at `place`, and its meaning."""
        rows = self._from.get(keys[place], ()) if place < len(keys) else ()
        return _longest(rows, keys, place, 1)

    def ending(self, keys: Keys) -> tuple[int, T] | None:
        """Return the length of the longest phrase at the end, and its meaning."""
        return _longest(self._to.get(keys[-1], ()), keys, len(keys) - 1, -1) if keys else None

    def whole(self, keys: Keys) -> T | None:
        rows = self._from.get(keys[0], ()) if keys else ()
        return next((v for one, v in rows if len(keys) in _lengths(one, keys, 0, 1)), None)

    def begins_with(self, key: str) -> bool:
        return key in self._from


def pattern_of(text: str) -> Pattern:
    parts = [(part.removesuffix("?"), part.endswith("?")) for part in text.split()]
    return tuple((frozenset(words.split("|")), optional) for words, optional in parts)


def _file(table: dict[str, list[Row[T]]], pattern: Pattern, value: T) -> None:
    """File a pattern under each word with which it may begin."""
    required = next((i for i, (_, optional) in enumerate(pattern) if not optional), len(pattern))
    for word in frozenset[str]().union(*(words for words, _ in pattern[: required + 1])):
        table.setdefault(word, []).append((pattern, value))


def _longest(rows: Iterable[Row[T]], keys: Keys, place: int, step: int) -> tuple[int, T] | None:
    best: tuple[int, T] | None = None
    for pattern, value in rows:
        most = max(_lengths(pattern, keys, place, step), default=0)
        if most > (best[0] if best is not None else 0):
            best = most, value
    return best


def _lengths(pattern: Pattern, keys: Keys, place: int, step: int) -> set[int]:
    """Return the lengths that a match at `place` can have; empty without a match."""
    lengths = {0}
    for words, optional in pattern:
        places = ((n, place + n * step) for n in lengths)
        ahead = {n + 1 for n, at in places if 0 <= at < len(keys) and keys[at] in words}
        lengths = ahead | lengths if optional else ahead
        if not lengths:
            break
    return lengths


@lru_cache(maxsize=4096)
def near(word: str, words: tuple[str, ...]) -> str | None:
    """Return the word of the list that is closest to `word`; None if none is close, or several are.

    From seven letters two errors are accepted; three letters may only be swapped.
    """
    if not 3 <= len(word) <= 16 or not word.isalpha():
        return None
    most = 2 if len(word) >= 7 else 1
    away = {
        other: distance(word, other, most)
        for other in words
        if (word[0] == other[0] or word[:2] == other[1::-1])  # the first letter is rarely wrong
        and (len(word) > 3 or sorted(word) == sorted(other))
    }
    closest = [other for other, count in away.items() if count == min(away.values()) <= most]
    return closest[0] if len(closest) == 1 else None


QUOTED = '"'
"""Key of every quoted text."""
_APOSTROPHES = str.maketrans("", "", "'\u2019\u2018`\u00b4\u02bc")
_LEADING = "([{<*•·\u2013—→>~¿¡"
_TRAILING = ",;.!?:)]}>…*~。,、"
_STOPS = dict(zip(",、:?;.!…。", ",,:?\n....", strict=True))
_QUOTE = (
    '"[^"]{1,1000}"|“[^”]{1,1000}”|„[^“”]{1,1000}[“”]|«[^»]{1,1000}»|`[^`]{1,1000}`'
    r"|['\u2018](?:[^'\u2019]|['\u2019](?=\w)){1,1000}(?<=\S)['\u2019](?!\w)"
)
"""Quoted texts. An apostrophe opens one before a word, and closes one after a word."""
_TOKEN = re.compile(
    rf"(?:[(\[{{]*(?P<quote>{_QUOTE})(?P<after>[{re.escape(_TRAILING)}]*)"
    r"|(?P<run>\S(?:(?<![:,(=])\S|(?<=[:,(=])[^\s\"“„«\u2018'`])*))(?P<gap>\s*)"
)
_PIECES = re.compile(r"\S*\d\S*|[^,]+,?|,")
"""Parts of "milk,eggs,bread", but not of "1,000"."""
_ARROWS = known("-> => --> → ⇒ ➜")
_SHORT = known("dr mr mrs ms st vs eg ie jan feb mar apr jun jul aug sep sept oct nov dec prof no")
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_MENDED = tuple(
    [
        "tomorrow",
        "wednesday",
        "thursday",
        "saturday",
        "tuesday",
        "monday",
        "friday",
        "sunday",
        "today",
        "yesterday",
        "tonight",
        "priority",
        "deadline",
        "description",
        "completed",
        "finished",
    ]
)
_TYPED = {
    "dne": "done", "doen": "done", "compelte": "complete", "complet": "complete", "prioirty": "priority",
    "prority": "priority", "priorty": "priority", "taks": "tasks", "tsak": "task", "tasl": "task", "tsk": "task",
}  # fmt: skip


class Token(NamedTuple):
    text: str
    """Original text without surrounding punctuation; for quoted text the content of the quotes."""
    key: str
    """Casefolded key without apostrophes and typing errors."""
    start: int
    end: int
    place: int
    source: str
    """Text that contains the word."""
    stop: str = ""
    """Stop after the word: none, `,` `:` `?`, `.` for a sentence, or a line feed."""

    @property
    def quoted(self) -> bool:
        return self.key == QUOTED


Words: TypeAlias = Sequence[Token]


def key_of(text: str) -> str:
    """Return the comparison key: NFKC, casefolded, without invisible characters and apostrophes."""
    key = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).casefold()
    if key.isascii():
        return key
    return "".join(c for c in key if unicodedata.category(c) != "Cf").translate(_APOSTROPHES)


def _mended(key: str) -> str:
    if len(key) < 5 or key == "sundae" or key.removesuffix("s") in _MENDED:
        return _TYPED.get(key, key)
    return _TYPED.get(key) or near(key, _MENDED) or key


def keys_of(words: Words) -> list[str]:
    return [word.key for word in words]


def words_of(text: str) -> list[Token]:
    words: list[Token] = []
    for found in _TOKEN.finditer(text):
        if (quote := found["quote"]) is not None:
            if inner := quote[1:-1].strip():
                words.append(Token(inner, QUOTED, *found.span("quote"), len(words), text))
            _stop(words, found["after"])
        else:
            for piece in _PIECES.finditer(text, *found.span("run")):
                _add_word(text, *piece.span(), words)
        if words and "\n" in found["gap"] and words[-1].stop != "?":
            words[-1] = words[-1]._replace(stop="\n")
    return words


def _stop(words: list[Token], marks: str) -> None:
    for mark in marks:
        if words and words[-1].stop != "?" and mark in _STOPS:
            words[-1] = words[-1]._replace(stop=_STOPS[mark])


def _add_word(text: str, start: int, end: int, words: list[Token]) -> None:
    run = text[start:end]
    bare = run if run in _ARROWS else run.lstrip(_LEADING).rstrip(_TRAILING)
    if not bare:  # punctuation alone, such as a dash or a smiley
        return _stop(words, run[0])
    first = start + run.index(bare)
    last = first + len(bare)
    key = _mended(key_of(bare) or bare)
    words.append(Token(bare, key, first, last, len(words), text))
    short = key in _SHORT or (len(key) == 1 and key.isalpha())
    return _stop(words, text[last:end].replace(".", "") if short else text[last:end])


def phrase(words: Words) -> str:
    """Return the words as written, with single spaces; a single quoted text without its quotes."""
    if len(words) == 1 and words[0].quoted:
        return words[0].text
    pieces: list[str] = []
    first = 0
    for i, word in enumerate(words):
        if i + 1 == len(words) or words[i + 1].place != word.place + 1:
            start, end = _with_brackets(word.source, words[first].start, word.end)
            pieces.append(" ".join(word.source[start:end].split()))
            first = i + 1
    return " ".join(pieces)


def _with_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend the span to brackets that match one inside: "<b>" is not "b"."""
    while start and _BRACKETS.get(text[start - 1], "\0") in text[start : end + 1]:
        start -= 1
    openers = {close: opener for opener, close in _BRACKETS.items()}
    while end < len(text) and (opener := openers.get(text[end])) is not None:
        if text.count(opener, start, end) <= text.count(text[end], start, end):
            break
        end += 1
    return start, end


def without_start(words: Words, table: Phrases[T]) -> list[Token]:
    """Return the words without phrases of the table at the start, but not none."""
    kept = list(words)
    while (found := table.at(keys_of(kept[:12]))) is not None and found[0] < len(kept):
        del kept[: found[0]]
    return kept


def without_end(words: Words, table: Phrases[T]) -> list[Token]:
    """Return the words without phrases of the table at the end, but not none."""
    kept = list(words)
    while (found := table.ending(keys_of(kept[-9:]))) is not None and found[0] < len(kept):
        del kept[-found[0] :]
    return kept


def pieces_of(words: Words, joins: frozenset[str], stops: str = ",\n") -> list[list[Token]]:
    """Split the words at stops and conjunctions."""
    pieces: list[list[Token]] = [[]]
    for word in words:
        if word.key in joins:
            pieces.append([])
            continue
        pieces[-1].append(word)
        if word.stop and word.stop in stops:
            pieces.append([])
    return [piece for piece in pieces if piece]
