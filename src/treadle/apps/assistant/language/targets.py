"""References to tasks: by words of the title, by number in a list, by "it", or several at once.

Entry point: `target_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import number_at
from treadle.apps.assistant.language.listing import filter_of
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.wishes import Every, Filter, Missing, Named, Target
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase

_BEFORE = Phrases.plain(
    [
        "the|my|our|this|that|these|those|a|an task|tasks|todo|todos|to-do|item|items|reminder|entry|one|ones called|named|titled|about|for|to|of|with|saying|that|which?",
        "the|my|our|old|of",
        "with? the? title|name",
    ]
)
_AFTER = Phrases.plain(
    [
        "task|tasks|todo|todos|to-do|item|items|reminder|entry|one|from|off|on|in|please|too|again|now|immediately|already",
        "from|off|on|in|of my|the|our|your to-do|todo|task|tasks? list|tasks|todos|todo|lists",
        "any more",
        "anymore|either|instead",
    ]
)
_IT = Phrases(
    {
        "it|that|this|thing": "it",
        "the|that|this same|last|previous|latest|newest|recent? task|one|item|todo|reminder": "it",
        "both": "both",
        "them|those|these": "them",
        "all of them|those|these": "them",
        "them all": "them",
    }
)
_ORDINALS = {
    word: i
    for i, words in enumerate(
        (
            "first 1st",
            "second 2nd",
            "third 3rd",
            "fourth 4th",
            "fifth 5th",
            "sixth 6th",
            "seventh 7th",
            "eighth 8th",
            "ninth 9th",
            "tenth 10th",
        ),
        1,
    )
    for word in words.split()
}
_NUMBER_WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_HASH = re.compile(r"#?(\d{1,4})(?:st|nd|rd|th)?\.?")
_COUNTERS = known("""number no nr num task item option # tasks numbers items todo entry""")
_ALL = Phrases.plain(
    [
        "all|every|everything|each|entire",
        "my|the? list|tasks|todos",
    ]
)
_EXCEPT = known("except but besides excluding unless without apart")
_OR_COUNT = re.compile(r"\d{1,3}")
TASK = Missing("which task you mean", "task")


def target_of(
    text: str, words: Words, today: date, talk: Dialogue
) -> Target | tuple[Named, ...] | Missing:
    """Return one target, or several named ones; Missing if the reference is ambiguous."""
    if (every := _every(text, words, today)) is not None and _IT.whole(keys_of(words)) is None:
        return every
    words = _bared(words)
    if not words:
        return TASK
    keys = keys_of(words)
    if (it := _IT.whole(keys)) is not None and not words[0].quoted:
        if talk.fresh == "list" and len(talk.listed) > 1 and "last" in keys:
            return _numbered([-1], talk)
        referred = _referred(it, talk)
        return Every(Filter("all")) if isinstance(referred, Missing) and "all" in keys else referred
    if (numbers := _numbers(words)) is not None:
        return _numbered(numbers, talk)
    words = _without_article(words)
    if not words:
        return TASK
    named = phrase(text, words)
    keys = keys_of(words)
    if (
        not words[0].quoted
        and len(keys) == 1
        and keys[0]
        in ("something", "anything", "one", "some", "stuff", "a", "task", "tasks", "things", "to")
    ):
        return TASK
    return Named(named, parts_of(text, words))


def parts_of(text: str, words: Words) -> tuple[str, ...]:
    """Return the separate tasks that "milk, bread and the report" may denote; empty if it can only
    be one task.
    """
    if words[0].key == "both":
        words = words[1:]
    pieces: list[list[Token]] = [[]]
    for word in words:
        if word.key in ("and", "&", "plus", "also", "or") and not word.quoted:
            pieces.append([])
            continue
        pieces[-1].append(word)
        if word.stop in (",", "\n"):
            pieces.append([])
    named = [phrase(text, bare) for piece in pieces if (bare := _without_article(_bared(piece)))]
    return tuple(named) if 1 < len(named) <= 10 else ()


def _bared(words: Words) -> list[Token]:
    kept = list(words)
    while (
        len(kept) > 1
        and (found := _AFTER.ending(keys_of(kept[-8:]))) is not None
        and not kept[-1].quoted
        and found[0] < len(kept)
    ):
        if _IT.whole(keys_of(kept)) is not None or (
            kept[-1].key in ("one", "today", "task")
            and len(kept) <= 3
            and kept[-2].key in _ORDINALS
        ):
            break
        del kept[-found[0] :]
    return kept


