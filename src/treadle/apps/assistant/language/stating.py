"""Statements about a task without a command: "milk should be high priority", "the essay is due
friday", "no deadline for X".

Also two commands with a special form: "describe X as Y", "push X back a week". Entry points:
`stated`, `fielded`, `described`, `put_off`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from treadle.apps.assistant.language.changing import POSTPONING, REOPEN, done_at
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import days_at
from treadle.apps.assistant.language.field_changes import changing, gap_of
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.values import fields_alone, stem_of, values_of
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import Every, Missing, TaskChange, Wish
from treadle.apps.assistant.language.wording import Words, keys_of, phrase
from treadle.apps.assistant.stems import stem

_MIDDLES = known(
    "is are isnt arent should needs must has have due to -> be doesnt does moved pushed "
    "postponed rescheduled delayed shifted"
)
_GONE = Phrases.plain(
    [
        "is|are|was no|not longer|any? needed|necessary|relevant|required|important? anymore|anyhow?",
        "can go|be deleted|removed|dropped|scrapped",
    ]
)
_ARROWS = known("-> => → ➜ >")
_READS = Phrases.plain(
    [
        "should|must|needs|has to? say|read|be called|named|titled?",
    ]
)


def _predicated(
    text: str, words: Words, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    """Parse "call mum is no longer needed", "buy milk should be buy cheese"."""
    keys = keys_of(words)
    if keys[0] in _ASKERS:
        return None
    if (
        arrow := next((i for i in range(1, len(keys) - 1) if keys[i] in _ARROWS), None)
    ) is not None and not fields_alone(text, words[arrow + 1 :], today):
        named = (("title", phrase(text, words[arrow + 1 :])),)
        return [
            msgspec.structs.replace(one, unsure=True)
            for one in changing("update", text, words[:arrow], today, talk, named)
            if isinstance(one, TaskChange)
        ]
    for place in range(1, len(keys)):
        if words[place].quoted:
            continue
        if (gone := _GONE.at(keys, place)) is not None and place + gone[0] == len(keys):
            return changing("delete", text, words[:place], today, talk)
        reads = _READS.at(keys, place)
        if (
            reads is None
            or place + reads[0] >= len(keys)
            or keys[0] in ("it", "that", "this")
            or done_at(keys) is not None
        ):
            continue
        fields, _ = values_of(text, words, today)
        new = words[place + reads[0] :]
        if (
            not fields
            and not fields_alone(text, new, today)
            and (keys[place + reads[0] - 1] != "be" or _is_title(new, keys[:place]))
        ):
            named = (("title", phrase(text, new)),)
            return [
                msgspec.structs.replace(one, unsure=True)
                for one in changing("update", text, words[:place], today, talk, named)
                if isinstance(one, TaskChange)
            ]
    return None


def _is_title(new: Words, old: Sequence[str]) -> bool:
    """Return True for a new title, as opposed to an opinion: "call mum should be fun"."""
    return (
        new[0].quoted
        or new[0].key in ACTIONS
        or not {stem(key) for key in old}.isdisjoint(stem(key) for key in keys_of(new))
    )


_ASKERS = known(
    "what which how who there i my you why we when where if everything all nothing they he she"
)


def stated(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Parse statements: "the report is done", "milk should be high priority", "the essay is due
    friday".
    """
    keys = keys_of(words)
    if keys[0] in ("thats", "so") and len(keys) > 2:
        words, keys = words[1:], keys[1:]
    done = done_at(keys)
    if (
        done is not None
        and done[0] > 0
        and done[1] < len(keys)
        and keys[done[0]] not in ("out", "off")
    ):
        if done[2]:
            return [REOPEN]
        before = words[: done[0]]
        while len(before) > 1 and before[-1].key in (
            "is",
            "are",
            "was",
            "has",
            "been",
            "have",
            "got",
            "now",
        ):
            before = before[:-1]
        return changing("complete", text, before, today, talk)
    if (said := _predicated(text, words, today, talk)) is not None:
        return said
    if keys[0] in ("can", "could", "should", "may", "let") and "be" in keys[2:]:
        words, keys = words[1:], keys[1:]
    middle = next((i for i, key in enumerate(keys) if i and key in _MIDDLES), None)
    if middle is None or (
        keys[0] in ("what", "which", "how", "who", "there", "i", "my", "you", "why", "it")
        and keys[0] != "it"
    ):
        return None
    fields, rest = values_of(text, words, today)
    if not fields or not rest or len(rest) > middle:
        return None
    found = changing("update", text, rest, today, talk, fields)
    every = any(isinstance(wish, TaskChange) and isinstance(wish.target, Every) for wish in found)
    return None if every and keys[middle] not in ("should", "must", "needs") else found


def described(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing]:
    """Parse "describe X as Y"."""
    place = next(
        (
            i
            for i in range(1, len(words) - 1)
            if words[i].key in ("as", "with", "like") or words[i - 1].stop == ":"
        ),
        None,
    )
    if place is None:
        return gap_of(text, words, "description", "describe", today, talk)
    after = place if words[place - 1].stop == ":" else place + 1
    return changing(
        "update", text, words[:place], today, talk, (("description", phrase(text, words[after:])),)
    )


def put_off(
    text: str, words: Words, verb: str, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    """Parse "push X back a week", "postpone X by 2 days", counted from the task's current day."""
    keys = keys_of(words)
    if verb not in POSTPONING:
        return None
    for place in range(1, len(keys)):
        start = place + (keys[place] in ("by", "for"))
        span = days_at(keys, start)
        back = keys[start + span[0] :] if span is not None else []
        if span is None or back not in (
            [],
            ["later"],
            ["back"],
            ["out"],
            ["more"],
            ["forward"],
            ["earlier"],
            ["sooner"],
            ["ahead"],
        ):
            continue
        rest = stem_of(words[:place])
        earlier = back in (["earlier"], ["sooner"]) or (verb == "pull")
        found = changing("update", text, rest, today, talk)
        return [
            msgspec.structs.replace(one, later=-span[1] if earlier else span[1])
            if isinstance(one, TaskChange)
            else one
            for one in found
        ]
    return None
