"""Priority, due date and description in a sentence: next to a title, or alone as new values.

Such words may also be part of a title ("plan the friday party", "reply to urgent mail"). They count
only if they stand apart: at an end, at a stop, or before a conjunction. Entry points: `asides_of`,
`fields_alone`, `values_in`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.dates import day_at, looks_like_a_day
from treadle.apps.assistant.language.wishes import Fields
from treadle.apps.assistant.language.wording import (
    Keys,
    Phrases,
    Token,
    Words,
    keys_of,
    known,
    near,
    phrase,
)

LEVELS = {
    "high|highest|top|urgent|max|maximum|critical": "High",
    "medium|normal|mid|moderate|average|standard|regular|default": "Medium",
    "low|lowest|min|minimal|minimum": "Low",
}
_PRIO = "priority|prio|importance|pri"
_NOT_URGENT = "not|isnt|arent so|that|very|too|really|all|super? urgent|important anymore?"
PRIORITY = Phrases(
    {
        f"with|at|as|of|has? a? {words} {_PRIO} / with|at|has? {_PRIO} is|of|set|to? {words}": level
        for words, level in LEVELS.items()
    }
    | {
        "high-priority|high-prio|top-priority|!high|#high|p1|prio1|!p1|#urgent|!urgent|!!! / "
        "its|thats very|really|super|so? urgent|important|critical / "
        "its|thats a? high priority|prio": "High",
        "theres|with|there? is? no big|great|real|particular? rush|hurry|pressure|urgency / "
        "can wait / at some point": "Low",
    }
)
_LOOSE = Phrases(
    {
        "asap|urgently|urgent|a.s.a.p / very|really|super urgent|important": "High",
        _NOT_URGENT: "Low",
    }
)
"""Phrases that count only at the ends."""
_ALONE = Phrases(
    {f"a? {words} {_PRIO}?": level for words, level in LEVELS.items()}
    | {"important": "High", f"{_NOT_URGENT} / unimportant / less important|urgent": "Low"}
)
_DUE = Phrases.plain(
    "due|deadline|duedate|due-date / and|that|which? is|its? due on|by|at|for|before|to|is|until? / "
    "and|with|has? a|the? due date|day of|on|is|to|for? / "
    "and|with? a|the? deadline|due-date of|on|is|to|for? / "
    "needs|has|must to? be done|completed|finished by|on|before?"
)
_NOT_DUE = Phrases.plain(
    "to|as|with|has|have|is? no|without a? due date|deadline / needs|has no due? date|deadline / "
    "doesnt|dont|does|do not? need|have|require a|any? due? date|deadline anymore?"
)
_BEFORE_DAYS = known("by on before until till for")
_WEAK_DAYS = known("mon tue wed thu fri sat sun now")
"""Ambiguous words, which are days only after a preposition."""
_DESCRIPTION = Phrases.plain(
    "description|desc|notes|details|note is? / "
    "with|and a|the? description|desc|notes|note|details|comment of|that|saying|says|is?"
)
_GOES_ON = known(
    "at with about in and to from for regarding re because so but then before after by on until till "
    "please thanks that which with: via @ or of its if"
)
DASHES = known("- \u2013 — --")
_TIES = DASHES | known("and & with also as")
_ENDS = DASHES | known("and & please pls plz thanks thx with ok okay :")
_JOINING = DASHES | known("and due by on for with , please pls is its it that thats also a")
_LINKS = known(
    "to as be until till by on is a an = -> → at of from in should needs must has have the it now set "
    "into back up out forward ahead been was are does isnt arent doesnt due for moved postponed "
    "rescheduled delayed shifted"
)
_FILLING = known("priority prio very really a as to level importance more most")
_WORDS_MOST = 120
"""Maximum words to parse: no title is longer."""
_ALONE_MOST = 12


class Asides(msgspec.Struct):
    """Fields found, and the remaining words."""

    words: list[Token]
    priority: str | None = None
    due: date | None = None
    description: str | None = None
    unread: str | None = None
    """Text of a due date that could not be parsed."""

    @property
    def fields(self) -> Fields:
        due = None if self.due is None else self.due.isoformat()
        found = (("due", due), ("priority", self.priority), ("description", self.description))
        return tuple((name, value) for name, value in found if value is not None)


def asides_of(words: Words, today: date) -> Asides:
    """Return the fields next to a title, which may follow them ("tomorrow call mum")."""
    found = Asides(list(words))
    _take_description(found)
    if len(found.words) > _WORDS_MOST:
        return found
    for _ in range(4):  # one aside may follow another
        before = len(found.words)
        _take_priority(found)
        _take_due(found, today)
        if len(found.words) == before:
            break
    return found


def _apart(words: Words, start: int, end: int) -> bool:
    if end == len(words) or start == 0 or words[end - 1].stop:
        return True
    torn = (place for place in (start, end) if words[place].place != words[place - 1].place + 1)
    return words[end].key in _GOES_ON or any(torn)


def _take(found: Asides, start: int, end: int) -> None:
    """Remove words, with their conjunction."""
    words = found.words
    while (
        start > 0
        and words[start - 1].key in _TIES
        and (end == len(words) or words[start - 1].key != "as")
    ):
        start -= 1
    if start > 0 and words[end - 1].stop not in ("", ",") and words[start - 1].stop in ("", ","):
        words[start - 1] = words[start - 1]._replace(stop=words[end - 1].stop)
    elif start > 0 and end == len(words) and words[start - 1].stop in (",", ":"):
        words[start - 1] = words[start - 1]._replace(stop="")
    del words[start:end]


def _take_description(found: Asides) -> None:
    words, keys = found.words, keys_of(found.words)
    for i in range(1, len(keys)):
        row = (1, "") if keys[i] in ("because", "cuz") and i > 1 else _DESCRIPTION.at(keys, i)
        if row is None or (rest := i + row[0]) >= len(keys):
            continue
        marked = words[rest - 1].stop == ":" or words[rest].quoted
        if marked or (row[0] > 1 and keys[i + 1] != "details") or keys[i] in ("because", "cuz"):
            end = rest + 1 if words[rest].quoted else len(keys)
            found.description = phrase(words[rest:end])
            return _take(found, i, end)
    return None


def _take_priority(found: Asides) -> None:
    words, keys = found.words, keys_of(found.words)
    for i in range(len(keys)):
        row = PRIORITY.at(keys, i)
        if row is not None and _apart(words, i, i + row[0]):
            found.priority = found.priority or row[1]
            return _take(found, i, i + row[0])
    row = _LOOSE.ending(keys)
    if row is None and found.priority is None and (level := _ALONE.ending(keys)) is not None:
        apart = level[0] < len(keys) and words[-level[0] - 1].stop in (",", ":")
        row = level if apart else None
    if row is not None and row[0] < len(keys):
        found.priority = found.priority or row[1]
        _take(found, len(keys) - row[0], len(keys))
    return None


def _take_due(found: Asides, today: date) -> None:
    if found.due is not None:
        return
    words, keys = found.words, keys_of(found.words)
    best: tuple[int, int, date] | None = None
    for i in range(len(keys)):
        row = _DUE.at(keys, i)
        marked = day_at(keys, i + row[0], today) if row is not None else None
        if row is not None and marked is not None and _apart(words, i, i + row[0] + marked[0]):
            best = i, i + row[0] + marked[0], marked[1]
            break
        after = i + (keys[i] in _BEFORE_DAYS)
        here = None if i > 0 and keys[i - 1] in ("every", "each") else day_at(keys, after, today)
        if here is None or (after == i and here[0] == 1 and keys[i] in _WEAK_DAYS):
            continue
        if _apart(words, i, after + here[0]) and (best is None or i >= best[1]):
            best = i, after + here[0], here[1]
    if best is not None:
        found.due = best[2]
        return _take(found, best[0], best[1])
    return _unread(found, keys)


def _unread(found: Asides, keys: Keys) -> None:
    """Detect a due date that is not in the calendar. Asking is better than leaving it in the
    title.
    """
    for i in range(1, len(keys)):
        row = _DUE.at(keys, i) or ((1, "") if keys[i] in ("by", "on") else None)
        if row is None:
            continue
        rest = keys[i + row[0] :]
        if looks_like_a_day(*rest[:2]) and any(c.isdigit() for key in rest for c in key):
            found.unread = " ".join(word.text for word in found.words[len(keys) - len(rest) :][:3])
            return


def trimmed(words: Words) -> list[Token]:
    """Remove leftovers at the ends after asides were removed."""
    kept = list(words)
    while kept and not kept[-1].quoted and kept[-1].key in _ENDS:
        kept.pop()
    while kept and not kept[0].quoted and kept[0].key in (DASHES | {"and", "&", "please", ":"}):
        kept.pop(0)
    return kept


def level_of(keys: Keys) -> str | None:
    """Return the priority that the words name; None if they contain anything else."""
    kept = [key for key in keys if key not in _FILLING]
    kept = [near(key, ("high", "medium", "low", "urgent", "normal")) or key for key in kept]
    return _ALONE.whole(kept) or PRIORITY.whole(keys) or _LOOSE.whole(keys)


def fields_alone(words: Words, today: date) -> Fields:
    """Return the priority and the day; empty if the words contain anything else."""
    if not words or len(words) > _ALONE_MOST or any(word.quoted for word in words):
        return ()
    asides = asides_of(words, today)
    if asides.description is not None or asides.unread is not None:
        return ()
    left = [key for key in keys_of(asides.words) if key not in _JOINING]
    if asides.priority is None and (level := level_of(left)) is not None:
        asides.priority, left = level, []
    return () if left else asides.fields


def values_in(words: Words, today: date) -> Fields:
    """Return the priority and the day after words such as "to", "is" or "should be"."""
    keys = keys_of(words)
    if len(words) > _ALONE_MOST:
        return ()
    for start in range(len(keys)):
        if _NOT_DUE.whole(keys[start:]) is not None:
            return (("due", None),)
        if found := fields_alone(words[start:], today):
            return found
        if keys[start] not in _LINKS or words[start].quoted:
            break
    return ()
