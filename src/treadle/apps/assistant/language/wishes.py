"""What a person wishes done, as values: one for each thing that the task tools can do, and what is
answered in words.

How they are read from a text stands in understanding.py, how they become calls in acting.py. Entry:
`Wish`, `Understood`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Doing: TypeAlias = Literal["complete", "delete", "update"]


class Filter(msgspec.Struct, frozen=True):
    """Arguments of `list_tasks`."""

    status: str | None = None
    priority: str | None = None
    search: str | None = None

    @property
    def empty(self) -> bool:
        return self == Filter() or self == Filter(status="all")


class Named(msgspec.Struct, frozen=True):
    """A task by words of its title.

    `parts` are the several that it may be instead, if no title holds it all.
    """

    words: str
    parts: tuple[str, ...] = ()
    verb: str = ""
    """What was done with what the words name ("pay" of "the rent is paid"): the title may say it,
    or say nothing.
    """

    @property
    def whole(self) -> str:
        return f"{self.verb} {self.words}" if self.verb else self.words


class Every(msgspec.Struct, frozen=True):
    """All tasks of a filter; `first` of them only, where that is set."""

    filter: Filter
    first: int | None = None


Target: TypeAlias = Named | Every


class AddTask(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    description: str | None = None
    priority: str | None = None
    due: str | None = None
    bare: bool = False
    """Said without any word for adding: of a task that is there already, it says what is new."""


class Show(msgspec.Struct, frozen=True):
    filter: Filter = Filter()


class TaskChange(msgspec.Struct, frozen=True):
    """One thing done to the tasks that are meant; `fields` are those of `update_task`, a due date
    of None clears it.
    """

    doing: Doing
    target: Target
    fields: tuple[tuple[str, str | None], ...] = ()
    later: int = 0
    """Days by which the due date is put off."""
    unsure: bool = False
    """Meant only where there is such a task: nothing is done otherwise."""
    answers: bool = False
    """The answer to "which task?", which counts only if all of it names tasks: nothing is done
    otherwise.
    """
    otherwise: AddTask | None = None
    """Done instead where the list holds no such task:

    "delete old photos" may be a command, or the title that was asked for.
    """


class PlainCall(msgspec.Struct, frozen=True):
    """A tool without arguments."""

    tool: Literal["complete_all", "delete_completed", "undo"]


class Say(msgspec.Struct, frozen=True):
    """Nothing is done; this is answered."""

    kind: Literal["help", "talk", "unclear"]
    text: str


Wish: TypeAlias = AddTask | Show | TaskChange | PlainCall | Say


class Missing(msgspec.Struct, frozen=True):
    """A wish that lacks something: what stands open, in words that end the question."""

    what: str
    wants: Literal["title", "task", "value", "any"] = "any"
    doing: Doing | None = None
    fields: tuple[tuple[str, str | None], ...] = ()
    target: Target | None = None
    field: str = ""
    """Of a missing value: title, due or priority."""


def unclear(what: str) -> Say:
    """Ask for more details about `what`."""
    return Say("unclear", f"Could you provide more details about {what}?")


class Understood(msgspec.Struct, frozen=True):
    """Everything that one message wishes, in its order: wishes to carry out, or one thing to say."""

    wishes: tuple[Wish, ...] = ()
    missing: tuple[Missing, ...] = ()
    """Where not empty, `wishes` is the question about the first of them."""
    whole: tuple[Wish | Missing, ...] = ()
    """The wishes with their gaps, for an answer to fill."""
