"""Requests to see tasks: lists and searches.

Entry points: `asked_for`, `looked_for`.
"""

from __future__ import annotations

from datetime import date

from treadle.apps.assistant.language.listing import filter_of, is_noun
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.verbs import VerbPhrase
from treadle.apps.assistant.language.wishes import Filter, Missing, Show, Wish
from treadle.apps.assistant.language.wording import Words, keys_of, phrase

_NOUNS = known(
    """tasks task todo todos to-do to-dos list lists items agenda plate everything all reminders schedule one ones overview"""
)
_ASKING = known("""what whats which whatre do is are any anything how whens when wheres where""")
_SURE = known("show list display")
_BEFORE = Phrases.plain(
    [
        "for? the|my|a|any|all? task|tasks|todo|todos|items? about|with|containing|named|called|mentioning|for?",
    ]
)


_THING = Phrases.plain(
    [
        "the|that|this|my thing|one|task|stuff|things|something|item about|with|regarding|concerning|for|on|to",
        "something|anything about|with|regarding",
    ]
)


def asked_for(
    text: str, words: Words, head: VerbPhrase | None, today: date, *, question: bool
) -> list[Wish | Missing] | None:
    """Return a list request if the words ask to see tasks; None otherwise."""
    keys = keys_of(words)
    verb = head.first if head is not None else ""
    rest = list(words[head.words :]) if head is not None else list(words)
    if (thing := _thing_at(keys, verb)) is not None:
        about = [word for word in words[thing:] if word.key != "again"]
        return [Show(_told(filter_of(text, about, today, search=True).filter))]
    filtered = filter_of(text, rest, today)
    wanted = filtered.filter
    about_tasks = any(key in _NOUNS or is_noun(key) for key in keys)
    asks = verb in _ASKING or question
    if (
        filtered.rest
        and verb in ("is", "are", "when", "whens", "did", "do")
        and (wanted.status is not None or "due" in keys)
        and len(keys) < 12
    ):
        return [Show(Filter("all", search=filtered.rest))]
    if filtered.rest:
        left = filtered.rest.casefold()
        if (
            not about_tasks
            and not (verb in _SURE and not wanted.empty)
            and not (asks and filtered.due)
        ):
            return (
                [Show(Filter(search=filtered.rest))] if verb in _SURE and len(left) < 60 else None
            )
        if verb in _ASKING and not about_tasks:
            return None
        if wanted.search is None and (head is not None or question):
            wanted = Filter(wanted.status, wanted.priority, filtered.rest)
        elif head is None:
            return None
    elif wanted.empty and not about_tasks and verb not in _SURE and not _about_me(keys):
        return None
    unasked = head is None and not about_tasks and not (question or filtered.due)
    if unasked and wanted.status is None:
        return None
    if wanted.status is None and filtered.due and asks and wanted.search != "overdue":
        wanted = Filter("open", wanted.priority, wanted.search)
    return [Show(_told(wanted))]


def _thing_at(keys: list[str], verb: str) -> int | None:
    """Return the position where "that thing about X" begins, if the words ask for it."""
    if len(keys) >= 12:
        return None
    places = (place for place in range(min(len(keys), 4)) if _THING.at(keys, place) is not None)
    thing = next(places, None)
    asks = thing == 0 or verb in ("what", "whats", "where", "wheres", "which")
    return thing if asks else None


def _about_me(keys: list[str]) -> bool:
    """Return True for questions about the list that do not name it: "what do i have", "what's up
    next".
    """
    return (
        keys[0] in ("what", "whats", "anything")
        and any(key in ("i", "me", "my", "left", "next", "due") for key in keys[1:])
        and len(keys) < 9
    )


def _told(wanted: Filter) -> Filter:
    return Filter(wanted.status or "all", wanted.priority, wanted.search)


def looked_for(
    text: str, words: Words, head: VerbPhrase, today: date
) -> list[Wish | Missing] | None:
    """Parse the words after "find", "search for"."""
    rest = list(words)
    filtered = filter_of(text, rest, today)
    if not filtered.rest and not filtered.filter.empty and filtered.filter.search is not None:
        return [Show(_told(filtered.filter))]
    for _ in range(3):
        found = _BEFORE.at(keys_of(rest[:10]))
        if found is None or found[0] > len(rest):
            break
        rest = rest[found[0] :]
    while (
        len(rest) > 1
        and not rest[-1].quoted
        and rest[-1].key in ("task", "tasks", "todo", "todos", "in", "my", "list", "the", "items")
    ):
        rest.pop()
    if not rest:
        if not filtered.filter.empty:
            return [Show(_told(filtered.filter))]
        return [Missing("what to look for", "title")]
    if not filtered.rest and filtered.filter.search is None and not filtered.filter.empty:
        return [Show(_told(filtered.filter))]
    return [Show(Filter("all", None, phrase(text, rest)))]
