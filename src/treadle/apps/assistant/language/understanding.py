"""Parsing of a message into wishes: its commands in sequence, references such as "it" or "the
second one", and answers to an earlier question.

Nothing destructive is guessed: an unclear message leads to a question, and none of it is carried
out. Entry point: `understood`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from treadle.apps.assistant.language.adding import TITLE, acts_at_once, added
from treadle.apps.assistant.language.afterthoughts import (
    afterthought,
    labelled,
    regretted,
    retitled,
)
from treadle.apps.assistant.language.answers import answered
from treadle.apps.assistant.language.changing import (
    REOPEN,
)
from treadle.apps.assistant.language.clauses import Clause, clauses_of
from treadle.apps.assistant.language.commands import NOTHING_MEANT, commanded
from treadle.apps.assistant.language.conversation import Dialogue, Speech
from treadle.apps.assistant.language.ordering import (
    day_last,
    job_last,
    without_bullet,
    without_symbols,
)
from treadle.apps.assistant.language.phrases import Phrases, known
from treadle.apps.assistant.language.questions import asked_for
from treadle.apps.assistant.language.stating import stated
from treadle.apps.assistant.language.talk import (
    HELP,
    NO_REMINDERS,
    NO_REOPENING,
    NO_REPEATING,
    NOTHING_CHANGED,
    said_alone,
)
from treadle.apps.assistant.language.telling import told
from treadle.apps.assistant.language.values import fields_alone
from treadle.apps.assistant.language.verbs import VerbPhrase, closed, head_at, opened
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Missing,
    Named,
    PlainCall,
    Say,
    Show,
    TaskChange,
    Understood,
    Wish,
    unclear,
)
from treadle.apps.assistant.language.wording import Words, keys_of, words_of
from treadle.apps.assistant.unsupported import is_repetition, wants_reminder, wants_repetition

CHARS_MOST = 10_000
CALLS_MOST = 10
ASKED_CHARS = 1000
"""Maximum length of a message that an answer can complete."""
_REOPENING = known("uncheck untick reopen uncomplete unmark unfinish")
_NEGATIONS = known("dont not never didnt havent hasnt wont cannot cant shouldnt")
_PLANNED = Phrases.plain(
    [
        "ill|well",
        "i|we will|shall",
        "i|we am|are going|gonna to?",
    ]
)


def understood(text: str, today: date, *, said: Sequence[Speech] = ()) -> Understood:
    """Parse all wishes of the message, in the context of the conversation.

    Returns at most ten wishes, and reads only the first 10,000 characters.
    """
    text = text[:CHARS_MOST]
    talk = Dialogue.of(said)
    words = words_of(text)
    if not words:
        return Understood((HELP,)) if "?" in text else _asking([NOTHING_MEANT])
    if (undone := regretted(words, talk)) is not None:
        return _asking(undone)
    if (small := said_alone(keys_of(words))) is not None:
        return Understood((small,))
    anew = _wishes(text, words, today, Dialogue.of(said)) if talk.asked else []
    if (
        talk.asked
        and (answer := answered(text, words, today, talk, _again(talk, today), anew)) is not None
    ):
        return _asking(list(answer))
    found = _wishes(text, words, today, talk)
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


def _again(talk: Dialogue, today: date) -> tuple[Wish | Missing, ...]:
    """Return the wishes of the message that led to the question."""
    if not talk.before or len(talk.before) > ASKED_CHARS:
        return ()
    earlier = Dialogue.of(talk.earlier)
    words = words_of(talk.before)
    if (
        earlier.asked
        and (answer := answered(talk.before, words, today, earlier, (), ())) is not None
    ):
        return answer
    if earlier.asked and earlier.before and len(talk.earlier) < 40:
        before = understood(talk.before, today, said=talk.earlier[-6:])
        return before.whole
    return tuple(_wishes(talk.before, words, today, earlier))


def _asking(found: list[Wish | Missing], *, wants_reminder: bool = False) -> Understood:
    missing = tuple(wish for wish in found if isinstance(wish, Missing))
    if missing:
        question = NO_REOPENING if missing[0] is REOPEN else unclear(missing[0].what)
        if wants_reminder and missing[0].what == TITLE.what:
            question = msgspec.structs.replace(question, text=f"{question.text} {NO_REMINDERS}")
        return Understood((question,), missing, tuple(found))
    wishes = [
        wish for wish in found if isinstance(wish, (AddTask, Show, TaskChange, PlainCall, Say))
    ]
    acts = [wish for wish in wishes if not isinstance(wish, Say)]
    return Understood(tuple((acts or wishes[:1])[:CALLS_MOST]), (), tuple(found))


def _wishes(text: str, words: Words, today: date, talk: Dialogue) -> list[Wish | Missing]:
    found: list[Wish | Missing] = []
    unread = False
    for clause in clauses_of(words):
        read = _read(text, clause, today, talk)
        if read is None:
            unread = True
            continue
        for wish in read:
            _join(found, wish)
            if isinstance(wish, AddTask):
                talk.last, talk.fresh, talk.did = wish.title, "task", True
            elif isinstance(wish, TaskChange) and isinstance(wish.target, Named):
                talk.last, talk.fresh, talk.did = (
                    dict(wish.fields).get("title") or wish.target.words,
                    "task",
                    True,
                )
        if len(found) > CALLS_MOST:
            break
    if any(not isinstance(wish, Say) for wish in found) or (found and not unread):
        return found
    if found and not any(isinstance(wish, Missing) for wish in found) and len(words) < 12:
        return found
    return [NOTHING_MEANT]


def _join(found: list[Wish | Missing], wish: Wish | Missing) -> None:
    """Append a wish. A statement about a task that the same message adds is merged into its
    addition.
    """
    last = found[-1] if found else None
    if (
        isinstance(last, AddTask)
        and isinstance(wish, TaskChange)
        and wish.doing == "update"
        and wish.target == Named(last.title)
    ):
        found[-1] = msgspec.structs.replace(last, **dict(wish.fields))
    elif (
        isinstance(last, TaskChange)
        and isinstance(wish, TaskChange)
        and (last.doing, last.fields) == (wish.doing, wish.fields)
        and _same(last, wish)
    ):
        return
    else:
        found.append(wish)


def _same(one: TaskChange, other: TaskChange) -> bool:
    """Return True if a second clause repeats the first: "I've bought milk, so tick that"."""
    return (
        isinstance(one.target, Named)
        and isinstance(other.target, Named)
        and one.target.words == other.target.words
    )


def _read(text: str, clause: Clause, today: date, talk: Dialogue) -> list[Wish | Missing] | None:
    clause = without_bullet(clause)
    keys = keys_of(clause.words)
    if (small := said_alone(keys)) is not None:
        return [small]
    start = opened(keys)
    words = job_last(clause.words[start : max(closed(keys), start)])
    if not words:
        return []
    if not clause.question and (new := labelled(text, words, today, talk, adding=True)) is not None:
        return new
    words = day_last(without_symbols(words), today)
    keys = keys_of(words)
    head = head_at(keys, 0)
    if (small := said_alone(keys)) is not None:
        return [small]
    if (
        not clause.question
        and (better := retitled(text, words, talk)) is not None
        and not fields_alone(text, words[2:], today)
    ):
        return better
    if _negated(keys, head):
        return [NOTHING_CHANGED]
    if head is not None and (read := commanded(text, clause, words, head, today, talk)) is not None:
        return read
    return _uncommanded(text, clause, words, today, talk)


def _negated(keys: Sequence[str], head: VerbPhrase | None) -> bool:
    if head is not None and head.kind in ("add", "remind"):
        return False
    if head is not None and head.kind == "delete" and keys[0] in ("i", "we"):
        return False
    first = keys[:4]
    no = next(
        (
            i
            for i, key in enumerate(first)
            if key in _NEGATIONS or (key == "no" and i == 0 and len(keys) > 1)
        ),
        None,
    )
    if no is None or (
        keys[0]
        in (
            "what",
            "whats",
            "which",
            "show",
            "list",
            "mark",
            "is",
            "are",
            "any",
            "anything",
            "do",
            "tasks",
            "how",
            "find",
            "everything",
        )
        and keys[:2] != ["do", "not"]
    ):
        return False
    return (
        no == 0
        or any(
            key in ("i", "we", "please", "you", "do", "does", "did", "ive", "have")
            for key in keys[:no]
        )
        or (head_at(keys, no + 1) is not None and no < 3)
    )


def _uncommanded(
    text: str, clause: Clause, words: Words, today: date, talk: Dialogue
) -> list[Wish | Missing] | None:
    keys = keys_of(words)
    if keys[0] in _REOPENING:
        return [REOPEN]
    if keys[0] in ("keep", "leave", "not") and not fields_alone(text, words, today):
        return [NOTHING_CHANGED]
    if (
        not clause.question
        and (
            short := afterthought(text, words, today, talk)
            or labelled(text, words, today, talk, adding=False)
        )
        is not None
    ):
        return short
    if (done := told(text, words, today, talk)) is not None and not clause.question:
        return done
    if (state := stated(text, words, today, talk)) is not None and not clause.question:
        return state
    if (listed := asked_for(text, words, None, today, question=clause.question)) is not None:
        return listed
    planned = _PLANNED.at(keys)
    if planned is not None and acts_at_once(words[planned[0] :]):
        words = words[planned[0] : len(words) - (keys[-1] == "instead")]
    if not clause.question and acts_at_once(words) and len(keys) < 40:
        result = added(text, words, today, talk)
        return (
            [result]
            if isinstance(result, Missing)
            else [msgspec.structs.replace(wish, bare=True) for wish in result]
        )
    return None
