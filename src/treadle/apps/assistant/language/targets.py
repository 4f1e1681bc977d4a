"""References to tasks: by words of the title, by number in a list, by "it", or several at once.

Entry point: `target_of`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import number_at
from treadle.apps.assistant.language.listing import filter_of
from treadle.apps.assistant.language.wishes import Every, Filter, Missing, Named, Target
from treadle.apps.assistant.language.wording import (
    Phrases,
    Token,
    Words,
    keys_of,
    known,
    numbered,
    phrase,
)

_BEFORE = Phrases.plain(
    "the|my|our|this|that|these|those|a|an task|tasks|todo|todos|to-do|item|items|reminder|entry|one|ones "
    "called|named|titled|about|for|to|of|with|saying|that|which? / the|my|our|old|of / "
    "with? the? title|name"
)
_AFTER = Phrases.plain(
    "task|tasks|todo|todos|to-do|item|items|reminder|entry|one|from|off|on|in|please|too|again|now|immediately|already / "
    "from|off|on|in|of my|the|our|your to-do|todo|task|tasks? list|tasks|todos|todo|lists / "
    "any more / anymore|either|instead"
)
_IT = Phrases(
    {
        "it|that|this|thing / the|that|this same|last|previous|latest|newest|recent? task|one|item|todo|reminder": "it",
        "both": "both",
        "them|those|these / all of them|those|these / them all": "them",
    }
)
_ORDINALS = numbered(
    "first,1st second,2nd third,3rd fourth,4th fifth,5th sixth,6th seventh,7th eighth,8th "
    "ninth,9th tenth,10th",
    1,
)
_NUMBER_WORDS = numbered("one two three four five six seven eight nine ten", 1)
_HASH = re.compile(r"#?(\d{1,4})(?:st|nd|rd|th)?\.?")
_COUNTERS = known("number no nr num task item option # tasks numbers items todo entry")
_FILLING = known("the and & in on list my of ones also or")
_ALL = Phrases.plain("all|every|everything|each|entire / my|the? list|tasks|todos")
_PLURALS = known("tasks todos items to-dos")
_EXCEPT = known("except but besides excluding unless without apart")
_VAGUE = known("something anything one some stuff a task tasks things to")
TASK = Missing("which task you mean", "task")
_EXACTLY = Missing("which tasks you mean exactly", "task")


def target_of(words: Words, talk: Dialogue) -> Target | tuple[Named, ...] | Missing:
    """Return one target, or several named ones; Missing if the reference is ambiguous."""
    if _IT.whole(keys_of(words)) is None and (every := _every(words, talk)) is not None:
        return every
    words = _bared(words)
    keys = keys_of(words)
    if (it := _IT.whole(keys)) is not None:
        if talk.fresh == "list" and len(talk.listed) > 1 and "last" in keys:
            return _numbered([-1], talk)
        referred = _referred(it, talk)
        return Every(Filter("all")) if isinstance(referred, Missing) and "all" in keys else referred
    if (numbers := _numbers(words)) is not None:
        return _numbered(numbers, talk)
    words = _without_article(words)
    if not words or (len(words) == 1 and words[0].key in _VAGUE):
        return TASK
    return Named(phrase(words), parts_of(words))


def parts_of(words: Words) -> tuple[str, ...]:
    """Return the separate tasks that "milk, bread and the report" may denote; empty if it can only
    be one task.
    """
    pieces: list[list[Token]] = [[]]
    for word in words[words[0].key == "both" :]:
        if word.key in ("and", "&", "plus", "also", "or"):
            pieces.append([])
            continue
        pieces[-1].append(word)
        if word.stop in (",", "\n"):
            pieces.append([])
    named = [phrase(bare) for piece in pieces if (bare := _without_article(_bared(piece)))]
    return tuple(named) if 1 < len(named) <= 10 else ()


def _bared(words: Words) -> list[Token]:
    kept = list(words)
    while len(kept) > 1 and (found := _AFTER.ending(keys_of(kept[-8:]))) is not None:
        ordinal = kept[-1].key in ("one", "task") and len(kept) <= 3 and kept[-2].key in _ORDINALS
        if found[0] >= len(kept) or ordinal or _IT.whole(keys_of(kept)) is not None:
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
    known_titles = (talk.options, talk.recent, trail, listed)
    titles = next((titles for titles in known_titles if len(titles) > 1), ())
    return tuple(Named(title) for title in titles) if titles else TASK


def _numbers(words: Words) -> list[int] | None:
    """Return the numbers if the words contain nothing else: "number 3", "the second one", "1 and
    4", "the first two", "the last one".
    """
    if any(word.quoted for word in words):
        return None
    keys = [key for word in words for key in word.key.split(",")]
    span = [key for key in keys if key not in _FILLING]
    count = number_at(span, 1) if span[:1] in (["first"], ["last"], ["top"]) else None
    if count is not None and span[2:] in ([], ["tasks"], ["items"], ["task"]):
        last = [-1] if count[1] == 1 else None
        return list(range(1, count[1] + 1))[:10] if span[0] != "last" else last
    marked = bool(span) and (span[0] in _COUNTERS or len(span) > 1 or span[0].startswith("#"))
    numbers: list[int] = []
    for i, key in enumerate(span):
        if key in _ORDINALS or key in ("last", "bottom"):
            numbers.append(_ORDINALS.get(key, -1))
        elif (digits := _HASH.fullmatch(key)) is not None:
            numbers.append(int(digits[1]))
        elif (
            key in _NUMBER_WORDS and marked and (key != "one" or not i or span[i - 1] in _COUNTERS)
        ):
            numbers.append(_NUMBER_WORDS[key])
        elif key not in _COUNTERS and key not in ("one", "above"):
            return None
    return numbers[:10] or None


def _numbered(numbers: Sequence[int], talk: Dialogue) -> Named | tuple[Named, ...] | Missing:
    titles = [talk.numbered(number) for number in numbers]
    found = tuple(Named(title) for title in dict.fromkeys(titles) if title is not None)
    if not found or len(found) < len(set(numbers)):
        listed = ": there is no such number in the list" if talk.options or talk.listed else ""
        return Missing(f"which task you mean{listed}", "task")
    return found if len(found) > 1 else next(iter(found))


def _every(words: Words, talk: Dialogue) -> Every | Missing | None:
    """Parse "all open tasks", "everything due today", "my overdue tasks"."""
    keys = keys_of(words)
    starts = _ALL.at(keys)
    if starts is None and not (keys and keys[-1] in _PLURALS) and "tasks" not in keys:
        return None
    if any(key in _EXCEPT for key in keys):
        return _EXACTLY
    counted = [i for i, key in enumerate(keys[:3]) if key.isdecimal()]
    filtered = filter_of([word for i, word in enumerate(words) if i not in counted], talk.today)
    wanted = filtered.filter
    if "due" in keys and wanted.search is None:
        return _EXACTLY
    if filtered.rest:
        if starts is None or (keys[0] in ("my", "the") and wanted.empty):
            return None
        if wanted.search is not None:
            return _EXACTLY
        wanted = Filter(wanted.status, wanted.priority, filtered.rest)
    return TASK if starts is None and (wanted.empty or counted) else Every(wanted)
