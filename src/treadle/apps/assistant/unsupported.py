"""Recognition of wishes that a task list cannot fulfil, in a title or a message: repetition,
reminders and times of day.

Entry points: `unsupported_in`, `wants_repetition`, `wants_reminder`, `leading_occasion`.
"""

from __future__ import annotations

import re
from typing import Final

_DAY: Final = (
    r"(?:day|weekday|weekend|week|fortnight|month|quarter|year|hour|morning|noon|afternoon|evening|night"
    r"|mon(?:day)?|tue(?:s|sday)?|wed(?:nesday)?|thu(?:rs|rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)s?"
)
_REPETITION: Final = (
    rf"(?:every|each)\s+(?:single\s+|other\s+|second\s+|third\s+|\d+\s+|two\s+|three\s+)?{_DAY}(?:\s*(?:,|and|&)\s*{_DAY})*"
    r"|on\s+(?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|(?:once|twice|\d+\s+times)\s+(?:a|per|every)\s+\w+"
)
_TIME: Final = r"at\s+(?:\d{1,2}(?:[:.]\d{2})?(?:\s*(?:am|pm|o'?clock|h))?|noon|midnight)(?![\w/-])|\d{1,2}(?:[:.]\d{2})?\s*(?:am|pm)|\d{1,2}:\d{2}"
_REPEATS: Final = re.compile(
    rf"\b(?:{_REPETITION})\b|\b(?:daily|weekly|monthly|yearly|annually)\s*$", re.IGNORECASE
)
_TIMED: Final = re.compile(rf"\b(?:{_TIME})\b", re.IGNORECASE)
_REPEATED: Final = re.compile(
    rf"\b(?:{_REPETITION}|daily|weekly|monthly|yearly|annually|repeat(?:s|ed|ing)?|recur(?:s|ring)?)\b",
    re.IGNORECASE,
)
_REPEATING: Final = re.compile(r"(?:to\s+)?(?:repeat|recur)(?:s|ing)?\b", re.IGNORECASE)
_REMINDER: Final = re.compile(
    r"\b(?:remind me|reminders?|alarms?|alerts?|notifications?)\b", re.IGNORECASE
)
_OCCASION: Final = re.compile(
    rf"(?:(?:{_REPETITION}|daily|weekly|monthly|yearly|{_TIME})\b[\s,]*)+(?=to\s)", re.IGNORECASE
)


def unsupported_in(title: str) -> list[str]:
    """Return which of `repetition` and `time` the title asks for."""
    return [
        name for name, wish in (("repetition", _REPEATS), ("time", _TIMED)) if wish.search(title)
    ]


def wants_repetition(message: str) -> bool:
    """Return True for a message that asks for repetition anywhere, such as "make that weekly"."""
    return _REPEATED.search(message) is not None


def wants_reminder(message: str) -> bool:
    """Return True for a message that asks for a reminder or an alarm."""
    return _REMINDER.search(message) is not None


def is_repetition(title: str) -> bool:
    """Return True for a new title that only asks for repetition: "repeat every week"."""
    return _REPEATING.match(title) is not None


def leading_occasion(title: str) -> str:
    """Move an occasion from the beginning of a title to its end: "every monday to call mum" becomes
    "call mum every monday".
    """
    found = _OCCASION.match(title)
    return (
        title
        if found is None
        else f"{title[found.end() :].removeprefix('to').strip()} {found[0].strip(' ,')}"
    )
