"""Queries for tasks, in one user's scope, inside a transaction. Each change can be undone. Entry
point: `TaskStore`.

Confirmation is in confirmations.py, search by words in matching.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Unpack
from uuid import UUID

from sqlalchemy import bindparam, func
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from treadle.apps.assistant.changes import UNDO, ChangeLog, kept, new, restore
from treadle.apps.assistant.fields import (
    WORDS_CHARS,
    TaskFields,
    checked,
    description_of,
    due_of,
    priority_of,
    title_of,
)
from treadle.apps.assistant.matching import folded, holding, meant
from treadle.apps.assistant.tables import Change, Task
from treadle.errors import AgentError
from treadle.service.database.guard import execute
from treadle.service.database.scope import Scope
from treadle.types import now

OPEN_MOST: Final = 1000
TASKS_MOST: Final = 5000
"""Maximum number of tasks of one user, including completed ones. It bounds lists and bulk
operations.
"""
COMPLETED_LOOKED_AT: Final = 1000
"""Number of newest completed tasks that can be found by words."""
OPTIONS_MOST: Final = 5
LOOKED_AT: Final = 200
"""Maximum number of matches whose differences are examined."""
_DUE: Final = re.compile(r"due:(\S*?)(?:\.\.(\S*))?", re.IGNORECASE)


# Statements that most calls execute, built once.
_MINE: Final = (col(Task.user_id) == bindparam("mine"), col(Task.deleted_at).is_(None))
_COUNTED: Final = select(Task.completed, func.count()).where(*_MINE).group_by(col(Task.completed))
_NEWEST: Final = (
    select(Task.id, Task.title, Task.completed, Task.created_at)
    .where(*_MINE)
    .order_by(col(Task.completed), col(Task.created_at).desc())
    .limit(OPEN_MOST + COMPLETED_LOOKED_AT)
)
_BY_IDS: Final = select(Task).where(*_MINE, col(Task.id).in_(bindparam("ids", expanding=True)))


@dataclass(frozen=True, slots=True)
class TaskMatch:
    """Result of a search by words: one task, several ambiguous ones, or none."""

    task: Task | None = None
    several: tuple[Task, ...] = ()
    """Ambiguous tasks, at most five."""

    @property
    def options(self) -> tuple[str, ...]:
        """Titles to choose from. Equal titles are extended by the details that distinguish them."""
        titles = [task.title for task in self.several]
        return tuple(
            title if titles.count(title) == 1 else _told_apart(task)
            for title, task in zip(titles, self.several, strict=True)
        )


@dataclass(frozen=True, slots=True)
class UndoneChange:
    """Change that was undone: the tool that made it, and the current titles of its tasks."""

    tool: str
    titles: tuple[str, ...]


class TaskStore:
    """Tasks of one user. Methods validate all values and raise AgentError(invalid)."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        *,
        key: str | None = None,
        run_id: str | None = None,
        by_person: bool = False,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """Create the store for one call.

        `key`: its idempotency key. `by_person`: True for an action of the person, which does not
        count towards confirmation.
        """
        self._session, self._scope, self._clock = session, scope, clock
        self._key, self._run_id, self._by_person = key, run_id, by_person
        self.changes: Final = ChangeLog(session, scope, clock)
        self.written: Change | None = None
        """Change made by this call, if any; a repeated call returns its `result`."""

    # ------------------------------------------------------------ reading

    def list(
        self, *, status: str = "all", priority: str | None = None, search: str | None = None
    ) -> Sequence[Task]:
        """Return tasks, oldest first.

        `search`: words of title and description, `due:DATE`, `due:FROM..TO`, `due:none` or
        `overdue`.
        """
        mine = self._mine().order_by(col(Task.created_at), col(Task.id))
        if status != "all":
            mine = mine.where(col(Task.completed).is_(status == "completed"))
        if priority is not None:
            mine = mine.where(Task.priority == priority_of(priority))
        search = (search or "").strip()[:WORDS_CHARS]
        if not search:
            return self._session.exec(mine).all()
        if search.casefold() == "overdue":
            return self._session.exec(
                mine.where(col(Task.due) < self.today(), col(Task.completed).is_(False))
            ).all()
        if (span := _DUE.fullmatch(search)) is not None:
            return self._session.exec(mine.where(*_in_span(span[1], span[2]))).all()
        tasks = self._session.exec(mine).all()
        return [
            tasks[at]
            for at in holding(search, [f"{task.title}\n{task.description or ''}" for task in tasks])
        ]

    def get(self, task_id: str) -> Task | None:
        """Return a task; None if it is deleted, belongs to another user or does not exist, without
        distinction.
        """
        return self._session.exec(self._mine().where(Task.id == task_id)).first()

    def find(self, words: str, *, prefer_open: bool = False) -> TaskMatch:
        """Find a task by its id or by words of its title.

        `prefer_open`: choose the only uncompleted task among several matches.
        """
        words = words.strip()[:WORDS_CHARS]
        if _is_id(words):
            return TaskMatch(self.get(words.lower()))
        rows = self._titles()
        places = meant(words, [title for _, title, _ in rows])
        if prefer_open and len(places) > 1:
            places = [at for at in places if not rows[at][2]] or places
        # Words cannot distinguish tasks that look the same.
        different: dict[tuple[object, ...], Task] = {}
        alike = self.by_ids([rows[at][0] for at in places[:LOOKED_AT]])
        # "<b>" and "b" look the same, but an exact match of the words comes first.
        for task in sorted(alike, key=lambda task: task.title != words):
            different.setdefault(_look(task), task)
        several = tuple(different.values())
        return (
            TaskMatch(several[0])
            if len(several) == 1 and len(places) <= LOOKED_AT
            else TaskMatch(several=several[:OPTIONS_MOST])
        )

    def by_ids(self, ids: Sequence[str]) -> Sequence[Task]:
        """Return the existing tasks, in the order of `ids`."""
        given = {"mine": self._scope.user_id, "ids": ids}
        tasks = {task.id: task for task in self._session.exec(_BY_IDS, params=given)}
        return [tasks[task_id] for task_id in ids if task_id in tasks]

    def today(self) -> date:
        """Return today's date in this process's time zone."""
        return self._clock().astimezone().date()

    # ------------------------------------------------------------ changing

    def add(
        self,
        title: str,
        *,
        description: str | None = None,
        priority: str | None = None,
        due: str | date | None = None,
        completed: bool = False,
    ) -> Task:
        """Add a task. Raises AgentError(invalid), also at 1,000 open tasks or 5,000 including
        completed ones.
        """
        self._check_room()
        at = self._clock()
        task = Task(
            user_id=self._scope.user_id,
            title=title_of(title),
            description=description_of(description),
            priority=priority_of(priority or "Medium"),
            due=due_of(due),
            completed=completed,
            created_at=at,
            updated_at=at,
        )
        self._session.add(task)
        self._wrote("add_task", [new(task)])
        return task

    def complete(self, task: Task) -> None:
        """Complete a task. A completed one stays unchanged, without a change to undo."""
        if not task.completed:
            self._wrote("complete_task", [kept(task)])
            self._complete(task)

    def update(self, task: Task, **wanted: Unpack[TaskFields]) -> dict[str, dict[str, Any]]:
        """Update a task. Return the effective changes by field, as `from` and `to` in JSON data."""
        before, changed = kept(task), dict[str, dict[str, Any]]()
        for name, value in checked(wanted).items():
            was = getattr(task, name)
            if value != was:
                setattr(task, name, value)
                changed[name] = {"from": _told(was), "to": _told(value)}
        if changed:
            task.updated_at = self._clock()
            self._wrote("update_task", [before])
        return changed

    def delete(self, tasks: Sequence[Task], *, tool: str = "delete_task") -> None:
        """Delete tasks softly: `undo` restores them for 30 days."""
        if tasks:
            self._wrote(tool, [kept(task) for task in tasks])
        for task in tasks:
            task.deleted_at = task.updated_at = self._clock()

    def complete_all(self, tasks: Sequence[Task]) -> None:
        """Complete all tasks as one change."""
        if tasks:
            self._wrote("complete_all", [kept(task) for task in tasks])
        for task in tasks:
            self._complete(task)

    def undo(self) -> UndoneChange | None:
        """Undo the last changes that are not undone (`ChangeLog.last`). Return None if there are
        none in the last 30 days.
        """
        changes = self.changes.last()
        if not changes:
            return None
        before = [one for change in changes for one in change.before]
        mine = select(Task).where(
            Task.user_id == self._scope.user_id, col(Task.id).in_({one["id"] for one in before})
        )
        tasks = {task.id: task for task in self._session.exec(mine)}
        there = [(tasks[one["id"]], one) for one in before if one["id"] in tasks]
        for task, was in there:
            restore(task, was, self._clock())
        self._wrote(UNDO, [])
        for change in changes:
            change.undone_at = self._clock()
            self._session.add(change)
        titles = {
            task.id: task.title
            for change in reversed(changes)
            for one in change.before
            if (task := tasks.get(one["id"])) is not None
        }
        return UndoneChange(changes[0].tool, tuple(titles.values()))

    # ------------------------------------------------------------ inside

    def _check_room(self) -> None:
        counted: dict[bool, int] = {
            completed: number
            for completed, number in execute(self._session, _COUNTED, {"mine": self._scope.user_id})
        }
        if counted.get(False, 0) >= OPEN_MOST:
            raise AgentError(
                "invalid",
                (
                    f"there are {OPEN_MOST:,} open tasks, and no more can be added: complete or "
                    "delete some first"
                ),
            )
        if sum(counted.values()) >= TASKS_MOST:
            raise AgentError(
                "invalid",
                (
                    f"there are {TASKS_MOST:,} tasks, and no more can be added: delete those that "
                    "are completed first"
                ),
            )

    def _complete(self, task: Task) -> None:
        task.completed, task.updated_at = True, self._clock()

    def _mine(self) -> SelectOfScalar[Task]:
        return select(Task).where(
            Task.user_id == self._scope.user_id, col(Task.deleted_at).is_(None)
        )

    def _titles(self) -> Sequence[tuple[str, str, bool]]:
        """Return id, title and completion of all open and the newest completed tasks, oldest
        first.
        """
        newest = execute(self._session, _NEWEST, {"mine": self._scope.user_id})
        rows = sorted(newest, key=lambda row: (row[3], row[0]))
        return [(task_id, title, completed) for task_id, title, completed, _ in rows]

    def _wrote(self, tool: str, before: Sequence[dict[str, Any]]) -> None:
        self.written = self.changes.add(
            tool, before, key=self._key, run_id=self._run_id, by_person=self._by_person
        )


def _in_span(first: str, last: str | None) -> list[Any]:
    if first.casefold() == "none" and last is None:
        return [col(Task.due).is_(None)]
    if not first or last == "":
        raise AgentError("invalid", "use due:YYYY-MM-DD, due:YYYY-MM-DD..YYYY-MM-DD or due:none")
    return [col(Task.due) >= due_of(first), col(Task.due) <= due_of(last or first)]


def _is_id(words: str) -> bool:
    try:
        return str(UUID(words)) == words.lower()
    except ValueError:
        return False


def _told(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def _look(task: Task) -> tuple[object, ...]:
    return folded(task.title), task.description, task.priority, task.due, task.completed


def _told_apart(task: Task) -> str:
    due = "no due date" if task.due is None else f"due {task.due.isoformat()}"
    return f"{task.title} ({due}, {task.priority}{', completed' if task.completed else ''})"
