"""Days and periods: "tomorrow", "next friday", "in 2 weeks", "Dec 1st", "12/24", "this week".

A week begins on Monday; "next friday" is the Friday of the next week; a day without a year is the
next one in the future; 12/24 is month before day if possible, 24.12. is day before month. adding.py
decides whether a day belongs to the task. Entry points: `day_at`, `period_at`.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, timedelta
from typing import TypeAlias

from treadle.apps.assistant.language.wording import Keys, Phrases, known, numbered

Found: TypeAlias = tuple[int, date]
"""Number of words, and the day."""
Match: TypeAlias = re.Match[str]

_WEEKDAYS = numbered(
    "monday,mon tuesday,tue,tues wednesday,wed,weds thursday,thu,thur,thurs friday,fri "
    "saturday,sat sunday,sun"
)
_MONTHS = numbered(
    "january,jan february,feb march,mar april,apr may june,jun july,jul august,aug "
    "september,sep,sept october,oct november,nov december,dec",
    1,
)
_NUMBERS = numbered(
    "zero one,a,an,another two three four five six seven eight nine ten eleven twelve thirteen "
    "fourteen fifteen sixteen seventeen eighteen nineteen twenty"
) | {
    f"{a}{word}{of}": number
    for word, number in (("couple", 2), ("few", 3))
    for a in ("", "a ", "the ")
    for of in ("", " of")
}
_DAYS = {
    **dict.fromkeys(("day", "days", "night", "nights", "d"), 1),
    **dict.fromkeys(("week", "weeks", "wk", "wks", "w"), 7),
    **dict.fromkeys(("fortnight", "fortnights"), 14),
}
_MONTHLY = {"month": 1, "months": 1, "year": 12, "years": 12}


def _any(words: dict[str, int]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_UNIT = rf"(?P<unit>{_any(_DAYS)}|{_any(_MONTHLY)})\b"
_AMOUNT = rf"(?:(?P<n>[0-9]{{1,4}}|{_any(_NUMBERS)}) (?:more )?|(?P<m>[0-9]{{1,3}})){_UNIT}"
_NAME = rf"(?P<name>{_any(_MONTHS)})"
_DAY_NAME = rf"(?P<weekday>{_any(_WEEKDAYS)})"
_DAY = "(?P<day>[0-9]{1,2})"
_TH = "(?:st|nd|rd|th)"
_WHICH = "(?P<which>next|this|coming|following|upcoming|the)"
_YEAR = r"(?: (?P<year>(?:19|20)[0-9]{2}))?"
_ISO = rf"(?P<year>[0-9]{{4}})[-/.](?P<month>[0-9]{{1,2}})[-/.]{_DAY}(?:t[0-9:.z+]{{2,16}})?"
_SLASHED = r"(?P<one>[0-9]{1,2})(?P<mark>[/.-])(?P<two>[0-9]{1,2})(?:(?P=mark)(?P<year>[0-9]{4}|[0-9]{2})?)?"
_SATURDAY = 5
_PARTS_OF_DAY = known("morning afternoon evening night noon")


def _whole(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern})(?= |$)")


LIKE_A_DAY = _whole(
    f"{_ISO}|{_NAME} [0-9]+|[0-9]{{1,2}}{_TH}|[0-9]+[/.-][0-9.]+|[0-9]+ (?:{_any(_MONTHS)})"
)


def _in(days: int, day: date) -> date:
    return day + timedelta(days=days)


def _months_on(day: date, months: int) -> date:
    """Return the same day `months` later, or the last one of a shorter month."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _coming(today: date, day: int, month: int = 0) -> date:
    """Return the next such day of the month, or of any month, including today."""
    months = (_months_on(today.replace(day=1), n) for n in range(97 if day == 29 else 13))
    fits = (it for it in months if month in (0, it.month) and _last_day("month", it).day >= day)
    return next(it for first in fits if (it := first.replace(day=day)) >= today)


