"""Short remarks without a command: "low prio" about the last task, "urgent: call Bob", "milk:
tomorrow", "oops".

Entry points: `afterthought`, `labelled`, `regretted`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.adding import added
from treadle.apps.assistant.language.asides import DASHES, asides_of
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.values import fields_alone
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Missing,
    Named,
    PlainCall,
    TaskChange,
    Wish,
)
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase

_OF_IT = Phrases.plain(
    [
        "it|thats|its|that|this|and|oh|btw|is|was|should|must|needs|has|to|be|with|actually|make|set|by|for|on|due|so|really|just|please|but|also|ps|p.s|i|mean|meant"
    ]
)
_ADD_LABELS = known(
    """another one more thing things task tasks todo todos to-do new next reminder reminders also item items memo note self idea my quick add plus please to
    first second third finally lastly and do the a shopping errand errands chore chores homework work list
    groceries grocery"""
)
_REGRETS = Phrases.plain(
    [
        "oops|whoops|oopsie|ooops|woops|ups|oups|oopsies",
        "thats|that|this|it was|is? wrong|incorrect|mistake",
        "thats|that|this|it was|is? a|an|my mistake|error|accident|typo",
        "not that|this|it? one|task?",
        "wrong one|task|thing|button?",
        "my mistake|bad|fault",
        "i didnt|dont|never mean|meant|want that|this|it|to? do? that|this|it?",
        "thats|that was|is|wasnt|isnt? not? what i meant|wanted|said|asked",
        "by accident|mistake",
        "i did that by accident|mistake",
        "that was by|an accident|mistake",
    ]
)
_INTERJECTIONS = known(
    "oops whoops wait no sorry ah oh hold on damn shit argh ugh nope omg hmm crap please pls"
)
_UNDOING = Phrases.plain(["ctrl|cmd|control|command|strg z", "ctrl+z|ctrl-z|cmd+z|cmd-z|^z|strg+z"])
_NEEDLESS = known("to you your help that the a an it me some my more this time not no them him her")
_TITLE_WORDS = 8


def afterthought(
    text: str, words: Words, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    """Apply a priority or a day to the last task if the words contain nothing else."""
    if talk.fresh != "task" or not talk.last or not talk.did:
        return None
    start = 0
    keys = keys_of(words)
    fields = fields_alone(text, words, today)
    while not fields and start < min(len(words) - 1, 6) and _OF_IT.at(keys, start) is not None:
        start += 1
        fields = fields_alone(text, words[start:], today)
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
        (
            "no|sorry|oops|actually? it|that|this should|must|was be|say|read|have? been|meant? "
            "to? be? called|named|titled|say?"
        ),
        "it|that|this should|must say|read|be",
        "should say|read|be called?",
        "call|name|title it|that|this rather?",
        "make that|it say|read",
    ]
)


def replaced(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Parse "instead of buy milk i want it to be buy juice"."""
    keys = keys_of(words)
    if keys[:2] != ["instead", "of"]:
        return None
    for place in range(3, len(keys)):
        new = _WANTED.at(keys, place)
        start = place + (new[0] if new is not None else 0)
        if (new is not None or words[place - 1].stop == ",") and start < len(keys):
            return [
                TaskChange(
                    "update",
                    Named(phrase(text, words[2:place])),
                    (("title", phrase(text, words[start:])),),
                    unsure=True,
                )
            ]
    return None


_WANTED = Phrases.plain(
    [
        "i|we want|need|would|like it|that|this? to be|say|read",
        "it|that should be|say|read",
        "make|put|write|call it",
        "id like it to be|say|read",
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


def needed(text: str, words: Words, today: date) -> list[Wish | Missing] | None:
    """Parse "we need toilet paper"."""
    keys = keys_of(words)
    start = (
        2
        if keys[0] in ("i", "we") and keys[1:2] == ["need"]
        else 3
        if keys[:3] in (["we", "are", "out"], ["im", "out", "of"])
        else 0
    )
    if keys[:2] in (["need", "more"], ["need", "some"]):
        start = 1
    rest: list[Token] = list(words[start:])
    if not start or not rest or rest[0].key in _NEEDLESS or len(rest) > 5 or rest[0].key in ACTIONS:
        return None
    asides = asides_of(text, rest, today)
    return (
        [
            AddTask(
                title=phrase(text, asides.words),
                priority=asides.priority,
                due=asides.due.isoformat() if asides.due else None,
            )
        ]
        if asides.words
        else None
    )


def regretted(words: Words, talk: Dialogue) -> list[Wish | Missing] | None:
    """Undo the last change; "oops" does so only right after one."""
    keys = keys_of(words[:20])
    while len(keys) > 1 and keys[0] in _INTERJECTIONS:
        del keys[0]
    if _UNDOING.whole(keys) is not None:
        return [PlainCall("undo")]
    return [PlainCall("undo")] if talk.did and _REGRETS.whole(keys) is not None else None
