"""Fields mentioned next to a title: priority, due date and description, with their places in the
sentence.

Such words may also be part of a title ("plan the friday party", "reply to urgent mail"). They count
only if they stand apart: at an end, at a stop, or before a conjunction. Entry point: `asides_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from treadle.apps.assistant.language.dates import corrected, day_at, looks_like_a_day
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase

LEVELS = {
    "high|highest|top|urgent|max|maximum|critical": "High",
    "medium|normal|mid|moderate|average|standard|regular|default": "Medium",
    "low|lowest|min|minimal|minimum": "Low",
}
LEVEL = Phrases({f"a? {words}": level for words, level in LEVELS.items()})
PRIORITY = Phrases(
    {
        **{
            f"{words} priority|prio|importance|prioirty|prority|priorty|pri": level
            for words, level in LEVELS.items()
        },
        **{
            f"with|at|as|of|has a? {words} priority|prio|importance|prioirty|prority|priorty": level
            for words, level in LEVELS.items()
        },
        **{
            f"with|at|has? priority|prio|prioirty|prority|priorty|importance is|of|set|to? {words}": level
            for words, level in LEVELS.items()
        },
        **{f"with|at? priority|prio {words}": level for words, level in LEVELS.items()},
        "high-priority|high-prio|top-priority|!high|#high|p1|prio1|!p1|#urgent|!urgent|!!!": "High",
        "its|thats very|really|super|so? urgent|important|critical": "High",
        "its|thats a? high priority|prio": "High",
        "theres|with|there? is? no big|great|real|particular? rush|hurry|pressure|urgency": "Low",
        "can wait": "Low",
        "at some point": "Low",
    }
)
_LOOSE = Phrases(
    {
        "asap|urgently|urgent|a.s.a.p": "High",
        "very|really|super urgent|important": "High",
        "not|isnt|arent so|that|very|too|really|all|super? urgent|important anymore?": "Low",
    }
)
"""Phrases that count only at the ends."""
_LEADING = Phrases(
    {
        "important|urgent|critical": "High",
    }
)
"""Phrases that count only before the word "task", or next to a stop."""
_DUE = Phrases.plain(
    [
        "due|deadline|duedate|due-date",
        "and|that|which? is|its? due on|by|at|for|before|to|is|until?",
        "and|with|has? a|the? due date|day of|on|is|to|for?",
        "and|with? a|the? deadline|due-date of|on|is|to|for?",
        "needs|has|must to? be done|completed|finished by|on|before?",
    ]
)
_DAY_PREPOSITIONS = known("by on before until till for")
_WEAK_DAYS = known("mon tue wed thu fri sat sun now soon")
"""Ambiguous words, which are days only after a preposition."""
DESCRIPTION = Phrases.plain(
    [
        "description|desc|notes|details|note is?",
        "with|and a|the? description|desc|notes|note|details|comment of|that|saying|says|is?",
    ]
)
_BARE_DESCRIPTION = known("description desc notes details note")
_GOES_ON = known(
    """at with about in and to from for regarding re because so but then before after by on until till please thanks that which with: via @ or of
    its if"""
)
DASHES = known("- \u2013 — --")
_REPEATS = known("every each")
"""Words of repetition, which is not supported. The day then stays in the title."""
_REASONS = known("because cuz coz bc")
"""Words that introduce the description."""

WORDS_MOST = 120
"""Maximum words to parse: no title is longer."""


class Asides(msgspec.Struct):
    """Fields found, and the remaining words."""

    words: list[Token]
    priority: str | None = None
    due: date | None = None
    description: str | None = None
    unread: str | None = None
    """Text of a due date that could not be parsed."""


def asides_of(text: str, words: Words, today: date, *, leading: bool = True) -> Asides:
    """Return the fields next to a title. `leading`: a title may follow them ("tomorrow call
    mum").
    """
    found = Asides(list(words))
    _take_description(text, found)
    if len(found.words) > WORDS_MOST:
        return found
    for _ in range(4):  # one aside may follow another
        before = len(found.words)
        _take_priority(found, leading=leading)
        _take_due(found, today, leading=leading)
        if len(found.words) == before:
            break
    return found


def stands_apart(words: Words, start: int, end: int, *, leading: bool = True) -> bool:
    if end == len(words) or (start == 0 and leading):
        return True
    if words[end - 1].stop or (start > 0 and words[start - 1].stop in (",", ":") and leading):
        return bool(words[end - 1].stop) or words[end].key in _GOES_ON
    return words[end].key in _GOES_ON or _torn(words, start) or _torn(words, end)


def _torn_at_end(words: Words, count: int) -> bool:
    """Return True if a dash or parentheses separate the last `count` words from the title."""
    return len(words) > count + 1 and words[-1 - count].key in DASHES


def _torn(words: Words, place: int) -> bool:
    """Return True if words were removed right before `place`."""
    return place > 0 and words[place].place != words[place - 1].place + 1


def _take(found: Asides, start: int, end: int) -> None:
    """Remove words, with their conjunction."""
    words = found.words
    while (
        start > 0
        and words[start - 1].key in ("and", "with", "-", "\u2013", "—", "&", "also", "as")
        and (end == len(words) or words[start - 1].key != "as")
    ):
        start -= 1
    if start > 0 and words[end - 1].stop not in ("", ",") and words[start - 1].stop in ("", ","):
        words[start - 1] = words[start - 1]._replace(stop=words[end - 1].stop)
    elif start > 0 and end == len(words) and words[start - 1].stop in (",", ":"):
        words[start - 1] = words[start - 1]._replace(stop="")
    del words[start:end]
    if start == 0:
        while words and words[0].key in ("-", "\u2013", "—", ":"):
            del words[0]


def _take_description(text: str, found: Asides) -> None:
    keys = keys_of(found.words)
    for i in range(1, len(keys)):
        row = (1, "") if keys[i] in _REASONS and i > 1 else DESCRIPTION.at(keys, i)
        if row is None or i + row[0] >= len(keys):
            continue
        rest = i + row[0]
        marked = found.words[rest - 1].stop == ":" or found.words[rest].quoted
        if keys[i] in _BARE_DESCRIPTION and not marked:
            continue
        if keys[i : i + 2] == ["with", "details"] and not marked:
            continue
        end = rest + 1 if found.words[rest].quoted else len(keys)
        found.description = phrase(text, found.words[rest:end])
        _take(found, i, end)
        return


def _take_priority(found: Asides, *, leading: bool) -> None:
    words, keys = found.words, keys_of(found.words)
    for i in range(len(keys)):
        row = PRIORITY.at(keys, i)
        if row is not None and stands_apart(words, i, i + row[0], leading=leading):
            found.priority = found.priority or row[1]
            return _take(found, i, i + row[0])
    if len(keys) < 2:
        return None
    if (row := _LOOSE.ending(keys)) is not None and row[0] < len(keys):
        found.priority = found.priority or row[1]
        return _take(found, len(keys) - row[0], len(keys))
    if found.priority is not None:
        return None
    row = _LEADING.ending(keys) or LEVEL.ending(keys)
    if (
        row is not None
        and row[0] < len(keys)
        and (words[-1 - row[0]].stop in (",", ":") or _torn_at_end(words, row[0]))
    ):
        found.priority = row[1]
        return _take(found, len(keys) - row[0], len(keys))
    return None


def _take_due(found: Asides, today: date, *, leading: bool) -> None:
    if found.due is not None:
        return
    words, keys = found.words, keys_of(found.words)
    best: tuple[int, int, date] | None = None
    for i in range(len(keys)):
        marked = _marked(keys, i, today)
        if marked is not None and stands_apart(words, i, marked[0], leading=True):
            best = (i, *marked)
            break
        here = _said_day(keys, i, today)
        if (
            here is not None
            and stands_apart(words, i, here[0], leading=leading)
            and (best is None or i >= best[1])
        ):
            best = (i, *here)
    if best is not None:
        found.due = best[2]
        _take(found, best[0], best[1])
    else:
        _unread(found, keys)


def _marked(keys: Sequence[str], place: int, today: date) -> tuple[int, date] | None:
    row = _DUE.at(keys, place)
    if row is None:
        return None
    day = day_at(keys, place + row[0], today)
    return None if day is None else (place + row[0] + day[0], day[1])


def _said_day(keys: Sequence[str], place: int, today: date) -> tuple[int, date] | None:
    if keys[place] in _DAY_PREPOSITIONS:
        after = place + 1
        day = day_at(keys, after, today)
        return None if day is None else (after + day[0], day[1])
    if place > 0 and keys[place - 1] in _REPEATS:
        return None
    day = day_at(keys, place, today)
    if day is None or (
        keys[place : place + day[0]] == [keys[place]] and corrected(keys[place]) in _WEAK_DAYS
    ):
        return None
    return place + day[0], day[1]


def _unread(found: Asides, keys: Sequence[str]) -> None:
    """Detect a due date that is not in the calendar. Asking is better than leaving it in the
    title.
    """
    for i in range(len(keys)):
        row = _DUE.at(keys, i) or ((1, "") if keys[i] in ("by", "on") else None)
        if (
            row is not None
            and i + row[0] < len(keys)
            and i > 0
            and looks_like_a_day(*keys[i + row[0] : i + row[0] + 2])
            and any(c.isdigit() for k in keys[i + row[0] :] for c in k)
        ):
            found.unread = " ".join(word.text for word in found.words[i + row[0] :][:3])
            return


def trimmed(words: Words) -> list[Token]:
    """Remove leftovers at the ends after asides were removed."""
    kept = list(words)
    while (
        kept
        and not kept[-1].quoted
        and kept[-1].key
        in (
            "and",
            "-",
            "\u2013",
            "—",
            "&",
            "please",
            "pls",
            "plz",
            "thanks",
            "thx",
            "with",
            "ok",
            "okay",
        )
    ):
        kept.pop()
    while (
        kept
        and not kept[0].quoted
        and kept[0].key in ("and", "-", "\u2013", "—", "&", "please", ":")
    ):
        kept.pop(0)
    return kept
