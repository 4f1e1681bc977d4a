"""Answers to the question of the previous reply: a choice between tasks, a missing value, a
corrected name.

Entry point: `answered`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from treadle.apps.assistant.language.adding import added
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import day_at
from treadle.apps.assistant.language.phrases import known
from treadle.apps.assistant.language.targets import target_of
from treadle.apps.assistant.language.values import level_of
from treadle.apps.assistant.language.verbs import closed, head_at, opened
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Every,
    Filter,
    Missing,
    Named,
    PlainCall,
    Show,
    TaskChange,
    Wish,
)
from treadle.apps.assistant.language.wording import Words, key_of, keys_of, phrase

_LEADS = known(
    """the i mean meant want its it's it is was to one about for that as with on by make set called please no sorry my task"""
)
_SMALL = known("""the a an one task my i mean meant about with of for to it is please that""")
_CHOOSING = known("the i mean meant want its option choose pick take id say")
_ALL = ("all", "both", "all of them", "both of them", "every one", "everything")

_WORDS = 30
"""Maximum words of a choice; longer text is a new message."""


def answered(
    text: str,
    words: Words,
    today: date,
    talk: Dialogue,
    before: Sequence[Wish | Missing],
    anew: Sequence[Wish | Missing],
) -> tuple[Wish | Missing, ...] | None:
    """Return the wishes of the earlier message with its gap filled, or None if this message does
    not answer it.

    `anew`: the wishes of this message if it is parsed as a new one. One that changes tasks by
    itself does not answer "which task?".
    """
    if not before:
        return None
    if talk.asked == "which":
        chosen = _chosen(text, words, today, talk)
        return None if chosen is None else _aimed(before, chosen, talk.about)
    start = opened(keys_of(words))
    rest = list(words[start : max(closed(keys_of(words)), start)])
    if not rest:
        return None
    gap = next((wish for wish in before if isinstance(wish, Missing)), None)
    if gap is None or gap.wants == "any":
        return None
    if gap.wants == "task" and any(isinstance(wish, (TaskChange, PlainCall)) for wish in anew):
        return None
    filled = _filled(text, rest, today, talk, gap, anew)
    return (
        None
        if filled is None
        else tuple(part for wish in before for part in (filled if wish is gap else (wish,)))
    )


def _chosen(text: str, words: Words, today: date, talk: Dialogue) -> tuple[Named, ...] | None:
    keys = keys_of(words)
    start = opened(keys)
    rest = list(words[start : max(closed(keys), start)])
    while len(rest) > 1 and rest[0].key in _CHOOSING and not rest[0].quoted:
        rest.pop(0)
    if not rest:
        return None
    keys = keys_of(rest)
    if " ".join(keys) in _ALL:
        return tuple(Named(option) for option in talk.options)
    matching = _matching(
        keys_of(rest) if not rest[0].quoted else [key_of(w) for w in rest[0].text.split()],
        talk.options,
    )
    if matching is not None and (
        head_at(keys, 0) is None
        or (len(matching) == 1 and key_of(phrase(text, rest)) == key_of(matching[0].words))
    ):
        return matching
    if head_at(keys, 0) is not None:
        return None
    target = target_of(text, rest, today, talk)
    if isinstance(target, Named):
        return (target,) if target.words in talk.options else None
    return target if isinstance(target, tuple) else None


def _matching(keys: Sequence[str], options: Sequence[str]) -> tuple[Named, ...] | None:
    """Return the single option that contains all words of the answer."""
    wanted = [key for key in keys[:_WORDS] if key not in _SMALL]
    if not wanted or len(keys) > _WORDS:
        return None
    exact = [option for option in options if key_of(option) == " ".join(keys)]
    held = exact or [
        option
        for option in options
        if {*wanted} <= {key_of(word).strip(",.;:!?()") for word in option.split()}
    ]
    return (Named(held[0]),) if len(held) == 1 else None


def _aimed(
    before: Sequence[Wish | Missing], chosen: Sequence[Named], about: str
) -> tuple[Wish | Missing, ...] | None:
    """Return the change in question, applied to the chosen tasks. The message's other wishes were
    carried out before.
    """
    changes = [
        (wish, wish.target)
        for wish in before
        if isinstance(wish, TaskChange) and isinstance(wish.target, Named)
    ]
    asked = [
        wish
        for wish, target in changes
        if key_of(about) in map(key_of, (target.words, *target.parts))
    ] or [wish for wish, _ in changes[:1]]
    return (
        tuple(msgspec.structs.replace(asked[0], target=target) for target in chosen)
        if asked
        else None
    )


def _filled(
    text: str,
    words: Words,
    today: date,
    talk: Dialogue,
    gap: Missing,
    anew: Sequence[Wish | Missing],
) -> tuple[Wish | Missing, ...] | None:
    keys = keys_of(words)
    head = head_at(keys, 0)
    if gap.wants == "title":
        return _title(text, words, today, talk, gap, anew)
    if head is not None and head.sure:
        return None
    if gap.wants == "task" and gap.doing is not None:
        target = target_of(text, words, today, talk)
        if isinstance(target, Missing) or (isinstance(target, Every) and target.filter.empty):
            return None
        return tuple(
            TaskChange(gap.doing, one, gap.fields, answers=True)
            for one in (target if isinstance(target, tuple) else (target,))
        )
    return _value(text, words, today, gap)


def _title(
    text: str,
    words: Words,
    today: date,
    talk: Dialogue,
    gap: Missing,
    anew: Sequence[Wish | Missing],
) -> tuple[Wish | Missing, ...] | None:
    """Take the message as the requested title.

    A command is not a title, unless it is incomplete or names no task on the list.
    """
    head = head_at(keys_of(words), 0)
    is_change = head is not None and head.kind in ("complete", "delete", "update")
    is_sure = head is not None and head.sure
    if is_sure and not is_change:
        return None
    # "clear completed" is always a command, never a title
    if is_change and len(anew) == 1 and isinstance(anew[0], PlainCall):
        return None
    if "look for" in gap.what:
        return None if is_sure else (Show(Filter("all", None, phrase(text, words))),)
    result = added(text, words, today, talk)
    if isinstance(result, Missing):
        return None
    if (
        is_change
        and len(anew) == 1
        and isinstance(change := anew[0], TaskChange)
        and isinstance(change.target, Named)
    ):
        return (msgspec.structs.replace(change, otherwise=result[0]),)
    is_whole = bool(anew) and not any(isinstance(wish, Missing) for wish in anew)
    return None if is_change and is_sure and is_whole else tuple(_with(gap, one) for one in result)


def _with(gap: Missing, task: AddTask) -> AddTask:
    """Add the fields given before the title, unless the answer has its own."""
    earlier = {name: value for name, value in gap.fields if getattr(task, name) is None}
    return msgspec.structs.replace(task, **earlier) if earlier else task


def _value(text: str, words: Words, today: date, gap: Missing) -> tuple[Wish | Missing, ...] | None:
    if gap.target is None:
        return None
    rest = list(words)
    while (
        len(rest) > 1
        and not rest[0].quoted
        and rest[0].key
        in ("to", "make", "it", "set", "for", "by", "on", "is", "as", "should", "be", "due")
    ):
        rest.pop(0)
    keys = keys_of(rest)
    value: str | None = None
    if gap.field == "due":
        day = day_at(keys, 0, today)
        value = day[1].isoformat() if day is not None and day[0] >= len(keys) - 1 else None
    elif gap.field == "priority":
        value = level_of(keys)
    else:
        value = phrase(text, rest)
    return None if value is None else (TaskChange("update", gap.target, ((gap.field, value),)),)
