"""Conversion of wishes to calls of the task tools, directly or after a lookup of the list.

A lookup is needed for "all tasks due today" and for "milk and bread", which may be one title or two
tasks. Entry points: `looks`, `calls_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Protocol, TypeVar

import msgspec

from treadle.apps.assistant.language.phrases import known
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
from treadle.apps.assistant.language.wording import key_of
from treadle.apps.assistant.matching import folded, meant
from treadle.apps.assistant.stems import stem

_ALIKE = tuple(
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
)
"""Groups of verbs that mean the same action on an object."""
_ANY = frozenset(
    map(stem, known("do finish complete handle sort deal take go manage tackle settle"))
)
"""Verbs that only mean that something is done."""


class Titled(Protocol):
    @property
    def title(self) -> str: ...


T = TypeVar("T", bound=Titled)


def fitting(named: Named, tasks: Sequence[T]) -> list[T]:
    """Return the tasks that match best, including ties."""
    titles = [task.title for task in tasks]
    whole = meant(named.whole, titles)
    if whole or not named.verb:
        return [tasks[at] for at in whole]
    about = {stem(word) for word in folded(named.words)}
    return [
        tasks[at] for at in meant(named.words, titles) if _of_verb(named.verb, titles[at], about)
    ]


def _of_verb(verb: str, title: str, about: set[str]) -> bool:
    """Return True if the title names the action that was done to the object."""
    done = stem(folded(verb)[0])
    first = folded(title)[:1]
    if not first or stem(first[0]) in about or first[0] not in ACTIONS or done in _ANY:
        return True
    return any(done in alike and stem(first[0]) in alike for alike in _ALIKE)


class PlannedCall(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, str | None]


class KnownTask(msgspec.Struct, frozen=True):
    """Task found by a lookup."""

    id: str
    title: str
    completed: bool = False
    due: str | None = None


class TooManyTasks(Exception):
    """Raised if a message would change too many tasks."""

    def __init__(self, count: int) -> None:
        super().__init__(str(count))
        self.count = count


_EVERYTHING = Filter("all")
_LOOKED_UP = 5
"""Maximum number of new tasks for which a lookup checks for existing ones. A lookup counts towards
the limit on calls.
"""


def looks(understood: Understood) -> tuple[Filter, ...]:
    """Return the lookups needed before the wishes can become calls, without duplicates."""
    several = len(understood.wishes) > _LOOKED_UP
    wishes = [wish for wish in understood.wishes if not (several and isinstance(wish, AddTask))]
    return tuple(dict.fromkeys(look for wish in wishes if (look := _look(wish)) is not None))


def _look(wish: Wish) -> Filter | None:
    match wish:
        case TaskChange(target=Every(filter=wanted)):
            return wanted
        case TaskChange(target=Named(parts=parts, verb=verb)) if (
            parts or verb or wish.unsure or wish.later or wish.answers or wish.otherwise is not None
        ):
            return _EVERYTHING
        case AddTask(bare=True):
            return _EVERYTHING
        case _:
            return None


def listing(wanted: Filter) -> PlannedCall:
    given = {"status": wanted.status, "priority": wanted.priority, "search": wanted.search}
    return PlannedCall(
        "list_tasks",
        {
            name: value
            for name, value in given.items()
            if value is not None and (name, value) != ("status", "all")
        },
    )


def calls_of(
    understood: Understood, seen: Mapping[Filter, Sequence[KnownTask]]
) -> list[PlannedCall]:
    """Return the calls in the order of the wishes, at most ten including the lookups.

    Raises TooManyTasks, because a wish is never carried out in part.
    """
    calls = [call for wish in understood.wishes for call in _calls(wish, seen)]
    most = CALLS_MOST - len(seen)
    if len(calls) > most:
        if seen:
            raise TooManyTasks(len(calls))
        calls = calls[:most]
    return calls


def _calls(wish: Wish, seen: Mapping[Filter, Sequence[KnownTask]]) -> Iterator[PlannedCall]:
    match wish:
        case AddTask():
            yield _added(wish, seen)
        case Show(wanted):
            yield listing(wanted)
        case PlainCall(tool):
            yield PlannedCall(tool, {})
        case TaskChange(target=Named() as named, otherwise=AddTask() as new) if not fitting(
            named, seen.get(_EVERYTHING, ())
        ):
            yield _added(new, seen)
        case TaskChange(doing, target, fields, later, unsure, answers):
            for task in (
                _answer(target, seen)
                if answers and isinstance(target, Named)
                else _meant(target, seen, unsure=unsure)
            ):
                put_off = _put_off(task, later, seen) if later else {}
                yield PlannedCall(f"{doing}_task", {"task": task, **dict(fields), **put_off})
        case _:
            return


def _added(wish: AddTask, seen: Mapping[Filter, Sequence[KnownTask]]) -> PlannedCall:
    """Return the call that adds a new task, or that updates the existing one with exactly this
    title.
    """
    given = {"description": wish.description, "priority": wish.priority, "due": wish.due}
    fields = {name: value for name, value in given.items() if value is not None}
    there = [
        task
        for task in seen.get(_EVERYTHING, ())
        if wish.bare and not task.completed and folded(task.title) == folded(wish.title)
    ]
    if len(there) == 1:
        return PlannedCall(
            "update_task", {"task": there[0].id, **(fields or {"title": there[0].title})}
        )
    return PlannedCall("add_task", {"title": wish.title, **fields})


def _meant(
    target: Named | Every, seen: Mapping[Filter, Sequence[KnownTask]], *, unsure: bool
) -> list[str]:
    if isinstance(target, Every):
        return [task.id for task in seen.get(target.filter, ())]
    tasks = seen.get(_EVERYTHING, ())
    if target.parts and not any(
        set(_letters(target.words)) <= set(_letters(task.title)) for task in tasks
    ):
        parts = [msgspec.structs.replace(target, words=part, parts=()) for part in target.parts]
        return [words for part in parts for words in _meant(part, seen, unsure=unsure)]
    if not target.verb and not unsure:
        return [target.words]
    found = [task for task in fitting(target, tasks) if not task.completed] or fitting(
        target, tasks
    )
    if len(found) == 1:
        return [found[0].id]
    return [target.words if found else target.whole] if found or not unsure else []


def _answer(target: Named, seen: Mapping[Filter, Sequence[KnownTask]]) -> list[str]:
    """Return the tasks that an answer names, resolved like `_meant`; empty if a part of several
    names no task.
    """
    titles = [task.title for task in seen.get(_EVERYTHING, ())]
    is_one = not target.parts or bool(meant(target.words, titles))
    return (
        _meant(target, seen, unsure=False)
        if is_one or all(meant(part, titles) for part in target.parts)
        else []
    )


def _put_off(task: str, later: int, seen: Mapping[Filter, Sequence[KnownTask]]) -> dict[str, str]:
    """Return the due date postponed by `later` days; empty for a task that has none or is
    ambiguous.
    """
    titles = [one for one in seen.get(_EVERYTHING, ()) if one.id == task] or fitting(
        Named(task), seen.get(_EVERYTHING, ())
    )
    due = titles[0].due if len(titles) == 1 else None
    return (
        {}
        if due is None
        else {"due": (date.fromisoformat(due) + timedelta(days=later)).isoformat()}
    )


def _letters(text: str) -> list[str]:
    return [word.strip(",.;:!?()'\"") for word in key_of(text).split()]
