"""Parsing of a clause that begins with a verb of command. Entry points: `commanded`, `noted`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.adding import added
from treadle.apps.assistant.language.changing import changed, completed, deleted, done_at
from treadle.apps.assistant.language.clauses import Clause
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.field_changes import changing
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.questions import asked_for, looked_for
from treadle.apps.assistant.language.stating import described, put_off
from treadle.apps.assistant.language.talk import (
    NOTHING_CHANGED,
)
from treadle.apps.assistant.language.verbs import VerbPhrase, head_at
from treadle.apps.assistant.language.wishes import (
    Missing,
    Named,
    PlainCall,
    TaskChange,
    Wish,
)
from treadle.apps.assistant.language.wording import Token, Words, keys_of, phrase

NOTHING_MEANT = Missing("what you would like to do", "any")
_NOUNS = known("a an another new task todo to-do reminder alarm alert notification item me one")

_NOTE = Phrases.plain(
    [
        "a|the? note|comment|description|detail|details",
    ]
)
_UNDO = known(
    """it that this last change action one the my thing please change: previous everything again back what you i just did latest operation command
    step was deletion and to"""
)


def commanded(
    text: str, clause: Clause, words: Words, head: VerbPhrase, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    rest = list(words[head.words :])
    if head.first in ("did", "done") and rest and rest[0].key in ("i", "we", "you"):
        return asked_for(text, words, head, today, question=True)
    match head.kind:
        case "add" | "remind":
            return _add(text, words, rest, head, today, talk)
        case "show":
            return asked_for(text, words, head, today, question=clause.question)
        case "search":
            return looked_for(text, rest, head, today)
        case "undo":
            brought = head.first == "bring" and any(word.key in ("forward", "to") for word in rest)
            return changed(text, rest, "move", today, talk) if brought else _undo(words, rest, head)
        case "complete":
            if not rest and head.words == len(words) and talk.fresh == "task" and talk.last:
                return [TaskChange("complete", Named(talk.last))]
            if head.words == 1 and head.first == "done" and not rest:
                return [Missing("which task you have completed", "task", doing="complete")]
            return completed(text, rest, today, talk)
        case "delete":
            return _delete(text, rest, head, today, talk)
        case "update":
            return _update(text, words, rest, head, today, talk)


def _add(
    text: str, words: Words, rest: list[Token], head: VerbPhrase, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    keys = keys_of(rest)
    if (
        head.first in ("todo", "task", "to-do")
        and rest
        and all(key in ("list", "lists", "overview") for key in keys)
    ):
        return asked_for(text, words, None, today, question=True)
    if head.first in _PUTTING and head.words == 1:
        put, is_new = _put(text, rest, head, today, talk)
        if not is_new:
            return put
    if head.kind == "remind" and keys[:1] in (["to"], ["about"]):
        rest = rest[1:]
    if head.first in ("make", "give") and head.words == 1:
        return None
    if head.words > 1 and head.kind == "add" and head.first not in ("note", "jot", "write"):
        noun = _noun_words(words, head)
        result = added(text, [*noun, *rest], today, talk)
    else:
        result = added(text, rest, today, talk)
    return [result] if isinstance(result, Missing) else list(result)


_PUTTING = known("put stick throw pop get chuck shove slap bung place include add")


def _put(
    text: str, rest: list[Token], head: VerbPhrase, today: date, talk: Dialogue
) -> tuple[list[Wish | Missing] | None, bool]:
    """Parse "put X on the list", "add a note to X". The second value is True if X is a new task."""
    keys = keys_of(rest)
    onto = any(k in ("list", "todo", "todos", "tasks", "lists") for k in keys[-3:])
    if head.first != "add":
        if onto:
            return None, True
        if head.first == "get" and keys[:2] != ["rid", "of"]:
            return None, False
        return changed(text, rest, head.first, today, talk), False
    if (
        talk.last
        and (noted := _NOTE.at(keys)) is not None
        and rest[noted[0] - 1].stop == ":"
        and noted[0] < len(rest)
    ):
        description = ("description", phrase(text, rest[noted[0] :]))
        return [TaskChange("update", Named(talk.last), (description,))], False
    colon = next((i for i, word in enumerate(rest) if word.stop == ":"), len(rest))
    if keys[:1] == ["to"] and 0 < colon < len(rest) - 1:
        description = ("description", phrase(text, rest[colon + 1 :]))
        return changing("update", text, rest[1 : colon + 1], today, talk, (description,)), False
    if _is_field(keys):
        return changed(text, rest, "add", today, talk), False
    return None, True


def _noun_words(words: Words, head: VerbPhrase) -> list[Token]:
    """Return the words "a new task" of the command itself, which adding.py parses."""
    first = next(
        (i for i in range(1, head.words) if words[i].key in _NOUNS),
        head.words,
    )
    return list(words[first : head.words]) if head.first != "task" and head.first != "todo" else []


def noted(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    """Parse "for X add the note that Y"."""
    keys = keys_of(words)
    if keys[0] not in ("for", "to", "on"):
        return None
    for place in range(2, min(len(keys), 12)):
        note = _NOTE.at(keys, place + 1) if keys[place] in ("add", "put", "write", "make") else None
        after = place + 1 + note[0] if note is not None else len(keys)
        after += keys[after : after + 1] in (["that"], ["saying"])
        if after < len(keys):
            return changing(
                "update",
                text,
                words[1:place],
                today,
                talk,
                (("description", phrase(text, words[after:])),),
            )
    return None


def _is_field(keys: Sequence[str]) -> bool:
    """Return True for a field of an existing task: "add a note to X", "add a due date"."""
    start = 1 if keys[:1] in (["a"], ["the"], ["an"]) else 0
    field = keys[start : start + 2]
    linked = any(key in ("to", "for", "of", "on") for key in keys[start + 1 :])
    named = field[:1] in (["deadline"], ["priority"], ["description"], ["note"]) or field in (
        ["due", "date"],
        ["high", "priority"],
        ["low", "priority"],
    )
    return named and linked and "task" not in keys[start : start + 3]


def _undo(words: Words, rest: Sequence[Token], head: VerbPhrase) -> list[Wish | Missing] | None:
    if head.first in ("undo", "revert", "undelete", "recover", "restore", "reverse"):
        return [PlainCall("undo")]
    keys = keys_of(words)
    return (
        [PlainCall("undo")]
        if "back" in keys and all(key in _UNDO for key in keys_of(rest)) and len(keys) < 6
        else None
    )


def _delete(
    text: str, rest: list[Token], head: VerbPhrase, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    keys = keys_of(rest)
    if head.first in ("i", "we") and keys[:1] == ["to"]:  # "I don't want to delete it"
        if head_at(keys, 1) is not None:
            return [NOTHING_CHANGED]
        rest, keys = rest[1:], keys[1:]
    if head.first == "take" and (keys[-1:] == ["back"] or keys[:1] == ["back"]):
        return [PlainCall("undo")]
    if head.first == "take" and "off" not in keys and "away" not in keys and "out" not in keys:
        return None
    if head.first in _CLEANING and not _of_list(rest):
        return None
    if head.first in ("toss", "clean") and not rest:
        return [Missing("what to delete", "task", doing="delete")]
    if keys[:1] == ["off"] or keys[-1:] == ["off"]:
        rest = rest[1:] if keys[0] == "off" else rest[:-1]
    return deleted(
        text,
        [word for i, word in enumerate(rest) if i or word.key not in ("out", "up", "away")],
        today,
        talk,
    )


_CLEANING = known("tidy clean wipe empty sweep")
"""Verbs of cleaning, which also apply to lists."""
_LIST_WORDS = known(
    "list lists task tasks todo todos done completed finished complete everything all ones items "
    "checked closed it them that this stuff"
)


def _of_list(rest: Sequence[Token]) -> bool:
    return not rest or any(word.key in _LIST_WORDS for word in rest)


def _update(
    text: str, words: Words, rest: list[Token], head: VerbPhrase, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    if head.first == "tick" and done_at(keys_of(rest)) is None:
        return completed(text, rest, today, talk)
    if head.first == "correct" and not any(word.key in ("to", "into") for word in rest):
        return None
    if head.first == "call" and (
        not any(w.key in ("it", "that", "the") for w in rest[:1])
        or not any(word.quoted for word in rest)
    ):
        return None
    if head.first in ("make", "give") and not rest:
        return [NOTHING_MEANT]
    if head.first == "describe":
        return described(text, rest, today, talk)
    return put_off(text, rest, head.first, today, talk) or changed(
        text, rest, head.first, today, talk
    )
