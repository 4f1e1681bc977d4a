"""Tokenization of a text: each word with its position, comparison key, and following stop.

Quoted text is one word that matches no table. The meaning of words is elsewhere. All functions are
linear in the text. Entry points: `words_of`, `phrase`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from treadle.apps.assistant.language.phrases import known

QUOTED = '"'
"""Key of every quoted text."""
_PAIRS = {'"': '"', "“": "”", "„": "“”", "«": "»", "\u2018": "\u2019", "'": "'", "`": "`"}
_INNER = ("'", "\u2018")
"""Characters that may be apostrophes. As quotes they open before a word and close after one."""
_APOSTROPHES = str.maketrans("", "", "'\u2019\u2018`\u00b4\u02bc")
_LEADING = "([{<*•·\u2013—→>~¿¡"
_TRAILING = ",;.!?:)]}>…*~。,、"
_STOPS = {
    ",": ",",
    "、": ",",
    ":": ":",
    "?": "?",
    ";": "\n",
    ".": ".",
    "!": ".",
    "…": ".",
    "。": ".",
}
_ARROWS = known("-> => --> → ⇒ ➜")
_SHORT = known(
    """dr mr mrs ms st vs eg ie approx jan feb mar apr jun jul aug sep sept oct nov dec prof inc ltd no nr"""
)
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_OPENERS = {close: opener for opener, close in _BRACKETS.items()}
_RUN = re.compile(r"\S+")
_JOINED = re.compile(r"[^,;]+[,;]?")
_COLON = re.compile(
    r"(?i)(todo|to-do|tasks?|add|new|reminder|note|notes|description|due|priority|title):(?=[^\s:/])"
)


class Token(NamedTuple):
    text: str
    """Original text without surrounding punctuation; for quoted text the content of the quotes."""
    key: str
    """Casefolded key without apostrophes."""
    start: int
    end: int
    place: int
    stop: str = ""
    """Stop after the word: none, `,` `:` `?`, `.` for a sentence, or a line feed."""

    @property
    def quoted(self) -> bool:
        return self.key == QUOTED


Words = Sequence[Token]


def key_of(text: str) -> str:
    """Return the comparison key: NFKC, casefolded, without invisible characters and apostrophes."""
    folded = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES)).casefold()
    return (
        folded
        if folded.isascii()
        else "".join(c for c in folded if unicodedata.category(c) != "Cf").translate(_APOSTROPHES)
    )


def keys_of(words: Words) -> list[str]:
    return [word.key for word in words]


def words_of(text: str) -> list[Token]:
    words: list[Token] = []
    place, closers = 0, _Closers(text)
    while (run := _RUN.search(text, place)) is not None:
        at = run.start()
        while at < run.end() and text[at] in "([{":
            at += 1
        if (
            at < run.end()
            and text[at] in _PAIRS
            and (close := closers.after(text[at], at)) is not None
        ):
            words.append(Token(text[at + 1 : close].strip(), QUOTED, at, close + 1, len(words)))
            place = _after_quote(text, close + 1, words)
        else:
            end = _next_quote(text, run.start(), run.end(), closers)
            _add_run(text, run.start(), end, words)
            place = end
        _end_line(text, place, words)
    return words


class _Closers:
    """Positions of closing quotes. A kind that does not occur again is not searched again, which
    keeps all searches together linear.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._none_after: dict[str, int] = {}

    def after(self, opener: str, at: int) -> int | None:
        if self._none_after.get(opener, len(self._text)) <= at:
            return None
        place, wanted = at + 1, _PAIRS[opener]
        while place < len(self._text):
            found = min((p for c in wanted if (p := self._text.find(c, place)) >= 0), default=-1)
            if found < 0:
                break
            if opener not in _INNER or _closes(self._text, found):
                return found if self._text[at + 1 : found].strip() else None
            place = found + 1
        self._none_after[opener] = at
        return None


def _closes(text: str, at: int) -> bool:
    return not text[at - 1].isspace() and (at + 1 == len(text) or not text[at + 1].isalnum())


def _next_quote(text: str, start: int, end: int, closers: _Closers) -> int:
    """Return the position of a quote that opens within a run of characters, for example after a
    colon.
    """
    for at in range(start + 1, end):
        if (
            text[at] in _PAIRS
            and text[at - 1] in ":,(="
            and closers.after(text[at], at) is not None
        ):
            return at
    return end


def _after_quote(text: str, place: int, words: list[Token]) -> int:
    while place < len(text) and text[place] in _TRAILING:
        words[-1] = _stopped(words[-1], text[place])
        place += 1
    return place


def _add_run(text: str, start: int, end: int, words: list[Token]) -> None:
    run = text[start:end]
    if (colon := _COLON.match(run)) is not None:
        _add_word(text, start, start + colon.end(), words)
        start += colon.end()
        run = text[start:end]
    if "," in run[:-1] and not any(c.isdigit() for c in run):
        for piece in _JOINED.finditer(run):
            _add_word(text, start + piece.start(), start + piece.end(), words)
    else:
        _add_word(text, start, end, words)


def _add_word(text: str, start: int, end: int, words: list[Token]) -> None:
    first, last = start, end
    if text[start:end] in _ARROWS:
        words.append(Token(text[start:end], text[start:end], start, end, len(words)))
        return
    while first < last and text[first] in _LEADING:
        first += 1
    while last > first and text[last - 1] in _TRAILING:
        last -= 1
    if first == last:  # punctuation alone, such as a dash or a smiley
        if words and text[start] in _STOPS:
            words[-1] = _stopped(words[-1], text[start])
        return
    word = Token(
        text[first:last], key_of(text[first:last]) or text[first:last], first, last, len(words)
    )
    for mark in text[last:end]:
        if not (
            mark == "." and (word.key in _SHORT or (len(word.key) == 1 and word.key.isalpha()))
        ):
            word = _stopped(word, mark)
    words.append(word)


def _stopped(word: Token, mark: str) -> Token:
    stop = _STOPS.get(mark, word.stop)
    return word if word.stop == "?" else word._replace(stop=stop)


def _end_line(text: str, place: int, words: list[Token]) -> None:
    if words and place < len(text) and words[-1].stop != "\n":
        after = _RUN.search(text, place)
        if "\n" in text[place : after.start() if after else len(text)]:
            words[-1] = words[-1]._replace(stop="?" if words[-1].stop == "?" else "\n")


def phrase(text: str, words: Words) -> str:
    """Return the words as they were written: a single quoted text without its quotes, spaces
    collapsed.
    """
    if len(words) == 1 and words[0].quoted:
        return words[0].text
    pieces: list[str] = []
    first = 0
    for i, word in enumerate(words):
        if i + 1 == len(words) or words[i + 1].place != word.place + 1:
            start, end = _with_brackets(text, words[first].start, word.end)
            pieces.append(" ".join(text[start:end].split()))
            first = i + 1
    return " ".join(pieces)


def _with_brackets(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend the span to brackets that match one inside: "<b>" is not "b"."""
    while (
        start
        and (close := _BRACKETS.get(text[start - 1])) is not None
        and close in text[start : end + 1]
    ):
        start -= 1
    while (
        end < len(text)
        and (opener := _OPENERS.get(text[end])) is not None
        and text.count(opener, start, end) > text.count(text[end], start, end)
    ):
        end += 1
    return start, end
