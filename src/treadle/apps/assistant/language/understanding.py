"""Parsing of a message into wishes: its commands in sequence, references such as "it" or "the
second one", and answers to an earlier question.

Nothing destructive is guessed: an unclear message leads to a question, and none of it is carried
out. Entry point: `understood`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from treadle.apps.assistant.language.adding import TITLE
from treadle.apps.assistant.language.answers import answered
from treadle.apps.assistant.language.changing import REOPEN
from treadle.apps.assistant.language.clauses import clauses_of
from treadle.apps.assistant.language.conversation import Dialogue, Speech
from treadle.apps.assistant.language.reading import NOTHING_MEANT, wishes_in
from treadle.apps.assistant.language.talk import (
    HELP,
    NO_REMINDERS,
    NO_REOPENING,
    NO_REPEATING,
    regrets,
    said_alone,
)
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Missing,
    Named,
    PlainCall,
    Say,
    TaskChange,
    Understood,
    Wish,
    Wishes,
)
from treadle.apps.assistant.language.wording import Words, keys_of, words_of
from treadle.apps.assistant.unsupported import is_repetition, wants_reminder, wants_repetition

CHARS_MOST = 10_000
CALLS_MOST = 10
ASKED_CHARS = 1000
"""Maximum length of a message that an answer can complete."""


def understood(text: str, today: date, *, said: Sequence[Speech] = ()) -> Understood:
    """Parse all wishes of the message, in the context of the conversation.

    Returns at most ten wishes, and reads only the first 10,000 characters.
    """
    text = text[:CHARS_MOST]
    talk = Dialogue.of(said, today)
    words = words_of(text)
    keys = keys_of(words)
    if not words:
        return Understood((HELP,)) if "?" in text else _asking([NOTHING_MEANT])
    if regrets(keys, did=talk.did):
        return _asking([PlainCall("undo")])
    if (small := said_alone(keys)) is not None:
        return Understood((small,))
    if talk.asked:
        anew = _wishes(words, Dialogue.of(said, today))
        if (answer := answered(words, talk, _again(talk), anew)) is not None:
            return _asking(list(answer))
    found = _wishes(words, talk)
    return (
        Understood((NO_REPEATING,))
        if wants_repetition(text) and any(map(_needs_repetition, found))
        else _asking(found, wants_reminder=wants_reminder(text))
    )


def _needs_repetition(wish: Wish | Missing) -> bool:
    """Return True if the wish needs repetition: nothing else of it was understood, or a title would
    contain "repeat".
    """
    if isinstance(wish, Missing):
        return wish.wants in ("any", "value")
    return isinstance(wish, TaskChange) and is_repetition(dict(wish.fields).get("title") or "")


def _again(talk: Dialogue) -> tuple[Wish | Missing, ...]:
    """Return the wishes of the message that led to the question."""
    if not talk.before or len(talk.before) > ASKED_CHARS:
        return ()
    return tuple(_wishes(words_of(talk.before), Dialogue.of(talk.earlier, talk.today)))


def _asking(found: Wishes, *, wants_reminder: bool = False) -> Understood:
    missing = next((wish for wish in found if isinstance(wish, Missing)), None)
    if missing is not None:
        question = NO_REOPENING if missing is REOPEN else missing.question
        if wants_reminder and missing.what == TITLE.what:
            question = Say(question.kind, f"{question.text} {NO_REMINDERS}")
        return Understood((question,), tuple(found))
    wishes = [wish for wish in found if not isinstance(wish, Missing)]
    acts = [wish for wish in wishes if not isinstance(wish, Say)]
    return Understood(tuple((acts or wishes[:1])[:CALLS_MOST]), tuple(found))


def _wishes(words: Words, talk: Dialogue) -> Wishes:
    found: Wishes = []
    unread = False
    for clause in clauses_of(words):
        read = wishes_in(clause, talk)
        unread |= read is None
        for wish in read or ():
            _join(found, wish)
            if isinstance(wish, AddTask):
                talk.last, talk.fresh, talk.did = wish.title, "task", True
            elif isinstance(wish, TaskChange) and isinstance(wish.target, Named):
                talk.last = dict(wish.fields).get("title") or wish.target.words
                talk.fresh, talk.did = "task", True
        if len(found) > CALLS_MOST:
            break
    acts = any(not isinstance(wish, Say) for wish in found)
    return found if acts or (found and (not unread or len(words) < 12)) else [NOTHING_MEANT]


def _join(found: Wishes, wish: Wish | Missing) -> None:
    """Append a wish. A statement about a task that the same message adds is merged into its
    addition; one that repeats the wish before it is not ("I've bought milk, so tick that").
    """
    match found[-1:], wish:
        case [AddTask(title=title) as new], TaskChange("update", Named(words)) if words == title:
            found[-1] = msgspec.structs.replace(new, **dict(wish.fields))
        case [TaskChange(last, Named(known), fields)], TaskChange(doing, Named(words)) if (
            last,
            known,
            fields,
        ) == (doing, words, wish.fields):
            return
        case _:
            found.append(wish)
