"""Parsing of days: "tomorrow", "next friday", "in 2 weeks", "Dec 1st", "12/24", "2026-12-01".

A week begins on Monday; "next friday" is the Friday of the next week; a day without a year is the
next one in the future; 12/24 is month before day if possible, 24.12. is day before month. asides.py
decides whether a day belongs to the task. Entry point: `day_at`.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import date, timedelta

from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.spelling import near
from treadle.apps.assistant.language.written_dates import (
    DAY,
    ISO,
    MONTH,
    ORDINAL_DAY,
    SLASHED,
    Found,
    Keys,
    coming,
    explicit,
    monday_of,
    months_on,
    next_start,
)

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = {name: i for i, name in enumerate(WEEKDAYS)} | {
    short: i
    for i, shorts in enumerate(
        ("mon", "tue tues", "wed weds", "thu thur thurs", "fri", "sat", "sun")
    )
    for short in shorts.split()
}
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"""
NUMBERS = {name: i for i, name in enumerate(_ONES.split())} | {
    "a": 1,
    "an": 1,
    "couple": 2,
    "few": 3,
    "thirty": 30,
}
_UNITS = {
    "day": 1,
    "days": 1,
    "night": 1,
    "nights": 1,
    "week": 7,
    "weeks": 7,
    "wk": 7,
    "wks": 7,
    "fortnight": 14,
    "fortnights": 14,
}
_MONTHLY = {"month": 1, "months": 1, "year": 12, "years": 12}
_RELATIVE = Phrases(
    {
        "today|tonight|eod|now": 0,
        "tomorrow|tmrw|tmr|tmw|2moro|2morrow|tomo": 1,
        "the? day after tomorrow": 2,
    }
)
_MISSPELT = (
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
)
_SHORT_SPAN = re.compile(r"(\d{1,3})(d|w|wk|wks|days?|weeks?|months?)")
_PARTS_OF_DAY = known("morning afternoon evening night noon")
_NUMBER = re.compile(r"\d{1,4}")


def corrected(key: str) -> str:
    """Return the day name that a misspelt word means, or else the word itself."""
    if len(key) < 5 or key in _MISSPELT or key == "sundae" or key.removesuffix("s") in _MISSPELT:
        return key
    return near(key, _MISSPELT) or key


def day_at(keys: Keys, place: int, today: date) -> Found | None:
    """Parse the day at `place`; None if there is none or the date is invalid."""
    window = [corrected(key) for key in keys[place : place + 9]]
    if not window:
        return None
    for reader in _READERS:
        try:
            if (found := reader(window, today)) is not None:
                return _with_part_of_day(window, found)
        except (ValueError, OverflowError):
            continue
    return None


def looks_like_a_day(key: str, following: str = "") -> bool:
    if following in MONTH and DAY.fullmatch(key):
        return True
    return bool(
        ISO.fullmatch(key) or SLASHED.fullmatch(key) or key in MONTH or ORDINAL_DAY.fullmatch(key)
    )


def number_at(keys: Keys, place: int) -> tuple[int, int] | None:
    """Return the word count and value of a number: "2", "two", "a couple of"."""
    if place >= len(keys):
        return None
    key = keys[place]
    if key in ("a", "the") and place + 1 < len(keys) and keys[place + 1] in ("couple", "few"):
        found = number_at(keys, place + 1)
        return None if found is None else (found[0] + 1, found[1])
    if key in ("couple", "few"):
        return 1 + (place + 1 < len(keys) and keys[place + 1] == "of"), NUMBERS[key]
    if _NUMBER.fullmatch(key):
        return 1, int(key)
    return (1, NUMBERS[key]) if key in NUMBERS else None


def days_at(keys: Keys, place: int) -> tuple[int, int] | None:
    """Return the word count and days of a span: "2 weeks", "a day", "another week"."""
    start = place + (
        place < len(keys)
        and keys[place] in ("another", "one", "1")
        and keys[place + 1 : place + 2] != ["more"]
    )
    number = (0, 1) if start > place else number_at(keys, place)
    if number is None:
        return None
    start = start if number[0] == 0 else place + number[0]
    start += keys[start : start + 1] == ["more"]
    unit = _UNITS.get(keys[start]) if start < len(keys) else None
    return None if unit is None else (start + 1 - place, number[1] * unit)


def weekday_of(key: str) -> int | None:
    return _WEEKDAY.get(key)


def _with_part_of_day(keys: Keys, found: Found) -> Found:
    count, day = found
    if count < len(keys) and keys[count] in _PARTS_OF_DAY:
        return count + 1, day
    return found


def _relative(keys: Keys, today: date) -> Found | None:
    found = _RELATIVE.at(keys)
    if found is None:
        return None
    if keys[0] in ("today", "tomorrow") and keys[1:2] == ["week"]:  # "tomorrow week"
        return 2, today + timedelta(days=found[1] + 7)
    return found[0], today + timedelta(days=found[1])


