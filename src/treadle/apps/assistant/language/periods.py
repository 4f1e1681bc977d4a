"""Periods for lists: "today", "this week", "in the next 3 days", "overdue", as `search` values of
`list_tasks`.

Entry point: `period_at`.
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from datetime import date, timedelta

from treadle.apps.assistant.language.dates import corrected, day_at, number_at
from treadle.apps.assistant.language.phrases import Phrases
from treadle.apps.assistant.language.written_dates import coming, monday_of, month_of, months_on

_SATURDAY = 5
_EARLIEST, _LATEST = date(2000, 1, 1), date(9999, 12, 31)
_SPECIAL = Phrases(
    {
        "past due": "overdue",
        "overdue|late|past-due|behind": "overdue",
        "without|with|having any|a|no? due? date|dates|deadline|deadlines": "due:none",
        "that? have|has no due? date|dates|deadline|deadlines": "due:none",
    }
)
_NOT_SPECIAL = Phrases.plain(
    [
        "with|having any|a due? date|dates|deadline|deadlines",
        "with|having due? date|dates|deadline|deadlines",
    ]
)
_NAMED = Phrases(
    {
        "this week": "week",
        "next week": "next week",
        "the? this? weekend": "weekend",
    }
)


def period_at(keys: Sequence[str], place: int, today: date) -> tuple[int, str] | None:
    """Return the word count of a period, and its `search` value."""
    words = [corrected(key) for key in keys[place : place + 12]]
    if (special := _SPECIAL.at(words)) is not None and _NOT_SPECIAL.at(words) is None:
        return special
    edge = words[0] in ("before", "by", "until", "after", "since", "till") if words else False
    if edge and (day := day_at(words, 1, today)) is not None:
        return 1 + day[0], _edge(words[0], day[1])
    skipped = 1 if words and words[0] in ("for", "on", "in", "during", "over", "within") else 0
    if (named := _NAMED.at(words, skipped)) is not None:
        return skipped + named[0], span(*_named(named[1], today))
    if (month := _month(words, skipped, today)) is not None:
        return month
    if (ahead := _ahead(words, skipped, today)) is not None:
        return ahead
    for begin in range(skipped, -1, -1):  # "in 3 days" is one with its first word
        if (day := day_at(words, begin, today)) is not None:
            return begin + day[0], f"due:{day[1].isoformat()}"
    return None


def span(first: date, last: date) -> str:
    return f"due:{first.isoformat()}..{last.isoformat()}"


def _edge(word: str, day: date) -> str:
    if word in ("after", "since"):
        return span(day + timedelta(days=1), _LATEST)
    return span(_EARLIEST, day - timedelta(days=1) if word == "before" else day)


def _named(name: str, today: date) -> tuple[date, date]:
    monday = monday_of(today)
    match name.removeprefix("next "):
        case "week":
            if name == "next week":
                return monday + timedelta(days=7), monday + timedelta(days=13)
            # Near the end of the week, what remains of it is not meant.
            is_over = today.weekday() >= _SATURDAY
            return monday, today + timedelta(days=6) if is_over else monday + timedelta(days=6)
        case "weekend":
            first = monday + timedelta(days=12 if name == "next weekend" else 5)
            return first, first + timedelta(days=1)
        case "month":
            first = months_on(today.replace(day=1), 1 if name == "next month" else 0)
            return first, first.replace(day=calendar.monthrange(first.year, first.month)[1])
        case "year":
            return date(today.year, 1, 1), date(today.year, 12, 31)
        case _:
            return today, today + timedelta(days=7)


def _month(words: Sequence[str], place: int, today: date) -> tuple[int, str] | None:
    """Parse "in december"; "may" and "march" alone may be other words."""
    month = (
        month_of(words[place])
        if place < len(words) and day_at(words, place, today) is None
        else None
    )
    if month is None or (not place and words[0] in ("may", "march", "mar", "sun", "dec")):
        return None
    first = coming(today, month, 28).replace(day=1)
    return place + 1, span(first, first.replace(day=calendar.monthrange(first.year, month)[1]))


def _ahead(words: Sequence[str], place: int, today: date) -> tuple[int, str] | None:
    """Parse "the next 3 days", "the next two weeks"."""
    start = place
    if place < len(words) and words[place] == "the":
        place += 1
    if place >= len(words) or words[place] not in ("next", "coming", "following"):
        return None
    number = number_at(words, place + 1) or (0, 1)
    place += 1 + number[0]
    unit = words[place] if place < len(words) else ""
    if unit in ("day", "days"):
        last = today + timedelta(days=number[1])
    elif unit in ("week", "weeks") and number[0]:
        last = today + timedelta(days=7 * number[1])
    elif unit in ("month", "months") and number[0]:
        last = months_on(today, number[1])
    else:
        return None
    return place + 1, span(today, last) if place >= start else ""
