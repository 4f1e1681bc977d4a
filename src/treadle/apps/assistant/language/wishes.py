"""Wishes of a person as values: one type per kind of tool call, and replies in words.

Parsing is in understanding.py, conversion to calls in acting.py. Entry point: `Wish`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Doing: TypeAlias = Literal["complete", "delete", "update"]
Fields: TypeAlias = dict[str, str | None]
"""Arguments of `add_task` and `update_task`; a due date of None clears it."""


CALLS_MOST = 10


class Filter(msgspec.Struct, frozen=True):
    """Filter of a list, as arguments of `list_tasks`. As a target: all tasks that match."""

    status: str | None = None
    priority: str | None = None
    search: str | None = None


class Named(msgspec.Struct, frozen=True):
    """Task that the words of its title name, or `parts`: tasks if no title has all the words."""

    words: str
    parts: tuple[str, ...] = ()
    verb: str = ""
    """Action on the object ("pay" in "the rent is paid"), which the title may contain or omit."""


Target: TypeAlias = Named | Filter


class AddTask(msgspec.Struct, frozen=True):
    title: str
    fields: Fields = {}
    bare: bool = False
    """True if no word asked for adding, so that an existing task with this title is updated."""


class Show(msgspec.Struct, frozen=True):
    filter: Filter = Filter()


class TaskChange(msgspec.Struct, frozen=True):
    """Change of the referenced tasks."""

    doing: Doing
    target: Target
    fields: Fields = {}
    unsure: bool = False
    """True if the change applies only if such a task exists."""
    answers: bool = False
    """True for an answer to "which task?", which counts only if every part names a task."""
    otherwise: AddTask | None = None
    """Alternative if the list has no such task: "delete old photos" may be the requested title."""


class PlainCall(msgspec.Struct, frozen=True):
    """Tool call without arguments."""

    tool: Literal["complete_all", "delete_completed", "undo"]


class Say(msgspec.Struct, frozen=True):
    """Reply without an action."""

    text: str


class Missing(msgspec.Struct, frozen=True):
    """Incomplete request, with the text that completes the question about it."""

    what: str
    wants: Literal["title", "task", "value", "any"] = "any"
    wish: AddTask | TaskChange | None = None
    """The request, to be completed by an answer."""
    field: str = ""
    """Missing field: title, due or priority."""


Wish: TypeAlias = AddTask | Show | TaskChange | PlainCall | Say
Wishes: TypeAlias = list[Wish | Missing]