def _monday(day: date, weeks: int = 0) -> date:
    return _in(7 * weeks - day.weekday(), day)


def _next(unit: str, today: date) -> date:
    if unit == "week":
        return _monday(today, 1)
    return _months_on(today.replace(day=1), 1) if unit == "month" else date(today.year + 1, 1, 1)


def _last_day(unit: str, day: date) -> date:
    if unit == "week":  # ends on its Friday, or at the weekend on its Sunday
        return _in(4 if day.weekday() < _SATURDAY else 6, _monday(day))
    return _in(-1, _next(unit, day))


def _later(found: Match, day: date) -> date:
    count, unit = found["n"] or found["m"], found["unit"]
    number = int(count) if count.isdigit() else _NUMBERS[count]
    if unit in _DAYS:
        return _in(number * _DAYS[unit], day)
    return _months_on(day, number * _MONTHLY[unit])


def _slashed(found: Match, today: date) -> date:
    one, two, mark, year = int(found["one"]), int(found["two"]), found["mark"], found["year"]
    if year is None and (mark == "-" or (mark == "." and not found[0].endswith(".") and one <= 12)):
        raise ValueError("eggs (3-4) or a version (2.1)")
    month, day = (two, one) if mark == "." or one > 12 else (one, two)
    month, day = (day, month) if month > 12 else (month, day)
    if year is None:
        return _coming(today, day, month)
    return date(int(year) + (2000 if len(year) == 2 else 0), month, day)


def _of_month(found: Match, today: date) -> date:
    month, day = _MONTHS[found["name"]], int(found["day"])
    return date(int(found["year"]), month, day) if found["year"] else _coming(today, day, month)


def _end_of(found: Match, today: date) -> date:
    if found["name"]:
        return _last_day("month", _coming(today, 28, _MONTHS[found["name"]]))
    unit = found["unit"]
    return _last_day(unit, _next(unit, today) if found["later"] else today)


def _weekday(found: Match, today: date) -> date:
    day, which, after = _WEEKDAYS[found["weekday"]], found["which"], found["after"]
    if which == "next" or after == "next week":
        return _in(day, _monday(today, 1))
    if which == "this" and day == today.weekday():
        return today
    return _in((day - today.weekday() - 1) % 7 + (8 if after else 1), today)


_ROWS: tuple[tuple[str, Callable[[Match, date], date]], ...] = (
    ("(?:the )?day after tomorrow", lambda _, today: _in(2, today)),
    ("tomorrow|tmrw|tmr|tmw|2moro|2morrow|tomo", lambda _, today: _in(1, today)),
    ("today|tonight|eod|now", lambda _, today: today),
    (_ISO, lambda it, _: date(int(it["year"]), int(it["month"]), int(it["day"]))),
    (_SLASHED, _slashed),
    (rf"(?:{_DAY_NAME} )?(?:the )?{_NAME} (?:the )?{_DAY}{_TH}?{_YEAR}", _of_month),
    (rf"(?:{_DAY_NAME} )?(?:the )?{_DAY}{_TH}? (?:of )?{_NAME}{_YEAR}", _of_month),
    (rf"the {_DAY}{_TH}", lambda it, today: _coming(today, int(it["day"]))),
    (rf"(?:in|within) {_AMOUNT}(?: time| from now)?", _later),
    (rf"(?:the )?end of (?:the |this )?(?:(?P<later>next )?(?P<unit>week|month|year)|{_NAME})", _end_of),
    (rf"{_WHICH} weekend", lambda it, today: max(today, _in(5, _monday(today, it["which"] == "next")))),
    ("(?:next|following) (?P<unit>week|month|year)", lambda it, today: _next(it["unit"], today)),
    (rf"(?:{_WHICH} )?{_DAY_NAME}(?: (?P<after>next week|week))?", _weekday),
)  # fmt: skip
"""Patterns of days, in the order in which they are tried."""
_READERS = [(_whole(pattern), read) for pattern, read in _ROWS]
_BEGIN = {word for words in (*_WEEKDAYS, *_MONTHS, *_NUMBERS) for word in words.split()} | known(
    "the day in within end next this coming following upcoming today tonight eod now tomorrow tmrw tmr "
    "tmw tomo"
)
_FROM = re.compile(rf"(?:in )?{_AMOUNT} (?:from|after) (?!now)")


