"""Answers to the question of the previous reply: a choice between tasks, a missing value, a
corrected name.

Entry point: `answered`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from treadle.apps.assistant.language.adding import added
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import day_at
from treadle.apps.assistant.language.fields import level_of
from treadle.apps.assistant.language.targets import target_of
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
from treadle.apps.assistant.language.wording import Words, key_of, keys_of, known, phrase

Answer: TypeAlias = tuple[Wish | Missing, ...]

_SMALL = known("the a an one task my i mean meant about with of for to it is please that")
_CHOOSING = known("the i mean meant want its option choose pick take id say")
_BEFORE_VALUES = known("to make it set for by on is as should be due")
_ALL = ("all", "both", "all of them", "both of them", "every one", "everything")
_WORDS = 30
"""Maximum words of a choice; longer text is a new message."""


def answered(
    words: Words, talk: Dialogue, before: Answer, anew: Sequence[Wish | Missing]
) -> Answer | None:
    """Return the wishes of the earlier message with its gap filled, or None if this message does
    not answer it.

    `anew`: the wishes of this message if it is parsed as a new one. One that changes tasks by
    itself does not answer "which task?".
    """
    start = opened(keys_of(words))
    rest = words[start : max(closed(keys_of(words)), start)]
    if not before or not rest:
        return None
    if talk.asked == "which":
        chosen = _chosen(rest, talk)
        return None if chosen is None else _aimed(before, chosen, talk.about)
    gap = next((wish for wish in before if isinstance(wish, Missing)), None)
    if gap is None or gap.wants == "any":
        return None
    if gap.wants == "task" and any(isinstance(wish, (TaskChange, PlainCall)) for wish in anew):
        return None
    filled = _title(rest, talk, gap, anew) if gap.wants == "title" else _filled(rest, talk, gap)
    if filled is None:
        return None
    return tuple(part for wish in before for part in (filled if wish is gap else (wish,)))


def _chosen(words: Words, talk: Dialogue) -> tuple[Named, ...] | None:
    while len(words) > 1 and words[0].key in _CHOOSING:
        words = words[1:]
    keys, text = keys_of(words), key_of(phrase(words))
    if " ".join(keys) in _ALL:
        return tuple(map(Named, talk.options))
    command = head_at(keys, 0) is not None
    wanted = {*_bare(text)} - _SMALL
    same = [one for one in talk.options if key_of(one) == text]
    held = same or [one for one in talk.options if wanted and wanted <= {*_bare(key_of(one))}]
    if len(held) == 1 and len(keys) <= _WORDS and (same or not command):
        return (Named(held[0]),)
    target = None if command else target_of(words, talk)
    if isinstance(target, Named):
        return (target,) if target.words in talk.options else None
    return target if isinstance(target, tuple) else None


def _bare(text: str) -> list[str]:
    return [word.strip(",.;:!?()") for word in text.split()]


def _aimed(before: Answer, chosen: Sequence[Named], about: str) -> Answer | None:
    """Return the change in question, applied to the chosen tasks. The message's other wishes were
    carried out before.
    """
    for wish in before:
        named = wish.target if isinstance(wish, TaskChange) else None
        names = (named.words, *named.parts) if isinstance(named, Named) else ()
        if isinstance(wish, TaskChange) and key_of(about) in map(key_of, names):
            return tuple(msgspec.structs.replace(wish, target=target) for target in chosen)
    return None


def _filled(words: Words, talk: Dialogue, gap: Missing) -> Answer | None:
    head = head_at(keys_of(words), 0)
    if head is not None and head.sure:
        return None
    if gap.wants == "task" and gap.doing is not None:
        target = target_of(words, talk)
        if isinstance(target, Missing) or (isinstance(target, Every) and target.filter.empty):
            return None
        targets = target if isinstance(target, tuple) else (target,)
        return tuple(TaskChange(gap.doing, one, gap.fields, answers=True) for one in targets)
    while len(words) > 1 and words[0].key in _BEFORE_VALUES:
        words = words[1:]
    keys, value = keys_of(words), level_of(keys_of(words))
    if gap.field == "due":
        day = day_at(keys, 0, talk.today)
        value = day[1].isoformat() if day is not None and day[0] >= len(keys) - 1 else None
    elif gap.field != "priority":
        value = phrase(words)
    if gap.target is None or value is None:
        return None
    return (TaskChange("update", gap.target, ((gap.field, value),)),)


def _title(
    words: Words, talk: Dialogue, gap: Missing, anew: Sequence[Wish | Missing]
) -> Answer | None:
    """Take the message as the requested title.

    A command is not a title, unless it is incomplete or names no task on the list.
    """
    head = head_at(keys_of(words), 0)
    is_change = head is not None and head.kind in ("complete", "delete", "update")
    is_sure = head is not None and head.sure
    # "clear completed" is always a command, never a title
    if is_change and len(anew) == 1 and isinstance(anew[0], PlainCall):
        return None
    if is_sure and ("look for" in gap.what or not is_change):
        return None
    if "look for" in gap.what:
        return (Show(Filter("all", None, phrase(words))),)
    result = added(words, talk.today)
    if isinstance(result, Missing):
        return None
    change = anew[0] if len(anew) == 1 else None
    if is_change and isinstance(change, TaskChange) and isinstance(change.target, Named):
        return (msgspec.structs.replace(change, otherwise=result[0]),)
    is_whole = bool(anew) and not any(isinstance(wish, Missing) for wish in anew)
    return None if is_change and is_sure and is_whole else tuple(_with(gap, one) for one in result)


def _with(gap: Missing, task: AddTask) -> AddTask:
    """Add the fields given before the title, unless the answer has its own."""
    earlier = {name: value for name, value in gap.fields if getattr(task, name) is None}
    return msgspec.structs.replace(task, **earlier)
