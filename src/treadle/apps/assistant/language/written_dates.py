"""Days that are written out, and arithmetic of months: "2026-12-01", "12/24", "dec 1st 2026".

Entry point: `explicit`.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TypeAlias

Keys = Sequence[str]
Found: TypeAlias = tuple[int, date]
"""Number of words, and the day."""

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
MONTH = (
    {name: i for i, name in enumerate(_MONTHS, 1)}
    | {name[:3]: i for i, name in enumerate(_MONTHS, 1)}
    | {"sept": 9}
)

ISO = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:t[\d:.z+]{2,16})?")
SLASHED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})(?:\2(\d{4}|\d{2})?)?")
DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")
ORDINAL_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
_YEAR = re.compile(r"(?:19|20)\d\d")


def months_on(day: date, months: int) -> date:
    """Return the same day `months` later, or the last one of a shorter month."""
    count = day.year * 12 + day.month - 1 + months
    year, month = divmod(count, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def coming(today: date, month: int, day: int) -> date:
    """Return the next such day, including today. 29 February waits for a leap year."""
    for year in range(today.year, today.year + 9):
        if day <= calendar.monthrange(year, month)[1] and date(year, month, day) >= today:
            return date(year, month, day)
    raise ValueError("no such day")


def monday_of(day: date) -> date:
    return day - timedelta(days=day.weekday())


def month_of(key: str) -> int | None:
    return MONTH.get(key)


def next_start(unit: str, today: date) -> date:
    if unit == "week":
        return monday_of(today) + timedelta(days=7)
    return months_on(today.replace(day=1), 1) if unit == "month" else date(today.year + 1, 1, 1)


def explicit(keys: Keys, today: date) -> Found | None:
    """Parse "2026-12-01", "12/24", "24.12.", "dec 1st 2026", "1 december", "the 5th"."""
    if not keys:
        return None
    if (iso := ISO.fullmatch(keys[0])) is not None:
        return 1, date(int(iso[1]), int(iso[2]), int(iso[3]))
    if (slashed := SLASHED.fullmatch(keys[0])) is not None:
        return _of_numbers(slashed, today)
    place = 1 if keys[0] == "the" else 0
    if place >= len(keys):
        return None
    if (month := MONTH.get(keys[place])) is not None and place + 1 < len(keys):
        place += 1 + (keys[place + 1] == "the")
        if place < len(keys) and (day := DAY.fullmatch(keys[place])) is not None:
            return _with_year(keys, place + 1, month, int(day[1]), today)
        return None
    return _day_first(keys, place, today)


def _day_first(keys: Keys, place: int, today: date) -> Found | None:
    day = DAY.fullmatch(keys[place])
    if day is None:
        return None
    after = place + 1 + (keys[place + 1 : place + 2] == ["of"])
    if after < len(keys) and (month := MONTH.get(keys[after])) is not None:
        return _with_year(keys, after + 1, month, int(day[1]), today)
    if not ORDINAL_DAY.fullmatch(keys[place]) or place == 0:
        return None
    if list(keys[place + 1 : place + 4]) in (["of", "next", "month"], ["of", "this", "month"]):
        month_start = (
            today.replace(day=1) if keys[place + 2] == "this" else next_start("month", today)
        )
        return place + 4, month_start.replace(day=int(day[1]))
    for months in range(13):
        start = months_on(today.replace(day=1), months)
        if (
            int(day[1]) <= calendar.monthrange(start.year, start.month)[1]
            and (found := start.replace(day=int(day[1]))) >= today
        ):
            return place + 1, found
    return None


def _with_year(keys: Keys, place: int, month: int, day: int, today: date) -> Found:
    if place < len(keys) and _YEAR.fullmatch(keys[place]):
        return place + 1, date(int(keys[place]), month, day)
    return place, coming(today, month, day)


def _of_numbers(match: re.Match[str], today: date) -> Found | None:
    one, mark, two, year = int(match[1]), match[2], int(match[3]), match[4]
    if mark == "-" and year is None:
        return None  # "3-4 eggs"
    if mark == "." and year is None and not match[0].endswith(".") and not (one > 12 and two <= 12):
        return None  # "version 2.1"
    day, month = (one, two) if mark == "." or one > 12 else (two, one)
    if month > 12:
        day, month = month, day
    if year is None:
        return 1, coming(today, month, day)
    return 1, date(int(year) + (2000 if len(year) == 2 else 0), month, day)