def _span(keys: Keys, today: date) -> Found | None:
    """Parse "in 2 weeks", "2 weeks from now", "a week from friday", "within 3 days", "3 days
    later".
    """
    within = keys[0] in ("in", "within")
    read = _amount(keys, 1 if within else 0)
    if read is None:
        return None
    place, apply = read
    if place < len(keys) and keys[place] in ("time", "hence"):
        return place + 1, apply(today)
    if place < len(keys) and keys[place] in ("from", "after"):
        start = (
            (1, today) if keys[place + 1 : place + 2] == ["now"] else day_at(keys, place + 1, today)
        )
        return None if start is None else (place + 1 + start[0], apply(start[1]))
    return (place, apply(today)) if within else None


def _amount(keys: Keys, place: int) -> tuple[int, Callable[[date], date]] | None:
    if place < len(keys) and (short := _SHORT_SPAN.fullmatch(keys[place])) is not None:
        count, unit = int(short[1]), short[2]
        unit = {"d": "days", "w": "weeks"}.get(unit, unit)
        place += 1
    else:
        number = number_at(keys, place)
        if number is None:
            return None
        place, count = place + number[0], number[1]
        unit = keys[place] if place < len(keys) else ""
        place += 1
    if unit in _UNITS:
        return place, lambda day: day + timedelta(days=count * _UNITS[unit])
    if unit in _MONTHLY:
        return place, lambda day: months_on(day, count * _MONTHLY[unit])
    return None


def _end_of(keys: Keys, today: date) -> Found | None:
    """Parse "end of the week", "end of next month". The week ends on its Friday, or at the weekend
    on its Sunday.
    """
    place = 1 if keys[0] == "the" else 0
    if list(keys[place : place + 2]) != ["end", "of"]:
        return None
    place += 2
    if place < len(keys) and keys[place] in ("the", "this"):
        place += 1
    later = place < len(keys) and keys[place] == "next"
    place += later
    if place >= len(keys):
        return None
    if (month := MONTH.get(keys[place])) is not None:
        return place + 1, _last_day(
            "month", coming(today, month, calendar.monthrange(2026, month)[1])
        )
    if keys[place] not in ("week", "month", "year"):
        return None
    start = today if not later else next_start(keys[place], today)
    return place + 1, _last_day(keys[place], start)


def _last_day(unit: str, day: date) -> date:
    if unit == "week":
        return (
            max(monday_of(day) + timedelta(days=4), day)
            if day.weekday() < 5
            else monday_of(day) + timedelta(days=6)
        )
    return (
        day.replace(day=calendar.monthrange(day.year, day.month)[1])
        if unit == "month"
        else date(day.year, 12, 31)
    )


def _named(keys: Keys, today: date) -> Found | None:
    """Parse "friday", "this friday", "next friday", "friday next week", "next week", "the
    weekend".
    """
    word = keys[0]
    place = 1 if word in ("next", "this", "coming", "following", "the", "upcoming") else 0
    if place >= len(keys):
        return None
    name = keys[place]
    if name == "weekend" and place:
        saturday = today if today.weekday() == 6 else monday_of(today) + timedelta(days=5)
        return place + 1, saturday + timedelta(
            days=7 if word == "next" and saturday.weekday() == 5 else 6 if word == "next" else 0
        )
    if word in ("next", "following") and name in ("week", "month", "year"):
        on = (
            weekday_of(keys[place + 2])
            if keys[place + 1 : place + 2] == ["on"] and place + 2 < len(keys)
            else None
        )
        on = weekday_of(keys[place + 1]) if on is None and place + 1 < len(keys) else on
        if name == "week" and on is not None:
            return place + 2 + (keys[place + 1] == "on"), next_start("week", today) + timedelta(
                days=on
            )
        return place + 1, next_start(name, today)
    weekday = weekday_of(name)
    return None if weekday is None or word == "the" else _of_weekday(keys, place, weekday, today)


def _of_weekday(keys: Keys, place: int, weekday: int, today: date) -> Found | None:
    word = keys[0] if keys[0] != "the" else keys[1]
    after = place + 1
    # "friday december 4"
    if (written := explicit(keys[after:], today)) is not None and word != "next":
        return after + written[0], written[1]
    if list(keys[after : after + 2]) == ["next", "week"]:
        return after + 2, next_start("week", today) + timedelta(days=weekday)
    if keys[after : after + 1] == ["week"]:
        return after + 1, today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 8)
    if word == "next":
        return after, next_start("week", today) + timedelta(days=weekday)
    if word == "this" and weekday == today.weekday():
        return after, today
    return after, today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1)


_READERS: tuple[Callable[[Keys, date], Found | None], ...] = (
    _relative,
    explicit,
    _span,
    _end_of,
    _named,
)
