"""Short remarks without a command: "low prio" about the last task, "urgent: call Bob", "milk:
tomorrow", "oops".

Entry points: `afterthought`, `labelled`, `regretted`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.adding import added
from treadle.apps.assistant.language.asides import DASHES
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.values import fields_alone
from treadle.apps.assistant.language.wishes import Missing, Named, PlainCall, TaskChange, Wish
from treadle.apps.assistant.language.wording import Words, keys_of, phrase

_ADD_LABELS = known(
    """another one more thing things task tasks todo todos to-do new next reminder reminders also item items memo note self idea my quick add plus please to
    first second third finally lastly and do the a shopping errand errands chore chores homework work list
    groceries grocery"""
)
_REGRETS = Phrases.plain(
    [
        "oops|whoops|oopsie|ooops|woops|ups|oups|oopsies",
        "thats|that|this|it was|is? wrong|incorrect|mistake",
        "wrong one|task|thing|button?",
        "i didnt|dont|never mean|meant|want that|this|it|to? do? that|this|it?",
    ]
)
_INTERJECTIONS = known(
    "oops whoops wait no sorry ah oh hold on damn shit argh ugh nope omg hmm crap please pls"
)
_UNDOING = Phrases.plain(
    [
        "ctrl|cmd|control|command|strg z",
    ]
)
_TITLE_WORDS = 8


def afterthought(
    text: str, words: Words, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    """Apply a priority or a day to the last task if the words contain nothing else."""
    if talk.fresh != "task" or not talk.last or not talk.did:
        return None
    fields = fields_alone(text, words, today)
    return [TaskChange("update", Named(talk.last), fields)] if fields else None


def retitled(text: str, words: Words, talk: Dialogue) -> list[Wish | Missing] | None:
    """Retitle the last added or changed task: "I meant oat milk", "call it oat milk instead"."""
    keys = keys_of(words)
    found = _MEANT.at(keys)
    if not talk.did or not talk.last or found is None or found[0] >= len(words):
        return None
    rest = list(words[found[0] :])
    denied = next(
        (i for i in range(1, len(rest)) if rest[i].key == "not" and rest[i - 1].stop == ","),
        len(rest),
    )
    rest = rest[:denied]
    while (
        len(rest) > 1
        and not rest[-1].quoted
        and rest[-1].key in ("instead", "please", "pls", "sorry", "rather")
    ):
        rest.pop()
    return (
        None
        if rest[0].key in ("to", "that", "it")
        else [TaskChange("update", Named(talk.last), (("title", phrase(text, rest)),))]
    )


_MEANT = Phrases.plain(
    [
        "no|sorry|oops? i meant|mean to? say|write|type|add|put?",
        "no|sorry|oops|actually? it|that|this should|must|was be|say|read|have? been|meant? to? be? called|named|titled|say?",
        "call|name|title it|that|this rather?",
    ]
)


def labelled(
    text: str, words: Words, today: date, talk: Dialogue, *, adding: bool
) -> list[Wish | Missing] | None:
    """Parse a label before a colon.

    The result is a new task if `adding` ("urgent: call Bob", "in two weeks: dentist"), or new
    values of a task ("milk: low priority").
    """
    end = next(
        (
            i
            for i, word in enumerate(words[:_TITLE_WORDS])
            if word.stop == ":" or (words[i + 1 : i + 2] and words[i + 1].key in DASHES)
        ),
        None,
    )
    if end is None or end + 2 >= len(words) + (words[end].stop == ":"):
        return None
    dashed = words[end].stop != ":"
    label, rest = list(words[: end + 1]), words[end + 1 + dashed :]
    fields = fields_alone(text, label, today)
    if dashed and not fields:
        return None
    if (
        adding
        and talk.fresh == "task"
        and talk.last
        and label[-1].key in ("note", "notes", "description", "comment")
        and "self" not in keys_of(label)
    ):
        return [TaskChange("update", Named(talk.last), (("description", phrase(text, rest)),))]
    if not adding:
        values = fields_alone(text, rest, today)
        return (
            [TaskChange("update", Named(phrase(text, label)), values, unsure=True)]
            if values and not dashed
            else None
        )
    if fields or all(not word.quoted and word.key in _ADD_LABELS for word in label):
        found = added(text, rest, today, talk)
        if isinstance(found, Missing):
            return [found]
        given = {name: value for name, value in fields if value is not None}
        return [
            msgspec.structs.replace(
                wish, **{k: v for k, v in given.items() if getattr(wish, k) is None}
            )
            for wish in found
        ]
    return None


def regretted(words: Words, talk: Dialogue) -> list[Wish | Missing] | None:
    """Undo the last change; "oops" does so only right after one."""
    keys = keys_of(words[:20])
    while len(keys) > 1 and keys[0] in _INTERJECTIONS:
        del keys[0]
    if _UNDOING.whole(keys) is not None:
        return [PlainCall("undo")]
    return [PlainCall("undo")] if talk.did and _REGRETS.whole(keys) is not None else None