def _without_article(words: Words) -> list[Token]:
    kept = list(words)
    for _ in range(3):
        found = _BEFORE.at(keys_of(kept[:12]))
        if found is None or found[0] >= len(kept):
            break
        del kept[: found[0]]
    return kept


def _referred(it: str, talk: Dialogue) -> Named | tuple[Named, ...] | Missing:
    if it == "it":
        return Named(talk.last) if talk.last else TASK
    trail = talk.trail[-2:] if it == "both" else talk.trail
    listed = talk.listed if talk.fresh == "list" else ()
    titles = next(
        (titles for titles in (talk.options, talk.recent, trail, listed) if len(titles) > 1), ()
    )
    return tuple(Named(title) for title in titles) if titles else TASK


def _numbers(words: Words) -> list[int] | None:
    """Return the numbers if the words contain nothing else: "number 3", "the second one", "1 and
    4", "the first two", "the last one".
    """
    keys = [key for word in words for key in ([word.key] if word.quoted else word.key.split(","))]
    if any(word.quoted for word in words):
        return None
    span = [
        key
        for key in keys
        if key not in ("the", "and", "&", "in", "on", "list", "my", "of", "ones", "also", "or")
    ]
    if (
        len(span) in (2, 3)
        and span[0] in ("first", "last", "top")
        and (count := number_at(span, 1)) is not None
        and span[2:] in ([], ["tasks"], ["items"], ["task"])
    ):
        return (
            list(range(1, count[1] + 1))
            if span[0] != "last" and count[1] <= 10
            else [-1]
            if count[1] == 1
            else None
        )
    marked = bool(span) and (span[0] in _COUNTERS or len(span) > 1 or span[0].startswith("#"))
    numbers: list[int] = []
    for i, key in enumerate(span):
        if key in _ORDINALS:
            numbers.append(_ORDINALS[key])
        elif key in ("last", "bottom"):
            numbers.append(-1)
        elif (digits := _HASH.fullmatch(key)) is not None:
            numbers.append(int(digits[1]))
        elif key in _NUMBER_WORDS and (
            marked and not (key == "one" and i and span[i - 1] not in _COUNTERS)
        ):
            numbers.append(_NUMBER_WORDS.index(key) + 1)
        elif key not in _COUNTERS and key not in ("one", "above", "option"):
            return None
    if not numbers and span == ["one"] and keys != ["one"]:
        return None
    return numbers[:10] or None


def _numbered(numbers: Sequence[int], talk: Dialogue) -> Named | tuple[Named, ...] | Missing:
    titles = [talk.numbered(number) for number in numbers]
    found = tuple(Named(title) for title in dict.fromkeys(titles) if title is not None)
    if len(found) < len(set(numbers)) or not found:
        return Missing(
            "which task you mean"
            if not (talk.options or talk.listed)
            else "which task you mean: there is no such number in the list",
            "task",
        )
    return found if len(found) > 1 else next(iter(found))


def _every(text: str, words: Words, today: date) -> Every | Missing | None:
    """Parse "all open tasks", "everything due today", "my overdue tasks"."""
    keys = keys_of(words)
    if not keys:
        return None
    starts = _ALL.at(keys)
    plural = keys[-1] in ("tasks", "todos", "items", "to-dos") or "tasks" in keys
    if not words or words[0].quoted or (starts is None and not plural):
        return None
    if any(key in _EXCEPT for key in keys):
        return Missing("which tasks you mean exactly", "task")
    counted = next((int(key) for key in keys[:3] if _OR_COUNT.fullmatch(key)), None)
    filtered = filter_of(
        text,
        [
            w
            for w in words
            if not _OR_COUNT.fullmatch(w.key) or w.place > words[min(2, len(words) - 1)].place
        ],
        today,
    )
    wanted = filtered.filter
    if "due" in keys and wanted.search is None:
        return Missing("which tasks you mean exactly", "task")
    if filtered.rest:
        if starts is None or (keys[0] in ("my", "the") and wanted.empty):
            return None
        if wanted.search is not None:
            return Missing("which tasks you mean exactly", "task")
        wanted = Filter(wanted.status, wanted.priority, filtered.rest)
    if starts is None and (wanted.empty or counted is not None):
        return Missing("which tasks you mean", "task")
    return Every(wanted)
