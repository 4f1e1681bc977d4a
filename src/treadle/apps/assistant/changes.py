"""Log of changes, for undo, idempotency, and the limit on unconfirmed changes.

Changing tasks is in store.py. Entry point: `ChangeLog`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import takewhile
from typing import Any, Final

from sqlalchemy import bindparam, func
from sqlmodel import Session, col, delete, select

from treadle.apps.assistant.tables import Change, Confirmation, Task
from treadle.service.database.guard import execute
from treadle.service.database.scope import Scope

KEPT: Final = timedelta(days=30)
"""Period during which a change can be undone and a deleted task is kept."""
CONFIRMATIONS_KEPT: Final = timedelta(days=1)
"""Period during which confirmations are kept, for runs that are resumed."""
WINDOW: Final = timedelta(minutes=10)
COUNTED: Final = ("complete_task", "update_task")
UNDO: Final = "undo"
_KEY_CHARS: Final = 200
_TICK: Final = timedelta(microseconds=1)
# Statements that most calls execute, built once.
_any_select: Final[Any] = select  # the columns have types that it does not know
_MINE: Final = col(Change.user_id) == bindparam("mine")
_RESULT: Final[Any] = _any_select(Change.result).where(_MINE, col(Change.key) == bindparam("key"))
_LAST_AT: Final = select(func.max(col(Change.at))).where(_MINE)
_COUNTED: Final[Any] = _any_select(Change.run_id, Change.at, Change.before).where(
    _MINE, col(Change.by_person).is_(False), col(Change.tool).in_(COUNTED)
)
_COUNTED_SINCE: Final = _COUNTED.where(col(Change.at) >= bindparam("start"))
_COUNTED_OF_RUN: Final = _COUNTED.where(col(Change.run_id) == bindparam("run"))
_EXPIRED: Final[Any] = tuple(
    (delete(table).where(col(table.user_id) == bindparam("mine"), at < bindparam("since")), period)
    for table, at, period in (
        (Task, col(Task.deleted_at), KEPT),
        (Change, col(Change.at), KEPT),
        (Confirmation, col(Confirmation.created_at), CONFIRMATIONS_KEPT),
    )
)
_FIELDS: Final = ("title", "description", "completed", "priority", "due", "deleted_at")
"""Fields that a change may affect, in addition to `updated_at`."""


class ChangeLog:
    """Change log of one user, inside a transaction."""

    def __init__(self, session: Session, scope: Scope, clock: Callable[[], datetime]) -> None:
        self._session, self._user_id, self._clock = session, scope.user_id, clock

    def result_of(self, key: str | None) -> dict[str, Any] | None:
        """Return the result of the call with this key; None if it changed nothing."""
        if key is None:
            return None
        found = execute(self._session, _RESULT, {"mine": self._user_id, "key": short(key)}).first()
        return None if found is None else found[0]

    def add(
        self,
        tool: str,
        before: Iterable[Mapping[str, Any]],
        *,
        key: str | None,
        run_id: str | None,
        by_person: bool,
    ) -> Change:
        """Add a change. It is dated after every other change of this user, even if the clock went
        backwards.
        """
        last: datetime | None = execute(
            self._session, _LAST_AT, {"mine": self._user_id}
        ).scalar_one()
        at = self._clock() if last is None else max(self._clock(), last + _TICK)
        held = None if key is None else short(key)
        change = Change(
            user_id=self._user_id,
            at=at,
            tool=tool,
            key=held,
            run_id=run_id,
            by_person=by_person,
            before=[dict(one) for one in before],
        )
        self._session.add(change)
        return change

    def last(self) -> Sequence[Change]:
        """Return the changes that `undo` reverts, newest first: the last one, and those that the
        same message made with the same tool right before it.
        """
        mine = select(Change).where(
            Change.user_id == self._user_id, col(Change.undone_at).is_(None), Change.tool != UNDO
        )
        newest = mine.where(Change.at >= self._clock() - KEPT).order_by(col(Change.at).desc())
        last = self._session.exec(newest.limit(1)).first()
        if last is None or last.run_id is None:
            return [] if last is None else [last]
        of_run = self._session.exec(newest.where(Change.run_id == last.run_id)).all()
        return [*takewhile(lambda change: change.tool == last.tool, of_run)]

    def touched(self, run_id: str | None) -> tuple[frozenset[str], frozenset[str]]:
        """Return the ids of tasks that were completed or updated without confirmation: by this run,
        and by any run or client in the last ten minutes.
        """
        start = self._clock() - WINDOW
        mine = {"mine": self._user_id}
        rows = [*execute(self._session, _COUNTED_SINCE, {**mine, "start": start})]
        # The run may have been resumed after a while. A single query for both would read all
        # changes of this user.
        if run_id is not None:
            rows += execute(self._session, _COUNTED_OF_RUN, {**mine, "run": run_id}).all()
        granted = self._granted({row.run_id for row in rows if row.run_id is not None})
        touched = [
            (row, str(task["id"]))
            for row in rows
            for task in row.before
            if (row.run_id, task["id"]) not in granted
        ]
        of_run = frozenset(
            task_id for row, task_id in touched if run_id is not None and row.run_id == run_id
        )
        return of_run, frozenset(task_id for row, task_id in touched if row.at >= start)

    def _granted(self, runs: set[str]) -> set[tuple[str | None, str]]:
        if not runs:
            return set()
        mine = select(Confirmation).where(
            Confirmation.user_id == self._user_id, col(Confirmation.granted_run_id).in_(runs)
        )
        return {
            (row.granted_run_id, item) for row in self._session.exec(mine) for item in row.items
        }

    def undone_in(self, run_id: str | None) -> int:
        """Return the number of changes that this run has undone; without a run, of those undone
        outside any run in the last ten minutes.
        """
        mine = (
            select(func.count())
            .select_from(Change)
            .where(
                Change.user_id == self._user_id,
                Change.tool == UNDO,
                col(Change.by_person).is_(False),
            )
        )
        mine = (
            mine.where(Change.run_id == run_id)
            if run_id is not None
            else mine.where(col(Change.run_id).is_(None), Change.at >= self._clock() - WINDOW)
        )
        return self._session.exec(mine).one()

    def purge(self) -> None:
        """Delete expired tasks and changes permanently."""
        at = self._clock()
        for statement, period in _EXPIRED:
            execute(self._session, statement, {"mine": self._user_id, "since": at - period})


def kept(task: Task) -> dict[str, Any]:
    """Return a snapshot of the task, for `restore`."""
    return {"id": task.id, **{name: _plain(getattr(task, name)) for name in _FIELDS}}


def new(task: Task) -> dict[str, Any]:
    return {"id": task.id, "new": True}


def restore(task: Task, before: Mapping[str, Any], at: datetime) -> None:
    """Restore a snapshot. A task that was new then is deleted."""
    if before.get("new"):
        task.deleted_at = at
    else:
        for name in _FIELDS:
            setattr(task, name, _read(name, before[name]))
    task.updated_at = at


def short(key: str) -> str:
    return (
        key
        if len(key) <= _KEY_CHARS
        else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    )


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def _read(name: str, value: Any) -> object:
    if value is None or name not in ("due", "deleted_at"):
        return value
    return date.fromisoformat(value) if name == "due" else datetime.fromisoformat(value)
