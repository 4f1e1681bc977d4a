"""Changes of tasks: the meanings of the patterns of grammar.py.

Entry points: `commanded`, `stated`, `changing`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import days_at, looks_like_a_day
from treadle.apps.assistant.language.fields import fields_alone, values_in
from treadle.apps.assistant.language.grammar import (
    COMMANDS,
    REPORTS,
    STATEMENTS,
    Bound,
    Row,
    field_of,
    readings,
    value_of,
)
from treadle.apps.assistant.language.listing import filter_of
from treadle.apps.assistant.language.targets import TASK, target_of
from treadle.apps.assistant.language.verbs import base_of
from treadle.apps.assistant.language.wishes import (
    Doing,
    Every,
    Fields,
    Filter,
    Missing,
    Named,
    PlainCall,
    TaskChange,
    Wishes,
)
from treadle.apps.assistant.language.wording import (
    Phrases,
    Token,
    Words,
    keys_of,
    known,
    phrase,
)

_VALUES = {
    "due": "the new due date",
    "priority": "the new priority",
    "title": "the new title",
    "description": "the new description",
}
_NO_TASKS = known(
    "what which how who whos there i im we you he she they why when where if nothing to that if not "
    "im once"
)
"""Words with which no statement about a task begins."""
_ADVERBS = Phrases.plain(
    "already|finally|yay|yeah|woohoo|hooray|phew|now|today|yesterday|too|also|successfully|btw|lol|haha|tonight|earlier|again|all|up|off / "
    "this|last morning|night|evening|afternoon|week"
)
_CLEARED = {"due": None, "description": "", "priority": "Medium", "title": None}
_STATEMENT_MOST = 40
REOPEN = Missing("", "any")
"""Request that no tool supports; the answer is text."""


def _read(rows: Sequence[Row], words: Words, talk: Dialogue) -> Wishes | None:
    found = (_meant(act, bound, words, talk) for act, bound in readings(rows, words, talk))
    return next((wishes for wishes in found if wishes is not None), None)


def commanded(words: Words, talk: Dialogue) -> Wishes | None:
    """Parse a command to change tasks: "mark X as done", "move X to friday", "delete X"."""
    return _read(COMMANDS, words, talk)


def stated(words: Words, talk: Dialogue) -> Wishes | None:
    """Parse a statement about tasks: "milk is done", "the essay is due friday", "I paid the rent"."""
    if len(words) > _STATEMENT_MOST:
        return None
    told = words[1:] if words[0].key in ("thats", "so") and len(words) > 2 else words
    if told[0].key not in _NO_TASKS and (found := _read(STATEMENTS, told, talk)) is not None:
        return found
    return _read(REPORTS, _without_adverbs(words), talk)


def _without_adverbs(words: Words) -> list[Token]:
    kept = list(words)
    while (found := _ADVERBS.ending(keys_of(kept[-6:]))) is not None and found[0] < len(kept):
        del kept[-found[0] :]
    return kept


def _meant(act: str, bound: Bound, words: Words, talk: Dialogue) -> Wishes | None:
    target, text = bound.get("X", ()), bound.get("T", ())
    fields: Fields = ()
    if act == "reopen":
        return [REOPEN]
    match act:
        case "complete" | "delete":
            target = target or bound["Y"]
            if keys_of(target) == ["all"] and words[0].key == "all":
                return None
            bulk = act == "delete" and _are_completed(target, talk)
            return [PlainCall("delete_completed")] if bulk else changing(act, target, talk)
        case "did" | "maybe":
            return _done(bound, words, talk, unsure=act == "maybe")
        case "later" | "sooner":
            days = (days_at(keys_of(bound["S"]), 0) or (0, 0))[1]
            return _changed(target, talk, later=-days if act == "sooner" else days)
        case "values" | "state":
            return _stated(act, bound, target, talk)
        case "title" | "rename":
            return _titled(target, text, talk, unsure=act == "rename")
        case "description":
            fields = (("description", phrase(text)),)
        case "note" | "retitle":
            if not talk.last or (act == "retitle" and not talk.did):
                return None
            field = "title" if act == "retitle" else "description"
            return [TaskChange("update", Named(talk.last), ((field, phrase(_ended(text))),))]
        case "clear":
            field = field_of(bound["F"])
            fields = ((field, _CLEARED[field]),)
        case "field":
            field = field_of(bound["F"])
            fields = ((field, value_of(bound.get("Z") or bound["Q"], field, talk)),)
        case "high" | "low":
            fields = (("priority", act.title()),)
        case _:
            field = act.partition("-")[2] or (field_of(bound["F"]) if "F" in bound else "")
            return [_gap(target, field, talk)]
    return changing("update", target, talk, fields)


def _stated(act: str, bound: Bound, target: Words, talk: Dialogue) -> Wishes | None:
    given = bound.get("V") or bound["W"]
    every = isinstance(target_of(target, talk), Every)
    if act == "state" and every and given[0].key not in ("should", "must", "needs"):
        return None
    unsure = any(word.stop == ":" for word in target)
    return _changed(target, talk, values_in(given, talk.today), unsure=unsure)


def changing(doing: Doing, words: Words, talk: Dialogue, fields: Fields = ()) -> Wishes:
    """Return the change of the tasks that the words refer to, or the question which they are."""
    target = target_of(words, talk) if words else TASK
    if isinstance(target, Missing):
        which = {
            "complete": "which task you have completed",
            "delete": "which task to delete",
            "update": "which task to change",
        }[doing]
        what = which if target.what == TASK.what else target.what
        return [Missing(what, "task", doing=doing, fields=fields)]
    if doing == "complete" and isinstance(target, Every):
        wanted = target.filter
        if wanted.status == "completed" or wanted in (Filter(), Filter("all"), Filter("open")):
            return [PlainCall("complete_all")]
        target = Every(Filter("open", wanted.priority, wanted.search))
    targets = target if isinstance(target, tuple) else (target,)
    return [TaskChange(doing, one, fields) for one in targets]


def _changed(
    words: Words, talk: Dialogue, fields: Fields = (), *, later: int = 0, unsure: bool = False
) -> Wishes:
    return [
        msgspec.structs.replace(one, later=later, unsure=unsure)
        if isinstance(one, TaskChange)
        else one
        for one in changing("update", words, talk, fields)
    ]


def _titled(target: Words, text: Words, talk: Dialogue, *, unsure: bool) -> Wishes | None:
    kept = _ended(text)
    fields: Fields = (("title", phrase(kept)),)
    if not unsure and fields_alone(kept, talk.today):
        return None
    if unsure and fields_alone(kept, talk.today):
        return _changed(target, talk, fields_alone(kept, talk.today), unsure=True)
    if looks_like_a_day(*keys_of(kept[:2])):
        return [_gap(target, "due", talk)]
    return _changed(target, talk, fields, unsure=unsure)


def _ended(words: Words) -> Words:
    return (
        words[:-1] if len(words) > 1 and words[-1].key in ("instead", "please", "rather") else words
    )


def _gap(words: Words, field: str, talk: Dialogue) -> Missing:
    """Return the question for the missing value."""
    meant = target_of(words, talk) if words else TASK
    if isinstance(meant, Named | Every) and field:
        return Missing(_VALUES[field], "value", doing="update", target=meant, field=field)
    if isinstance(meant, Named):
        return Missing("what to change about it", "any", doing="update", target=meant)
    return Missing("which task to change, and how", "any")


def _are_completed(words: Words, talk: Dialogue) -> bool:
    """Return True if all completed tasks are meant, without a narrower filter."""
    one = any(
        word.quoted or word.key in ("task", "item", "one", "except", "but", "not") for word in words
    )
    found = filter_of(words, talk.today)
    rest = found.rest.casefold() in ("", "out", "up", "off", "away", "all")
    return not one and rest and found.filter == Filter("completed")


def _done(bound: Bound, words: Words, talk: Dialogue, *, unsure: bool) -> Wishes | None:
    """Return the completion of the existing tasks that ask for the reported action."""
    about = _without_adverbs(bound["X"])
    if about[0].key in _NO_TASKS or (len(words) > 5 and "D" in bound):
        return None
    verb = base_of(next(bound[slot] for slot in "ABCD" if slot in bound)[0].key)
    spoken_of = {talk.last, *talk.recent, *talk.listed, *talk.options}
    done = [
        wish
        for wish in changing("complete", about, talk)
        if isinstance(wish, TaskChange) and isinstance(wish.target, Named)
    ]
    if not done:
        named = Named(phrase(about), verb=verb)
        return (
            [TaskChange("complete", named, unsure=unsure)]
            if verb != "do"
            else changing("complete", about, talk)
        )
    return [
        wish
        if isinstance(wish.target, Named) and wish.target.words in spoken_of
        else TaskChange("complete", msgspec.structs.replace(wish.target, verb=verb), unsure=unsure)
        for wish in done
    ]
