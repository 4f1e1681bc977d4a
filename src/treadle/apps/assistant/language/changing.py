"""Changes of tasks: the meanings of the patterns of grammar.py, and answers to questions.

Entry points: `commanded`, `stated`, `changing`, `answered`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treadle.apps.assistant.language.adding import added, fields_alone, values_in
from treadle.apps.assistant.language.conversation import NO_REOPENING, Dialogue
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
from treadle.apps.assistant.language.verbs import ACTIONS, bare_of, head_at
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Doing,
    Fields,
    Filter,
    Missing,
    Named,
    PlainCall,
    TaskChange,
    Wishes,
)
from treadle.apps.assistant.language.wording import Phrases, Words, keys_of, phrase, without_end
from treadle.apps.assistant.matching import meant
from treadle.apps.assistant.stems import stem

_NO_TASKS = Phrases.plain(
    "what|which|how|who|whos|there|i|im|we|you|he|she|they|why|when|where|if|nothing|to|that|not|once"
)
"""Words with which no statement about a task begins."""
_ADVERBS = Phrases.plain(
    "already|finally|yay|yeah|woohoo|hooray|phew|now|today|yesterday|too|also|successfully|btw|lol|haha|tonight|earlier|again|all|up|off / "
    "this|last morning|night|evening|afternoon|week"
)
_CLEARED = {"due": None, "description": "", "priority": "Medium", "title": None}
_ENDING = Phrases.plain("instead|please|rather")
_BASES = {stem(verb): verb for verb in sorted(ACTIONS)}
_STATEMENT_MOST = 40


def commanded(words: Words, talk: Dialogue, rows: Sequence[Row] = COMMANDS) -> Wishes | None:
    """Parse a command to change tasks: "mark X as done", "move X to friday", "delete X"."""
    found = (_meant(act, bound, words, talk) for act, bound in readings(rows, words, talk))
    return next((wishes for wishes in found if wishes is not None), None)


def stated(words: Words, talk: Dialogue) -> Wishes | None:
    """Parse a statement about tasks: "milk is done", "the essay is due friday", "I paid the rent"."""
    if len(words) > _STATEMENT_MOST:
        return None
    read = None if _NO_TASKS.at(keys_of(words[:1])) else commanded(words, talk, STATEMENTS)
    return read or commanded(without_end(words, _ADVERBS), talk, REPORTS)


def _meant(act: str, bound: Bound, words: Words, talk: Dialogue) -> Wishes | None:
    target, text = bound.get("X", ()), without_end(bound.get("T", ()), _ENDING)
    field = field_of(bound["F"]) if "F" in bound else ""
    fields: Fields = {}
    match act:
        case "reopen":
            return [NO_REOPENING]
        case "complete" | "delete":
            target = target or bound["Y"]
            if keys_of(target) == ["all"] and words[0].key == "all":
                return None
            bulk = act == "delete" and _are_completed(target, talk)
            return [PlainCall("delete_completed")] if bulk else changing(act, target, talk, {})
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
    doing: Doing, words: Words, talk: Dialogue, fields: Fields, *, unsure: bool = False
) -> Wishes:
    """Return the change of the tasks that the words refer to, or the question which they are."""
    targets = target_of(words, talk) if words else TASK
    if isinstance(targets, Missing):
        which = {"complete": "you have completed", "delete": "to delete", "update": "to change"}
        what = f"which task {which[doing]}" if targets.what == TASK.what else targets.what
        return [Missing(what, "task", TaskChange(doing, Named(""), fields))]
    if doing == "complete" and isinstance(wanted := targets[0], Filter):
        if wanted.status == "completed" or wanted in (Filter(), Filter("open")):
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
        name = "due date" if field == "due" else field
        return Missing(f"the new {name}", "value", change, field)
    return Missing("what to change about it", "any", change)


def _are_completed(words: Words, talk: Dialogue) -> bool:
    """Return True if all completed tasks are meant, without a narrower filter."""
    wanted, rest = filter_of(words, talk.today)
    one = not {"task", "item", "one"}.isdisjoint(keys_of(words))
    return not one and wanted == Filter("completed") and not rest


def _done(bound: Bound, words: Words, talk: Dialogue, *, unsure: bool) -> Wishes | None:
    """Return the completion of the existing tasks that ask for the reported action."""
    about = without_end(bound["X"], _ADVERBS)
    if _NO_TASKS.at(keys_of(about)) or (len(words) > 5 and "D" in bound):
        return None
    past = next(bound[slot] for slot in "ABCD" if slot in bound)[0].key
    verb = _BASES.get(stem(past), past)
    spoken_of = {talk.last, *talk.recent, *talk.listed, *talk.options}
    found = changing("complete", about, talk, {})
    done: Wishes = []
    for wish in found:
        if isinstance(wish, TaskChange) and isinstance(named := wish.target, Named):
            verbal = TaskChange("complete", Named(named.words, named.parts, verb), {}, unsure)
            done.append(wish if named.words in spoken_of else verbal)
    if not done and verb != "do":
        return [TaskChange("complete", Named(phrase(about), (), verb), {}, unsure)]
    return done or found


# ---------------------------------------------------------------- answers

_ALL = ("all", "both", "all of them", "both of them", "every one", "everything")


def answered(words: Words, talk: Dialogue, before: Wishes, anew: Wishes) -> Wishes:
    """Return the earlier wishes with their gap filled; empty if the message does not answer it.

    `anew`: the message's wishes without the question. One that changes tasks is no answer.
    """
    rest = bare_of(words)
    if not before or not rest:
        return []
    if talk.asked == "which":
        return _aimed(before, _chosen(rest, talk), talk.about)
    gap = next((wish for wish in before if isinstance(wish, Missing)), None)
    if gap is None or gap.wish is None:
        return []
    if gap.wants == "task" and any(isinstance(wish, (TaskChange, PlainCall)) for wish in anew):
        return []
    match gap.wish:
        case AddTask(fields=fields):
            filled = _filled_title(rest, talk, anew, fields)
        case change:
            filled = _filled(rest, talk, gap, change)
    return [part for wish in before for part in (filled if wish is gap else [wish]) if filled]


def _chosen(words: Words, talk: Dialogue) -> list[Named]:
    keys, text = keys_of(words), phrase(words)
    if " ".join(keys) in _ALL:
        return [Named(title) for title in talk.options]
    found = [talk.options[at] for at in meant(text, talk.options)]
    if head_at(keys, 0) is not None:
        return [Named(title) for title in found if title.casefold() == text.casefold()]
    targets = target_of(words, talk)
    named = [] if isinstance(targets, Missing) else targets
    chosen = [it for it in named if isinstance(it, Named) and it.words in talk.options]
    return chosen or [Named(title) for title in found if len(found) == 1]


def _aimed(before: Wishes, chosen: Sequence[Named], about: str) -> Wishes:
    """Return the change in question of the chosen tasks. Other wishes were carried out before."""
    changes = [wish for wish in before if isinstance(wish, TaskChange)]
    for wish in changes:
        names = (wish.target.words, *wish.target.parts) if isinstance(wish.target, Named) else ()
        if about.casefold() in map(str.casefold, names):
            return [msgspec.structs.replace(wish, target=target) for target in chosen]
    return []


def _filled(words: Words, talk: Dialogue, gap: Missing, change: TaskChange) -> Wishes:
    head = head_at(keys_of(words), 0)
    if head is not None and head.sure:
        return []
    if gap.wants == "task":
        targets = target_of(words, talk)
        if isinstance(targets, Missing) or targets[0] == Filter():
            return []
        return [TaskChange(change.doing, it, change.fields, answers=True) for it in targets]
    given = values_in(words, talk.today) or {"title": phrase(words)}
    value = given.get(gap.field)
    return [] if value is None else [TaskChange("update", change.target, {gap.field: value})]


def _filled_title(words: Words, talk: Dialogue, anew: Wishes, earlier: Fields) -> Wishes:
    """Take the message as the title, unless it is a command that names a task on the list."""
    found = added(words, talk.today, earlier)
    tasks = [task for task in found if isinstance(task, AddTask)]
    head = head_at(keys_of(words), 0)
    if head is None or not tasks:
        return [*tasks]
    if head.kind not in ("complete", "delete", "update"):
        return [] if head.sure else [*tasks]
    match anew:
        case [PlainCall()]:  # "clear completed" is always a command, never a title
            return []
        case [TaskChange(target=Named()) as change]:
            return [msgspec.structs.replace(change, otherwise=tasks[0])]
        case _:
            is_whole = bool(anew) and not any(isinstance(wish, Missing) for wish in anew)
            return [] if head.sure and is_whole else [*tasks]
