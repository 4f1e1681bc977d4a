"""Changes of tasks: the meanings of the patterns of grammar.py, and answers to the question of the
previous reply.

Entry points: `commanded`, `stated`, `changing`, `answered`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from treadle.apps.assistant.language.adding import added, fields_alone, level_of, values_in
from treadle.apps.assistant.language.conversation import Dialogue
from treadle.apps.assistant.language.dates import day_at
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
from treadle.apps.assistant.language.targets import TASK, filter_of, target_of
from treadle.apps.assistant.language.verbs import ACTIONS, closed, head_at, opened
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Doing,
    Fields,
    Filter,
    Missing,
    Named,
    PlainCall,
    TaskChange,
    Wish,
    Wishes,
)
from treadle.apps.assistant.language.wording import (
    Phrases,
    Words,
    key_of,
    keys_of,
    known,
    phrase,
    without_end,
    without_start,
)
from treadle.apps.assistant.matching import folded
from treadle.apps.assistant.stems import stem

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
_WHICH = {
    "complete": "which task you have completed",
    "delete": "which task to delete",
    "update": "which task to change",
}
_ENDING = Phrases.plain("instead|please|rather")
_REMAINING = ("", "out", "up", "off", "away", "all")
_BASES = {stem(verb): verb for verb in sorted(ACTIONS)}
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
    if words[0].key not in _NO_TASKS and (found := _read(STATEMENTS, words, talk)) is not None:
        return found
    return _read(REPORTS, without_end(words, _ADVERBS), talk)


def _meant(act: str, bound: Bound, words: Words, talk: Dialogue) -> Wishes | None:
    target, text = bound.get("X", ()), without_end(bound.get("T", ()), _ENDING)
    field = field_of(bound["F"]) if "F" in bound else ""
    fields: Fields = {}
    match act:
        case "reopen":
            return [REOPEN]
        case "complete" | "delete":
            target = target or bound["Y"]
            if keys_of(target) == ["all"] and words[0].key == "all":
                return None
            bulk = act == "delete" and _are_completed(target, talk)
            return [PlainCall("delete_completed")] if bulk else changing(act, target, talk)
        case "did" | "maybe":
            return _done(bound, words, talk, unsure=act == "maybe")
        case "values" | "state":
            given = bound.get("V") or bound["W"]
            meant = target_of(target, talk)
            every = isinstance(meant, list) and isinstance(meant[0], Filter)
            if act == "state" and every and given[0].key not in ("should", "must", "needs"):
                return None
            unsure = any(word.stop == ":" for word in target)
            return changing("update", target, talk, values_in(given, talk.today), unsure=unsure)
        case "title" | "rename":
            values = fields_alone(text, talk.today)
            if values and act == "title":
                return None
            fields = values or {"title": phrase(text)}
            return changing("update", target, talk, fields, unsure=act == "rename")
        case "note" | "retitle":
            if not talk.last or not (talk.did if act == "retitle" else field == "description"):
                return None
            name = "title" if act == "retitle" else field
            return [TaskChange("update", Named(talk.last), {name: phrase(text)})]
        case "description":
            fields = {"description": phrase(text)}
        case "field":
            cleared = "Z" not in bound
            fields = {field: _CLEARED[field] if cleared else value_of(bound["Z"], field, talk)}
        case "high" | "low":
            fields = {"priority": act.title()}
        case _:
            return [_gap(target, act.partition("-")[2] or field, talk)]
    return changing("update", target, talk, fields)


def changing(
    doing: Doing,
    words: Words,
    talk: Dialogue,
    fields: Fields | None = None,
    *,
    unsure: bool = False,
) -> Wishes:
    """Return the change of the tasks that the words refer to, or the question which they are."""
    fields = fields or {}
    targets = target_of(words, talk) if words else TASK
    if isinstance(targets, Missing):
        what = _WHICH[doing] if targets.what == TASK.what else targets.what
        return [Missing(what, "task", TaskChange(doing, Named(""), fields))]
    if doing == "complete" and isinstance(wanted := targets[0], Filter):
        if wanted.status == "completed" or wanted.empty or wanted == Filter("open"):
            return [PlainCall("complete_all")]
        targets = [Filter("open", wanted.priority, wanted.search)]
    return [TaskChange(doing, target, fields, unsure) for target in targets]


def _gap(words: Words, field: str, talk: Dialogue) -> Missing:
    """Return the question for the missing value."""
    meant = target_of(words, talk) if words else TASK
    if isinstance(meant, Missing) or len(meant) > 1:
        return Missing("which task to change, and how", "any")
    change = TaskChange("update", meant[0])
    if field:
        return Missing(_VALUES[field], "value", change, field)
    return Missing("what to change about it", "any", change)


def _are_completed(words: Words, talk: Dialogue) -> bool:
    """Return True if all completed tasks are meant, without a narrower filter."""
    wanted, rest = filter_of(words, talk.today)
    one = not {"task", "item", "one"}.isdisjoint(keys_of(words))
    return not one and wanted == Filter("completed") and rest.casefold() in _REMAINING


def _done(bound: Bound, words: Words, talk: Dialogue, *, unsure: bool) -> Wishes | None:
    """Return the completion of the existing tasks that ask for the reported action."""
    about = without_end(bound["X"], _ADVERBS)
    if about[0].key in _NO_TASKS or (len(words) > 5 and "D" in bound):
        return None
    past = next(bound[slot] for slot in "ABCD" if slot in bound)[0].key
    verb = _BASES.get(stem(past), past)
    spoken_of = {talk.last, *talk.recent, *talk.listed, *talk.options}
    found = changing("complete", about, talk)
    done: Wishes = []
    for wish in found:
        if isinstance(wish, TaskChange) and isinstance(named := wish.target, Named):
            verbal = TaskChange("complete", Named(named.words, named.parts, verb), {}, unsure)
            done.append(wish if named.words in spoken_of else verbal)
    if not done and verb != "do":
        return [TaskChange("complete", Named(phrase(about), (), verb), {}, unsure)]
    return done or found


# ---------------------------------------------------------------- answers

Answer: TypeAlias = tuple[Wish | Missing, ...]

_SMALL = known("the a an one task my i mean meant about with of for to it is please that")
_CHOOSING = Phrases.plain("the|i|mean|meant|want|its|option|choose|pick|take|id|say")
_BEFORE_VALUES = Phrases.plain("to|make|it|set|for|by|on|is|as|should|be|due")
_ALL = ("all", "both", "all of them", "both of them", "every one", "everything")
_CHOICE_WORDS = 30
"""Maximum words of a choice; longer text is a new message."""


def answered(words: Words, talk: Dialogue, before: Wishes, anew: Wishes) -> Answer | None:
    """Return the earlier wishes with their gap filled; None if the message does not answer it.

    `anew`: the message's wishes without the question. One that changes tasks is no answer.
    """
    start = opened(keys_of(words))
    rest = words[start : max(closed(keys_of(words)), start)]
    if not before or not rest:
        return None
    if talk.asked == "which":
        return _aimed(before, _chosen(rest, talk), talk.about)
    gap = next((wish for wish in before if isinstance(wish, Missing)), None)
    if gap is None or gap.wish is None:
        return None
    if gap.wants == "task" and any(isinstance(wish, (TaskChange, PlainCall)) for wish in anew):
        return None
    match gap.wish:
        case AddTask(fields=fields):
            filled = _filled_title(rest, talk, anew, fields)
        case change:
            filled = _filled(rest, talk, gap, change)
    if not filled:
        return None
    return tuple(part for wish in before for part in (filled if wish is gap else (wish,)))


def _chosen(words: Words, talk: Dialogue) -> tuple[Named, ...]:
    words = without_start(words, _CHOOSING)
    keys, text = keys_of(words), key_of(phrase(words))
    if " ".join(keys) in _ALL:
        return tuple(map(Named, talk.options))
    command = head_at(keys, 0) is not None
    wanted = {*folded(text)} - _SMALL
    same = [one for one in talk.options if key_of(one) == text]
    held = same or [one for one in talk.options if wanted and wanted <= {*folded(one)}]
    if len(held) == 1 and len(keys) <= _CHOICE_WORDS and (same or not command):
        return (Named(held[0]),)
    targets = Missing("") if command else target_of(words, talk)
    named = [] if isinstance(targets, Missing) else targets
    return tuple(it for it in named if isinstance(it, Named) and it.words in talk.options)


def _aimed(before: Wishes, chosen: Sequence[Named], about: str) -> Answer | None:
    """Return the change in question of the chosen tasks. Other wishes were carried out before."""
    for wish in before:
        named = wish.target if isinstance(wish, TaskChange) else None
        names = (named.words, *named.parts) if isinstance(named, Named) else ()
        if isinstance(wish, TaskChange) and key_of(about) in map(key_of, names) and chosen:
            return tuple(msgspec.structs.replace(wish, target=target) for target in chosen)
    return None


def _filled(words: Words, talk: Dialogue, gap: Missing, change: TaskChange) -> Answer | None:
    head = head_at(keys_of(words), 0)
    if head is not None and head.sure:
        return None
    if gap.wants == "task":
        targets = target_of(words, talk)
        if isinstance(targets, Missing) or (isinstance(targets[0], Filter) and targets[0].empty):
            return None
        return tuple(TaskChange(change.doing, it, change.fields, answers=True) for it in targets)
    words = without_start(words, _BEFORE_VALUES)
    keys, value = keys_of(words), level_of(keys_of(words))
    if gap.field == "due":
        day = day_at(keys, 0, talk.today)
        value = day[1].isoformat() if day is not None and day[0] >= len(keys) - 1 else None
    elif gap.field != "priority":
        value = phrase(words)
    return None if value is None else (TaskChange("update", change.target, {gap.field: value}),)


def _filled_title(words: Words, talk: Dialogue, anew: Wishes, earlier: Fields) -> Answer | None:
    """Take the message as the title, unless it is a command that names a task on the list."""
    head = head_at(keys_of(words), 0)
    is_change = head is not None and head.kind in ("complete", "delete", "update")
    is_sure = head is not None and head.sure
    # "clear completed" is always a command, never a title
    if is_change and len(anew) == 1 and isinstance(anew[0], PlainCall):
        return None
    result = added(words, talk.today)
    if isinstance(result, Missing) or (is_sure and not is_change):
        return None
    tasks = tuple(AddTask(task.title, earlier | task.fields) for task in result)
    change = anew[0] if len(anew) == 1 else None
    if is_change and isinstance(change, TaskChange) and isinstance(change.target, Named):
        return (msgspec.structs.replace(change, otherwise=tasks[0]),)
    is_whole = bool(anew) and not any(isinstance(wish, Missing) for wish in anew)
    return None if is_change and is_sure and is_whole else tasks
