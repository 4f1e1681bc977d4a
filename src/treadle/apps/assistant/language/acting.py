"""Conversion of wishes to calls of the task tools, directly or after a lookup of the list.

A lookup is needed for "all tasks due today" and for "milk and bread", which may be one title or two
tasks. Entry points: `looks`, `calls_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import TypeAlias

import msgspec

from treadle.apps.assistant.language.understanding import CALLS_MOST
from treadle.apps.assistant.language.verbs import ACTIONS
from treadle.apps.assistant.language.wishes import (
    AddTask,
    Every,
    Filter,
    Named,
    PlainCall,
    Show,
    TaskChange,
    Understood,
    Wish,
)
from treadle.apps.assistant.language.wording import known
from treadle.apps.assistant.matching import folded, meant
from treadle.apps.assistant.stems import stem

_ALIKE = [
    frozenset(map(stem, words.split()))
    for words in (
        "buy get grab order purchase pick fetch collect bring",
        "call phone ring dial",
        "email mail write message text send contact",
        "do finish complete make handle sort",
        "clean wash tidy wipe mop hoover vacuum sweep scrub dust",
        "repair fix mend",
        "see meet visit",
        "hand submit send deliver",
    )
]
"""Groups of verbs that mean the same action on an object."""
_ANY = frozenset(map(stem, known("do finish complete handle sort deal take go manage settle")))
"""Verbs that only mean that something is done."""
_LOOKED_UP = 5
"""Maximum number of new tasks for which a lookup checks for existing ones. A lookup counts towards
the limit on calls.
"""


class PlannedCall(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, str | None]


class KnownTask(msgspec.Struct, frozen=True):
    """Task found by a lookup."""

    id: str
    title: str
    completed: bool = False
    due: str | None = None


Seen: TypeAlias = Mapping[Filter, Sequence[KnownTask]]


class TooManyTasks(Exception):
    """Raised if a message would change too many tasks."""

    def __init__(self, count: int) -> None:
        super().__init__(str(count))
        self.count = count


def _all(seen: Seen) -> Sequence[KnownTask]:
    return seen.get(Filter("all"), ())


def _fitting(named: Named, tasks: Sequence[KnownTask]) -> list[KnownTask]:
    """Return the tasks that match best, including ties."""
    titles = [task.title for task in tasks]
    found = meant(f"{named.verb} {named.words}".strip(), titles)
    if not found and named.verb:
        about = {stem(word) for word in folded(named.words)}
        likely = meant(named.words, titles)
        found = [at for at in likely if _of_verb(named.verb, titles[at], about)]
    return [tasks[at] for at in found]


def _of_verb(verb: str, title: str, about: set[str]) -> bool:
    """Return True if the title names the action that was done to the object."""
    done = stem(folded(verb)[0])
    first = next(iter(folded(title)), "")
    if stem(first) in about or first not in ACTIONS or done in _ANY:
        return True
    return any(done in alike and stem(first) in alike for alike in _ALIKE)


def looks(understood: Understood) -> tuple[Filter, ...]:
    """Return the lookups needed before the wishes can become calls, without duplicates."""
    few = len(understood.wishes) <= _LOOKED_UP
    found: dict[Filter, None] = {}
    for wish in understood.wishes:
        match wish:
            case TaskChange(target=Every(filter=wanted)):
                found[wanted] = None
            case TaskChange(target=Named(parts=parts, verb=verb)):
                conditional = wish.unsure or wish.later or wish.answers or wish.otherwise
                if parts or verb or conditional:
                    found[Filter("all")] = None
            case AddTask(bare=True) if few:
                found[Filter("all")] = None
            case _:
                pass
    return tuple(found)


def listing(wanted: Filter) -> PlannedCall:
    given = {"status": wanted.status, "priority": wanted.priority, "search": wanted.search}
    kept: dict[str, str | None] = {
        k: v for k, v in given.items() if v is not None and (k, v) != ("status", "all")
    }
    return PlannedCall("list_tasks", kept)


def calls_of(understood: Understood, seen: Seen) -> list[PlannedCall]:
    """Return the calls in the order of the wishes, at most ten including the lookups.

    Raises TooManyTasks, because a wish is never carried out in part.
    """
    calls = [call for wish in understood.wishes for call in _calls(wish, seen)]
    most = CALLS_MOST - len(seen)
    if len(calls) > most and seen:
        raise TooManyTasks(len(calls))
    return calls[:most]


def _calls(wish: Wish, seen: Seen) -> Iterator[PlannedCall]:
    match wish:
        case AddTask():
            yield _added(wish, seen)
        case Show(wanted):
            yield listing(wanted)
        case PlainCall(tool):
            yield PlannedCall(tool, {})
        case TaskChange(target=Named() as named, otherwise=AddTask() as new) if not _fitting(
            named, _all(seen)
        ):
            yield _added(new, seen)
        case TaskChange(doing, target, fields, later):
            for task in _meant(target, seen, wish):
                due = _put_off(task, later, seen) if later else {}
                yield PlannedCall(f"{doing}_task", {"task": task, **dict(fields), **due})
        case _:
            return


def _added(wish: AddTask, seen: Seen) -> PlannedCall:
    """Return the call that adds a new task, or that updates the existing one with exactly this
    title.
    """
    given = {"description": wish.description, "priority": wish.priority, "due": wish.due}
    fields = {name: value for name, value in given.items() if value is not None}
    title = folded(wish.title)
    same = [it for it in _all(seen) if not it.completed and folded(it.title) == title]
    if wish.bare and len(same) == 1:
        fields = fields or {"title": same[0].title}
        return PlannedCall("update_task", {"task": same[0].id, **fields})
    return PlannedCall("add_task", {"title": wish.title, **fields})


def _meant(target: Named | Every, seen: Seen, wish: TaskChange) -> list[str]:
    """Return the ids or names of the tasks. An answer that names several counts only if each part
    names a task.
    """
    if isinstance(target, Every):
        return [task.id for task in seen.get(target.filter, ())]
    tasks, words = _all(seen), {*folded(target.words)}
    titles = [task.title for task in tasks]
    is_one = not target.parts or any(words <= {*folded(title)} for title in titles)
    if wish.answers and not is_one and not all(meant(part, titles) for part in target.parts):
        return []
    if not is_one:
        parts = [msgspec.structs.replace(target, words=part, parts=()) for part in target.parts]
        return [name for part in parts for name in _meant(part, seen, wish)]
    if not target.verb and not wish.unsure:
        return [target.words]
    found = _fitting(target, tasks)
    found = [task for task in found if not task.completed] or found
    if len(found) == 1:
        return [found[0].id]
    whole = f"{target.verb} {target.words}".strip()
    return [target.words if found else whole] if found or not wish.unsure else []


def _put_off(task: str, later: int, seen: Seen) -> dict[str, str]:
    """Return the due date postponed by `later` days; empty for a task that has none or is
    ambiguous.
    """
    found = [one for one in _all(seen) if one.id == task] or _fitting(Named(task), _all(seen))
    due = found[0].due if len(found) == 1 else None
    if due is None:
        return {}
    return {"due": (date.fromisoformat(due) + timedelta(days=later)).isoformat()}
