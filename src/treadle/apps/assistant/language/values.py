"""New values of a task in a sentence: a day, a priority, a text, or no due date.

Entry points: `value_of`, `values_of`, `level_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.asides import LEVEL, asides_of
from treadle.apps.assistant.language.dates import day_at
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.spelling import near
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase

Fields = tuple[tuple[str, str | None], ...]
NOT_DUE = Phrases.plain(
    [
        "to|as|with|has|have|is? no|without due date|deadline",
        "to|as? none|nothing|never|empty|null|undated|blank",
        "without a|any? due? date|deadline",
        "undated",
        "doesnt|dont|does|do not? need|have|require a|any? due? date|deadline anymore?",
        "needs|has no due? date|deadline anymore?",
    ]
)
_VALUE_ENDS = known(
    """to as be until till for by on is a an = -> → at with of from in should needs must has have the and it now set into back up out forward
    ahead moved pushed postponed rescheduled delayed shifted been was got are isnt arent now"""
)


def value_of(text: str, words: Words, field: str, today: date) -> str | None:
    rest = list(words)
    keys = keys_of(rest)
    if not rest:
        return None
    if field == "due":
        day = day_at(keys, 0, today)
        return day[1].isoformat() if day is not None and day[0] == len(keys) else None
    if field == "priority":
        level = level_of(keys)
        return level
    return phrase(text, rest)


def level_of(keys: Sequence[str]) -> str | None:
    """Return the priority that the words name; None if they contain anything else."""
    kept = [
        key
        for key in keys
        if key
        not in (
            "priority",
            "prio",
            "very",
            "very",
            "really",
            "a",
            "as",
            "to",
            "level",
            "importance",
            "more",
            "most",
        )
    ]
    if kept[:1] == ["less"] and kept[1:] in (["important"], ["urgent"]):
        return "Low"
    kept = [near(key, ("high", "medium", "low", "urgent", "normal")) or key for key in kept]
    if kept == ["important"]:
        return "High"
    found = LEVEL.at(kept)
    return (
        found[1]
        if found is not None and found[0] == len(kept)
        else "Low"
        if kept in (["not", "important"], ["not", "urgent"], ["unimportant"])
        else None
    )


def values_of(
    text: str, words: Words, today: date, *, retitling: bool = False
) -> tuple[Fields, list[Token]]:
    """Return the priority and the day at the end of the words, and the words before them."""
    if retitling:
        return (), list(words)
    keys = keys_of(words)
    for start in range(1, len(keys)):
        if (
            (found := NOT_DUE.at(keys, start)) is not None
            and start + found[0] == len(keys)
            and ("due" in keys[start:] or "date" in keys[start:] or "deadline" in keys[start:])
        ):
            return (("due", None),), stem_of(words[:start])
    asides = asides_of(text, words, today, leading=False)
    fields: list[tuple[str, str | None]] = []
    rest = asides.words
    if asides.due is not None:
        fields.append(("due", asides.due.isoformat()))
    if asides.priority is not None:
        fields.append(("priority", asides.priority))
    elif (found := _level_at_end(keys_of(rest))) is not None:
        fields.append(("priority", found[1]))
        rest = rest[: found[0]]
    return tuple(fields), stem_of(rest) if fields else list(words)


def fields_alone(text: str, words: Words, today: date) -> Fields:
    """Return the priority and the day; empty if the words contain anything else."""
    if not words or len(words) > _ALONE_MOST or any(word.quoted for word in words):
        return ()
    asides = asides_of(text, words, today)
    if asides.description is not None or asides.unread is not None:
        return ()
    fields: list[tuple[str, str | None]] = (
        [] if asides.due is None else [("due", asides.due.isoformat())]
    )
    left = [key for key in keys_of(asides.words) if key not in _JOINING]
    if (level := asides.priority or level_of(left)) is not None:
        fields.append(("priority", level))
        left = left if asides.priority is not None else []
    return () if left else tuple(fields)


_ALONE_MOST = 12
_JOINING = known("and due by on for with - \u2013 — , please pls is its it that thats too also")


def _level_at_end(keys: Sequence[str]) -> tuple[int, str] | None:
    for count in (3, 2, 1):
        if len(keys) > count and (level := level_of(keys[-count:])) is not None:
            return len(keys) - count, level
    return None


def stem_of(words: Words) -> list[Token]:
    kept = list(words)
    while len(kept) > 1 and not kept[-1].quoted and kept[-1].key in _VALUE_ENDS:
        kept.pop()
    while (
        len(kept) > 1
        and not kept[0].quoted
        and kept[0].key in ("back", "up", "forward", "out", "to")
    ):
        kept.pop(0)
    start = next((i for i in range(len(kept) - 1, 0, -1) if kept[i].key == "from"), None)
    if start is not None and (
        level_of(keys_of(kept[start + 1 :]))
        or day_at(keys_of(kept), start + 1, date.min.replace(year=2000))
    ):
        del kept[start:]
    return kept
