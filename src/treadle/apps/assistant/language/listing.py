"""Filters for several tasks: status, priority, days and words, as arguments of `list_tasks`.

Entry point: `filter_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from treadle.apps.assistant.language.asides import LEVELS
from treadle.apps.assistant.language.periods import period_at
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.spelling import near
from treadle.apps.assistant.language.wishes import Filter
from treadle.apps.assistant.language.wording import Words, keys_of, phrase

STATUS = Phrases(
    {
        "open|pending|active|incomplete|unfinished|uncompleted|remaining|outstanding|undone|left|unchecked|todo:": "open",
        "not done|completed|complete|finished|yet|closed": "open",
        "not yet|been done|completed|complete|finished": "open",
        "arent|isnt|havent|hasnt|are|have|has not? been? done|completed|complete|finished": "completed",
        "arent|isnt|havent|hasnt been? done|completed|complete|finished yet?": "open",
        "are|have|has|is not been? done|completed|complete|finished yet?": "open",
        "havent|have i|we? not? done|completed|finished yet": "open",
        "i|we havent|didnt done|completed|finished|do|finish|complete yet?": "open",
        "i|we have not done|completed|finished yet?": "open",
        "still to do|open|left|pending|outstanding": "open",
        "i|we still? have|need|must|got to do|finish|complete": "open",
        "do i|we still? have|need|got to? do|finish|complete": "open",
        "should|must i|we do": "open",
        "to be done": "open",
        "completed|complete|done|finished|closed|checked|ticked|accomplished": "completed",
        "checked|ticked|crossed off": "completed",
        "marked as? done|complete|completed|finished": "completed",
        "already? done|completed|finished": "completed",
        "i|we have|already|just? completed|done|finished|did": "completed",
        "ive|weve already? completed|done|finished": "completed",
        (
            "have|did i|we already? "
            "completed|done|finished|do|complete|finish|accomplish|accomplished|get done?"
        ): "completed",
    }
)
_PRIORITY = Phrases(
    {
        **{
            f"with|of|at|a|an? {words} priority|prio|importance|priorities|prioirty|prority": level
            for words, level in LEVELS.items()
        },
        **{
            f"with|whose? priority|prio is|of|set|to? {words}": level
            for words, level in LEVELS.items()
        },
        **{f"{words} priority|prio": level for words, level in LEVELS.items()},
        "high-priority|urgent|important|critical|high|highest": "High",
        "most important|urgent": "High",
    }
)
_ABOUT = Phrases.plain(
    [
        "about|containing|mentioning|regarding|concerning|matching|including|named|called|titled|like|tagged|related|involving|for|with",
        "that|which contain|contains|mention|mentions|include|includes|match|matches|say|says|have|has|are|is about? the|a? word|words|text|title?",
        "that|which? mention|mentions|contain|contains|contained|mentioned",
        "to do with",
    ]
)
_NOTHING = known(
    """the my all of a an any every each everything entire whole complete-list task tasks todo todos to-do to-dos list lists item items thing
    things that which are is i me have has do we us our in on for to with so far please there these those them due coming up currently now right
    got stuff what whats which's only just out how many be see go ahead still at a's and show give view need pls current reminders reminder
    entries entry agenda schedule plate full marked status one ones as where whose by their day work do? anything else can you let look at
    something someting sth somethin there already add added put saved overview summary happening next does need should attention needs its from off
    thats whatever"""
) - {"work", "next", "attention", "complete-list"}
_NOUN_WORDS = ("task", "tasks", "todos", "items", "all", "any", "everything")
_NOUNS = ("task", "tasks", "todos", "items")


class Filtered(msgspec.Struct):
    filter: Filter
    rest: str = ""
    """Words without a filter meaning."""
    due: bool = False


def filter_of(text: str, words: Words, today: date, *, search: bool = False) -> Filtered:
    """Return the filter that the words describe. `search`: search for the remaining words."""
    keys = ["tasks" if is_noun(key) else key for key in keys_of(words)]
    status = priority = looked_for = None
    rest: list[int] = []
    place = 0
    while place < len(keys):
        step, name, value = _read(keys, place, today)
        if name == "status" and status is None:
            status = value
        elif name == "priority" and priority is None:
            priority = value
        elif name == "search" and looked_for is None:
            looked_for = value
        elif name == "about" and place + step < len(keys) and looked_for is None:
            looked_for, place = _words_about(text, words, keys, place + step, today)
            continue
        elif name != "nothing" or words[place].quoted:
            rest += range(place, place + step)
        place += step
    left_over = phrase(text, [words[i] for i in rest]) if rest else ""
    if search and left_over and looked_for is None:
        looked_for, left_over = left_over, ""
    return Filtered(
        Filter(status, priority, looked_for),
        left_over,
        bool(looked_for and looked_for.startswith(("due:", "overdue"))),
    )


def is_noun(key: str) -> bool:
    """Return True for a word for tasks, also if it is misspelt. Letters may be missing, extra or
    swapped; a different letter makes a different word.
    """
    found = near(key, _NOUNS[:1]) or near(key, _NOUNS[1:2]) or near(key, _NOUNS[2:])
    return found is not None and (len(found) != len(key) or sorted(found) == sorted(key))


def _read(keys: Sequence[str], place: int, today: date) -> tuple[int, str, str]:
    if (period := period_at(keys, place, today)) is not None:
        return period[0], "search", period[1]
    if (status := STATUS.at(keys, place)) is not None:
        return status[0], "status", status[1]
    if (priority := _PRIORITY.at(keys, place)) is not None:
        return priority[0], "priority", priority[1]
    about = _ABOUT.at(keys, place)
    if about is not None and (
        STATUS.at(keys, place + about[0]) or _PRIORITY.at(keys, place + about[0])
    ):
        return about[0], "nothing", ""
    if about is not None and not (
        keys[place] in ("for", "with", "on")
        and (_only_filling(keys, place + 1) or keys[place + 1] in _NOUN_WORDS)
    ):
        return about[0], "about", ""
    return 1, "nothing" if keys[place] in _NOTHING else "rest", ""


def _only_filling(keys: Sequence[str], place: int) -> bool:
    return all(key in _NOTHING for key in keys[place : place + 8])


def _words_about(
    text: str, words: Words, keys: Sequence[str], place: int, today: date
) -> tuple[str, int]:
    """Return the search words, up to the next part of the filter."""
    while place < len(keys) - 1 and keys[place] in ("the", "my", "a", "an", "word", "words"):
        place += 1
    end = place + 1
    while end < len(keys) and _read(keys, end, today)[1] in ("rest", "about"):
        end += 1
    return phrase(text, words[place:end]), end
