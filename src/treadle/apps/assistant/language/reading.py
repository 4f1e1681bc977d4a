"""Parsing of one clause: small talk, a command, a statement, or a new task without "add".

Entry point: `wishes_in`.
"""

from __future__ import annotations

from datetime import date

import msgspec

from treadle.apps.assistant.language.adding import acts_at_once, added
from treadle.apps.assistant.language.changing import commanded, stated
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import day_at
from treadle.apps.assistant.language.fields import DASHES, PRIORITY, fields_alone
from treadle.apps.assistant.language.listing import asked_for, looked_for
from treadle.apps.assistant.language.talk import NOTHING_CHANGED, said_alone
from treadle.apps.assistant.language.verbs import ACTIONS, VerbPhrase, closed, head_at, opened
from treadle.apps.assistant.language.wishes import Missing, Named, PlainCall, TaskChange, Wishes
from treadle.apps.assistant.language.wording import Keys, Words, keys_of, known, phrase

NOTHING_MEANT = Missing("what you would like to do", "any")
_UNNAMED = {
    "complete": Missing("which task you have completed", "task", doing="complete"),
    "delete": Missing("which task to delete", "task", doing="delete"),
    "update": Missing("which task to change, and how", "any"),
}
_BULLETS = known("+ - * • \u2013 — >")
_LABELS = known(
    "another one more thing things task tasks todo todos to-do new next reminder reminders also item items memo note self idea my quick add plus "
    "please to first second third finally lastly and do the a shopping errand errands chore chores homework work list groceries grocery"
)
_NOTES = known("note notes description comment")
_NEGATIONS = known("dont not never didnt havent hasnt wont cannot cant shouldnt")
_DENIERS = known("i we please you do does did ive have")
_NOT_NEGATED = known(
    "what whats which show list mark is are any anything do tasks how find everything"
)
_PUTTING = known("put stick throw pop get chuck shove slap bung place include")
_ONTO = known("list todo todos tasks lists")
_UNDOING = known("undo revert undelete recover restore reverse")
_UNDO = known(
    "it that this last change action one the my thing please previous everything again back what you i just did latest was to"
)
_LABEL_WORDS = 8


def wishes_in(words: Words, talk: Dialogue) -> Wishes | None:
    """Return the wishes of a clause; None if it is not understood."""
    question = words[-1].stop == "?"
    if len(words) > 1 and words[0].key in _BULLETS:  # "+ milk"
        add = [words[1]._replace(text="add", key="add")] if words[0].key == "+" else []
        words = [*add, *words[1:]]
    keys = keys_of(words)
    if (small := said_alone(keys)) is not None:
        return [small]
    start = opened(keys)
    words = words[start : max(closed(keys), start)]
    if not words:
        return []
    if not question and (new := _labelled(words, talk)) is not None:
        return new
    words = _day_last(words, talk.today)
    keys = keys_of(words)
    if (small := said_alone(keys)) is not None:
        return [small]
    head = head_at(keys, 0)
    if _negated(keys, head):
        return [NOTHING_CHANGED]
    if head is not None:
        named = [words[0]._replace(key=head.first), *words[1:]]
        if (read := _commanded(named, head, talk, question=question)) is not None:
            return read
    return _uncommanded(words, talk, question=question)


def _labelled(words: Words, talk: Dialogue) -> Wishes | None:
    """Parse a new task after a label: "urgent: call Bob", "in two weeks: dentist"."""
    marks = ((i, word) for i, word in enumerate(words[1 : _LABEL_WORDS + 1], 1))
    end = next(
        (i for i, word in marks if words[i - 1].stop == ":" or word.key in DASHES), len(words)
    )
    dashed = words[end - 1].stop != ":"
    label, rest = words[:end], words[end + dashed :]
    fields = fields_alone(label, talk.today) if rest else ()
    if not rest or (dashed and not fields):
        return None
    if (
        talk.fresh == "task"
        and talk.last
        and label[-1].key in _NOTES
        and label[0].key in (_NOTES | {"add", "a"})
    ):
        return [TaskChange("update", Named(talk.last), (("description", phrase(rest)),))]
    if not fields and not all(word.key in _LABELS for word in label):
        return None
    found = added(rest, talk.today)
    if isinstance(found, Missing):
        return [found]
    own = [{k: v for k, v in fields if getattr(wish, k) is None} for wish in found]
    return [msgspec.structs.replace(wish, **more) for wish, more in zip(found, own, strict=True)]


