"""Wishes of a person as values: one type per task tool, and replies in words.

Parsing is in understanding.py, conversion to calls in acting.py. Entry points: `Wish`,
`Understood`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Doing: TypeAlias = Literal["complete", "delete", "update"]
Fields: TypeAlias = tuple[tuple[str, str | None], ...]
"""Values of `update_task`; a due date of None clears it."""


class Filter(msgspec.Struct, frozen=True):
    """Filter of a list, as arguments of `list_tasks`."""

    status: str | None = None
    priority: str | None = None
    search: str | None = None

    @property
    def empty(self) -> bool:
        return self in (Filter(), Filter("all"))


class Named(msgspec.Struct, frozen=True):
    """Task that the words of its title name.

    `parts` are the separate tasks that the words may name instead, if no title contains them all.
    """

    words: str
    parts: tuple[str, ...] = ()
    verb: str = ""
    """Action on the named object ("pay" in "the rent is paid"), which the title may contain or
    omit.
    """


class Every(msgspec.Struct, frozen=True):
    """All tasks that match a filter."""

    filter: Filter


Target: TypeAlias = Named | Every


class AddTask(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    description: str | None = None
    priority: str | None = None
    due: str | None = None
    bare: bool = False
    """True if no word asked for adding, so that an existing task with this title is updated."""


class Show(msgspec.Struct, frozen=True):
    filter: Filter = Filter()


class TaskChange(msgspec.Struct, frozen=True):
    """Change of the referenced tasks."""

    doing: Doing
    target: Target
    fields: Fields = ()
    later: int = 0
    """Number of days by which the due date is postponed."""
    unsure: bool = False
    """True if the change applies only if such a task exists."""
    answers: bool = False
    """True for an answer to "which task?", which counts only if every part names a task."""
    otherwise: AddTask | None = None
    """Alternative if the list has no such task. "delete old photos" may be a command or the
    requested title.
    """


class PlainCall(msgspec.Struct, frozen=True):
    """Tool call without arguments."""

    tool: Literal["complete_all", "delete_completed", "undo"]


class Say(msgspec.Struct, frozen=True):
    """Reply without an action."""

    kind: Literal["help", "talk", "unclear"]
    text: str


Wish: TypeAlias = AddTask | Show | TaskChange | PlainCall | Say


class Missing(msgspec.Struct, frozen=True):
    """Incomplete request, with the text that completes the question about it."""

    what: str
    wants: Literal["title", "task", "value", "any"] = "any"
    doing: Doing | None = None
    fields: Fields = ()
    target: Target | None = None
    field: str = ""
    """Missing field: title, due or priority."""

    @property
    def question(self) -> Say:
        return Say("unclear", f"Could you provide more details about {self.what}?")


Wishes: TypeAlias = list[Wish | Missing]


class Understood(msgspec.Struct, frozen=True):
    """All wishes of one message, in order: actions, or a single reply."""

    wishes: tuple[Wish, ...] = ()
    whole: tuple[Wish | Missing, ...] = ()
    """All wishes including incomplete ones, for an answer to complete. If there are incomplete
    ones, `wishes` is the question about the first.
    """
