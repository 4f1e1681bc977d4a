"""Wishes become calls of the task tools: at once, or after a look at the list where only it can say which tasks are meant.

A look is needed for "all tasks due today" and for "milk and bread", which may be one title or two tasks. Entry: `looks`, `calls_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from treadle.tasks.language.understanding import CALLS_MOST
from treadle.tasks.language.wishes import Add, Change, Every, Filter, Named, Show, Simple, Understood, Wish
from treadle.tasks.language.wording import key_of


class Call(msgspec.Struct, frozen=True):
    tool: str
    arguments: dict[str, str | None]


class Known(msgspec.Struct, frozen=True):
    """A task that a look has shown."""

    id: str
    title: str


class TooMany(Exception):
    """More tasks are meant than one message may change."""

    def __init__(self, count: int) -> None:
        super().__init__(str(count))
        self.count = count


_EVERYTHING = Filter("all")


def looks(understood: Understood) -> tuple[Filter, ...]:
    """What has to be listed before the wishes can be calls; each once."""
    return tuple(dict.fromkeys(look for wish in understood.wishes if (look := _look(wish)) is not None))


def _look(wish: Wish) -> Filter | None:
    match wish:
        case Change(target=Every(filter=wanted)):
            return wanted
        case Change(target=Named(parts=parts)) if parts:
            return _EVERYTHING
        case _:
            return None


def listing(wanted: Filter) -> Call:
    given = {"status": wanted.status, "priority": wanted.priority, "search": wanted.search}
    return Call("list_tasks", {name: value for name, value in given.items() if value is not None and (name, value) != ("status", "all")})


def calls_of(understood: Understood, seen: Mapping[Filter, Sequence[Known]]) -> list[Call]:
    """The calls in the order of the wishes, ten with the looks before them. Raises TooMany: half of a wish is none."""
    calls = [call for wish in understood.wishes for call in _calls(wish, seen)]
    most = CALLS_MOST - len(seen)
    if len(calls) > most:
        if seen:
            raise TooMany(len(calls))
        calls = calls[:most]
    return calls


def _calls(wish: Wish, seen: Mapping[Filter, Sequence[Known]]) -> Iterator[Call]:
    match wish:
        case Add():
            given = {"title": wish.title, "description": wish.description, "priority": wish.priority, "due": wish.due}
            yield Call("add_task", {name: value for name, value in given.items() if value is not None})
        case Show(wanted):
            yield listing(wanted)
        case Simple(tool):
            yield Call(tool, {})
        case Change(doing, target, fields):
            for task in _meant(target, seen):
                yield Call(f"{doing}_task", {"task": task, **dict(fields)})
        case _:
            return


def _meant(target: Named | Every, seen: Mapping[Filter, Sequence[Known]]) -> list[str]:
    if isinstance(target, Every):
        return [task.id for task in seen.get(target.filter, ())]
    if not target.parts:
        return [target.words]
    wanted = set(_letters(target.words))
    whole = any(wanted <= set(_letters(task.title)) for task in seen.get(_EVERYTHING, ()))
    return [target.words] if whole else list(target.parts)


def _letters(text: str) -> list[str]:
    return [word.strip(",.;:!?()'\"") for word in key_of(text).split()]
