"""Parsing of a message into wishes: its commands in sequence, references such as "it" or "the
second one", and answers to an earlier question.

Nothing destructive is guessed: an unclear message leads to a question, and none of it is carried
out. Entry point: `understood`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from treadle.apps.assistant.language.adding import DASHES, TITLE, added, fields_alone, is_empty
from treadle.apps.assistant.language.changing import answered, changing, commanded, stated
from treadle.apps.assistant.language.conversation import (
    HELP,
    NO_REMINDERS,
    NO_REPEATING,
    NOTHING_CHANGED,
    Dialogue,
    Speech,
    said_alone,
)
from treadle.apps.assistant.language.dates import day_at
from treadle.apps.assistant.language.targets import asked_for
from treadle.apps.assistant.language.verbs import ACTIONS, VerbPhrase, bare_of, clauses_of, head_at
from treadle.apps.assistant.language.wishes import (
    CALLS_MOST,
    AddTask,
    Missing,
    Named,
    PlainCall,
    Say,
    TaskChange,
    Wish,
    Wishes,
)
from treadle.apps.assistant.language.wording import Keys, Words, keys_of, known, words_of
from treadle.apps.assistant.unsupported import is_repetition, wants_reminder, wants_repetition

NOTHING_MEANT = Missing("what you would like to do", "any")
_LABELS = known(
    "another one more thing things task tasks todo todos to-do new next reminder reminders also item items memo self idea my quick add plus "
    "please to first second third finally lastly and do the a shopping errand errands chore chores homework work list groceries grocery"
)
_NEGATIONS = known("dont not never didnt havent hasnt wont cannot cant shouldnt")
_DENIERS = known("i we please you do does did ive have")
_PUTTING = known("put stick throw pop get chuck shove slap bung place include")
_ONTO = known("list todo todos tasks lists")
_TITLE_WORDS = 40
CHARS_MOST = 10_000
ASKED_CHARS = 1000
"""Maximum length of a message that an answer can complete."""


def understood(text: str, today: date, *, said: Sequence[Speech] = ()) -> tuple[Wish, ...]:
    """Parse all wishes of the message, in the context of the conversation: actions, or one reply.

    Returns at most ten wishes, and reads only the first 10,000 characters.
    """
    text = text[:CHARS_MOST]
    talk = Dialogue.of(said, today)
    words = words_of(text)
    if not words:
        return (HELP,) if "?" in text else _asking([NOTHING_MEANT])
    if (small := said_alone(keys_of(words))) is not None:
        return (small,)
    if talk.asked and talk.before and len(talk.before) <= ASKED_CHARS:
        before = _wishes(words_of(talk.before), Dialogue.of(talk.earlier, today))
        anew = _wishes(words, Dialogue.of(said, today))
        if answer := answered(words, talk, before, anew):
            return _asking(answer)
    found = _wishes(words, talk)
    if wants_repetition(text) and any(map(_needs_repetition, found)):
        return (NO_REPEATING,)
    return _asking(found, wants_reminder=wants_reminder(text))


def _needs_repetition(wish: Wish | Missing) -> bool:
    """Return True if nothing else of the wish was understood, or a title would be "repeat"."""
    if isinstance(wish, Missing):
        return wish.wants in ("any", "value")
    return isinstance(wish, TaskChange) and is_repetition(wish.fields.get("title") or "")


def _asking(found: Sequence[Wish | Missing], *, wants_reminder: bool = False) -> tuple[Wish, ...]:
    """Return the wishes, or the question about the first incomplete one."""
    missing = next((wish for wish in found if isinstance(wish, Missing)), None)
    if missing is not None:
        declined = f" {NO_REMINDERS}" if wants_reminder and missing.what == TITLE.what else ""
        return (Say(f"Could you provide more details about {missing.what}?{declined}"),)
    wishes = [wish for wish in found if not isinstance(wish, Missing)]
    acts = [wish for wish in wishes if not isinstance(wish, Say)]
    return tuple((acts or wishes[:1])[:CALLS_MOST])


def _wishes(words: Words, talk: Dialogue) -> Wishes:
    found: Wishes = []
    unread = False
    for clause in clauses_of(words):
        read = _wishes_in(clause, talk)
        unread |= read is None
        for wish in read or ():
            _join(found, wish)
            if isinstance(wish, AddTask):
                talk.last, talk.fresh, talk.did = wish.title, "task", True
            elif isinstance(wish, TaskChange) and isinstance(wish.target, Named):
                talk.last = wish.fields.get("title") or wish.target.words
                talk.fresh, talk.did = "task", True
        if len(found) > CALLS_MOST:
            break
    acts = any(not isinstance(wish, Say) for wish in found)
    return found if acts or (found and (not unread or len(words) < 12)) else [NOTHING_MEANT]


def _join(found: Wishes, wish: Wish | Missing) -> None:
    """Append a wish, merge it into the addition of the same task, or drop it as a repetition."""
    match found[-1:], wish:
        case [AddTask(title=title) as new], TaskChange("update", Named(words)) if words == title:
            found[-1] = AddTask(title, new.fields | wish.fields)
        case [TaskChange("complete", Named(old))], TaskChange("complete", Named(new)) if new == old:
            return
        case _:
            found.append(wish)


def _wishes_in(words: Words, talk: Dialogue) -> Wishes | None:
    """Return the wishes of a clause; None if it is not understood."""
    question = words[-1].stop == "?"
    keys = keys_of(words)
    if (small := said_alone(keys)) is not None:
        return [small]
    if not (words := bare_of(words)):
        return []
    if not question and (new := _labelled(words, talk)) is not None:
        return new
    keys = keys_of(words)
    head = head_at(keys, 0)
    if _negated(keys, head):
        return [NOTHING_CHANGED]
    if head is not None:
        named = [words[0]._replace(key=head.first), *words[1:]]
        if (read := _commanded(named, head, talk, question=question)) is not None:
            return read
    return _uncommanded(words, talk, question=question)


def _labelled(words: Words, talk: Dialogue) -> Wishes | None:
    """Parse a new task after a label or a day: "urgent: call Bob", "tomorrow I need to call mum"."""
    keys = keys_of(words[:16])
    ends = range(1, min(len(words), 9))
    end = next((i for i in ends if words[i - 1].stop == ":" or keys[i] in DASHES), 0)
    fields = fields_alone(words[:end], talk.today)
    if fields or (end and words[end - 1].stop == ":" and all(it in _LABELS for it in keys[:end])):
        return [*added(words[end + (keys[end] in DASHES) :], talk.today, fields)]
    skipped = int(keys[0] in ("on", "by", "for", "before", "due"))
    day = day_at(keys, skipped, talk.today) if head_at(keys, 0) is None else None
    if day is None or len(words) <= skipped + day[0]:
        return None
    due = day[1].isoformat()
    read = _wishes_in(words[skipped + day[0] :], talk) or []
    new = [wish for wish in read if isinstance(wish, AddTask)]
    if not new or len(new) < len(read):
        return None
    return [AddTask(wish.title, {"due": due, **wish.fields}, wish.bare) for wish in new]


def _negated(keys: Keys, head: VerbPhrase | None) -> bool:
    if head is not None and head.kind in ("add", "remind"):
        return False
    if head is not None and head.kind == "delete" and keys[0] in ("i", "we"):
        to = keys[head.words : head.words + 1] == ["to"]  # "I don't want to delete it"
        return to and head_at(keys, head.words + 1) is not None
    places = (i for i, key in enumerate(keys[:4]) if key in _NEGATIONS)
    no = 0 if keys[0] == "no" and len(keys) > 1 else next(places, None)
    if no is None:
        return False
    denied = no == 0 or any(key in _DENIERS for key in keys[:no])
    return denied or (head_at(keys, no + 1) is not None and no < 3)


def _commanded(words: Words, head: VerbPhrase, talk: Dialogue, *, question: bool) -> Wishes | None:
    rest, today = words[head.words :], talk.today
    if head.first in ("did", "done") and keys_of(rest[:1]) in (["i"], ["we"], ["you"]):
        return asked_for(words, head, today, question=True)
    match head.kind:
        case "add" | "remind":
            return _add(words, rest, head, talk)
        case "show":
            return asked_for(words, head, today, question=question)
        case "undo":
            return [PlainCall("undo")]
        case "complete" if not rest and talk.fresh == "task" and talk.last:
            return [TaskChange("complete", Named(talk.last))]
        case "complete" | "delete" | "update" if not rest:
            return changing(head.kind, (), talk, {})
        case _:
            return commanded(words, talk)


def _add(words: Words, rest: Words, head: VerbPhrase, talk: Dialogue) -> Wishes | None:
    if head.first in _PUTTING and head.words == 1 and _ONTO.isdisjoint(keys_of(rest[-3:])):
        return commanded(words, talk)
    if head.first == "add" and (noted := commanded(words, talk)) is not None:
        return noted
    if head.kind == "add" and head.words > 1 and head.first not in ("note", "jot", "write"):
        rest = words[1:]  # "a new task" is part of the title's introduction
    return [*added(rest, talk.today)]


def _uncommanded(words: Words, talk: Dialogue, *, question: bool) -> Wishes | None:
    keys, today = keys_of(words), talk.today
    fields = fields_alone(words, today)
    if not question and fields and talk.fresh == "task" and talk.last and talk.did:
        return [TaskChange("update", Named(talk.last), fields)]
    read = None if question else commanded(words, talk) or stated(words, talk)
    if (read := read or asked_for(words, None, today, question=question)) is not None:
        return read
    acts = keys[0] in ACTIONS and "should" not in keys and not is_empty(words[1:])
    if question or not acts or len(keys) >= _TITLE_WORDS:
        return None
    return [*added(words, today, bare=True)]