def day_at(keys: Keys, place: int, today: date) -> Found | None:
    """Parse the day at `place`; None if there is none or the date is invalid."""
    if place >= len(keys) or not (keys[place] in _BEGIN or keys[place][0].isdigit()):
        return None
    window = " ".join(keys[place : place + 9])
    if (found := _FROM.match(window)) is not None:  # "a week from friday"
        start = day_at(keys, place + found[0].count(" "), today)
        return start and (found[0].count(" ") + start[0], _later(found, start[1]))
    for pattern, read in _READERS:
        try:
            if (found := pattern.match(window)) is not None:
                words, day = found[0].count(" ") + 1, read(found, today)
                after = keys[place + words : place + words + 1]
                return words + bool(after and after[0] in _PARTS_OF_DAY), day
        except (ValueError, OverflowError, StopIteration):
            continue
    return None


_EARLIEST, _LATEST = date(2000, 1, 1), date(9999, 12, 31)
_DUE_DATE = "any|a|no? due? date|dates|deadline|deadlines"
_SPECIAL = Phrases(
    {
        f"with|having {_DUE_DATE.replace('|no', '')}": "",
        "past due / overdue|late|past-due|behind": "overdue",
        f"without {_DUE_DATE} / with|having no due? date|dates|deadline|deadlines": "due:none",
        "that? have|has no due? date|dates|deadline|deadlines": "due:none",
    }
)
_EDGES = known("before by until after since till")
_IN = "(?:for|on|in|during|over|within) "


def _week(found: Match, today: date) -> tuple[date, date]:
    monday = _monday(today, found["which"] == "next")
    # Near the end of the week, what remains of it is not meant.
    is_over = today.weekday() >= _SATURDAY
    return monday, _in(6, today if is_over and found["which"] == "this" else monday)


_PERIODS: tuple[tuple[str, Callable[[Match, date], tuple[date, date]]], ...] = (
    (rf"(?:{_IN})?(?P<which>this|next) week(?! on| {_DAY_NAME})", _week),
    (rf"(?:{_IN})?(?:the )?(?:this )?weekend", lambda _, it: (_in(5, _monday(it)), _in(6, _monday(it)))),
    (rf"(?:{_IN})?(?:the )?(?:next|coming|following) {_AMOUNT}", lambda it, today: (today, _later(it, today))),
)  # fmt: skip
_PERIOD_READERS = [(_whole(pattern), read) for pattern, read in _PERIODS]


def period_at(keys: Keys, place: int, today: date) -> tuple[int, str] | None:
    """Return the word count of a period, and its `search` value of `list_tasks`."""
    words = keys[place : place + 12]
    if special := _SPECIAL.at(words):
        return special if special[1] else None
    if words[0] in _EDGES and (day := day_at(words, 1, today)) is not None:
        first, last = _in(1, day[1]), _in(-(words[0] == "before"), day[1])
        is_after = words[0] in ("after", "since")
        return 1 + day[0], _span(first, _LATEST) if is_after else _span(_EARLIEST, last)
    for pattern, read in _PERIOD_READERS:
        if (found := pattern.match(" ".join(words))) is not None:
            return found[0].count(" ") + 1, _span(*read(found, today))
    begins = re.match(_IN, f"{words[0]} ") is not None
    for begin in range(begins, -1, -1):  # "in 3 days" is one with its first word
        if (day := day_at(words, begin, today)) is not None:
            return begin + day[0], f"due:{day[1].isoformat()}"
    return None


def _span(first: date, last: date) -> str:
    return f"due:{first.isoformat()}..{last.isoformat()}"