def _day_last(words: Words, today: date) -> Words:
    """Move a leading phrase behind the command: "Tomorrow I need to call mum", "high priority: call
    mum".
    """
    keys = keys_of(words[:16])
    skipped = 1 if keys[0] in ("on", "by", "for", "before", "due") else 0
    day = day_at(keys, skipped, today) if head_at(keys, 0) is None else None
    ahead = skipped + day[0] if day is not None else 0
    level = PRIORITY.at(keys) if ahead == 0 else None
    if level is not None and words[level[0] - 1].stop == ":":
        ahead = level[0]
    start = ahead + opened(keys[ahead:])
    head = head_at(keys, start)
    new = (head is not None and head.kind in ("add", "remind")) or keys[start : start + 1] == []
    if ahead == 0 or ahead >= len(words) or not (new or keys[start] in ACTIONS):
        return words
    return [*words[start:], *words[: ahead - 1], words[ahead - 1]._replace(stop="")]


def _negated(keys: Keys, head: VerbPhrase | None) -> bool:
    if head is not None and head.kind in ("add", "remind"):
        return False
    if head is not None and head.kind == "delete" and keys[0] in ("i", "we"):
        to = keys[head.words : head.words + 1] == ["to"]  # "I don't want to delete it"
        return to and head_at(keys, head.words + 1) is not None
    places = (i for i, key in enumerate(keys[:4]) if key in _NEGATIONS)
    no = 0 if keys[0] == "no" and len(keys) > 1 else next(places, None)
    if no is None or (keys[0] in _NOT_NEGATED and keys[:2] != ["do", "not"]):
        return False
    denied = no == 0 or any(key in _DENIERS for key in keys[:no])
    return denied or (head_at(keys, no + 1) is not None and no < 3)


def _commanded(words: Words, head: VerbPhrase, talk: Dialogue, *, question: bool) -> Wishes | None:
    rest, today = words[head.words :], talk.today
    keys = keys_of(rest)
    if head.first in ("did", "done") and keys[:1] in (["i"], ["we"], ["you"]):
        return asked_for(words, head, today, question=True)
    match head.kind:
        case "add" | "remind":
            return _add(words, rest, head, talk)
        case "show":
            return asked_for(words, head, today, question=question)
        case "search":
            return looked_for(rest, today)
        case "undo" if head.first in _UNDOING or ("back" in keys and _UNDO.issuperset(keys)):
            return [PlainCall("undo")]
        case "complete" if (
            not rest and head.words == len(words) and talk.fresh == "task" and talk.last
        ):
            return [TaskChange("complete", Named(talk.last))]
        case "delete" if head.first == "take" and "back" in (*keys[:1], *keys[-1:]):
            return [PlainCall("undo")]
        case "complete" | "delete" | "update" if not rest:
            return [NOTHING_MEANT if head.first in ("make", "give") else _UNNAMED[head.kind]]
        case _:
            return commanded(words, talk)


def _add(words: Words, rest: Words, head: VerbPhrase, talk: Dialogue) -> Wishes | None:
    keys = keys_of(rest)
    if head.first in ("todo", "task", "to-do") and rest and _ONTO.issuperset(keys):
        return asked_for(words, None, talk.today, question=True)
    if head.first in _PUTTING and head.words == 1 and _ONTO.isdisjoint(keys[-3:]):
        return commanded(words, talk)
    if head.first == "add" and (noted := commanded(words, talk)) is not None:
        return noted
    if head.kind == "remind" and keys[:1] in (["to"], ["about"]):
        rest = rest[1:]
    if head.kind == "add" and head.words > 1 and head.first not in ("note", "jot", "write"):
        rest = words[1:]  # "a new task" is part of the title's introduction
    result = added(rest, talk.today)
    return [result] if isinstance(result, Missing) else list(result)


def _uncommanded(words: Words, talk: Dialogue, *, question: bool) -> Wishes | None:
    keys, today = keys_of(words), talk.today
    fields = fields_alone(words, today)
    if keys[0] in ("keep", "leave", "not") and not fields:
        return [NOTHING_CHANGED]
    if not question and fields and talk.fresh == "task" and talk.last and talk.did:
        return [TaskChange("update", Named(talk.last), fields)]
    read = None if question else commanded(words, talk) or stated(words, talk)
    if (read := read or asked_for(words, None, today, question=question)) is not None:
        return read
    if question or not acts_at_once(words) or len(keys) >= 40:
        return None
    result = added(words, today)
    if isinstance(result, Missing):
        return [result]
    return [msgspec.structs.replace(wish, bare=True) for wish in result]
