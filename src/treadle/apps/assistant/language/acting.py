"""Conversion of wishes to calls of the task tools, directly or after a lookup of the list.

A lookup is needed for "all tasks due today" and for "milk and bread", which may be one title or two
tasks. Entry points: `looks`, `calls_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from treadle.apps.assistant.language.wishes import (
    CALLS_MOST,
    AddTask,
    Filter,
    Named,
    PlainCall,
    Show,
    Target,
    TaskChange,
    Wish,
)
from treadle.apps.assistant.matching import folded, meant

_ALL = Filter()
_LOOKED_UP = 5
"""Maximum number of new tasks for which a lookup, which is a call too, checks for existing ones."""


class PlannedCall(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, str | None]


class KnownTask(msgspec.Struct, frozen=True):
    """Task found by a lookup."""

    id: str
    title: str
    completed: bool = False


Seen: TypeAlias = Mapping[Filter, Sequence[KnownTask]]


class TooManyTasks(Exception):
    """Raised with their number if a message would change too many tasks."""


def _fitting(named: Named, tasks: Sequence[KnownTask]) -> list[KnownTask]:
    """Return the tasks that match best, including ties."""
    found = meant(f"{named.verb} {named.words}".strip(), [task.title for task in tasks])
    return [tasks[at] for at in found]


def looks(wishes: Sequence[Wish]) -> tuple[Filter, ...]:
    """Return the lookups needed before the wishes can become calls, without duplicates."""
    found: dict[Filter, None] = {}
    for wish in wishes:
        match wish:
            case TaskChange(target=Filter() as wanted):
                found[wanted] = None
            case TaskChange(target=Named(parts=parts, verb=verb)):
                if parts or verb or wish.unsure or wish.answers or wish.otherwise:
                    found[_ALL] = None
            case AddTask(bare=True) if len(wishes) <= _LOOKED_UP:
                found[_ALL] = None
            case _:
                pass
    return tuple(found)


def listing(wanted: Filter) -> PlannedCall:
    given = msgspec.structs.asdict(wanted).items()
    return PlannedCall("list_tasks", {name: value for name, value in given if value is not None})


def calls_of(wishes: Sequence[Wish], seen: Seen) -> list[PlannedCall]:
    """Return the calls in the order of the wishes. Raises TooManyTasks: none is done in part."""
    calls = [call for wish in wishes for call in _calls(wish, seen)]
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
            named, seen.get(_ALL, ())
        ):
            yield _added(new, seen)
        case TaskChange(doing, target, fields):
            for task in _meant(target, seen, wish):
                yield PlannedCall(f"{doing}_task", {"task": task, **fields})
        case _:
            return


def _added(wish: AddTask, seen: Seen) -> PlannedCall:
    """Return the call that adds a new task, or updates the existing one with exactly this title."""
    title = folded(wish.title)
    same = [it for it in seen.get(_ALL, ()) if not it.completed and folded(it.title) == title]
    if wish.bare and len(same) == 1:
        fields = wish.fields or {"title": same[0].title}
        return PlannedCall("update_task", {"task": same[0].id, **fields})
    return PlannedCall("add_task", {"title": wish.title, **wish.fields})


def _meant(target: Target, seen: Seen, wish: TaskChange) -> list[str]:
    """Return the ids or names. An answer with several counts only if each part names a task."""
    if isinstance(target, Filter):
        return [task.id for task in seen.get(target, ())]
    tasks, words = seen.get(_ALL, ()), {*folded(target.words)}
    titles = [task.title for task in tasks]
    is_one = not target.parts or any(words <= {*folded(title)} for title in titles)
    if wish.answers and not is_one and not all(meant(part, titles) for part in target.parts):
        return []
    if not is_one:
        parts = [Named(part, (), target.verb) for part in target.parts]
        return [name for part in parts for name in _meant(part, seen, wish)]
    if not target.verb and not wish.unsure:
        return [target.words]
    found = _fitting(target, tasks)
    found = [task for task in found if not task.completed] or found
    if len(found) == 1:
        return [found[0].id]
    whole = f"{target.verb} {target.words}".strip()
    return [target.words if found else whole] if found or not wish.unsure else []
