"""Records of questions for confirmation, and of the calls that they hold back.

Entry points: `HeldTaskCall`, `AnsweredConfirmations`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import and_, bindparam
from sqlmodel import Session, col, select

from treadle.apps.assistant.caller import Grant
from treadle.apps.assistant.tables import Confirmation, Task
from treadle.service.database.scope import Scope

Clock: TypeAlias = Callable[[], datetime]
Verb: TypeAlias = Literal["delete", "complete", "update"]

GOOD_FOR: Final = timedelta(minutes=5)

OPEN_HERE: Final = and_(
    col(Confirmation.conversation_id) == bindparam("conversation"),
    col(Confirmation.closed_at).is_(None),
)

_BULK_TOOLS: Final = frozenset({"complete_all", "delete_completed"})


@dataclass(frozen=True, slots=True)
class HeldTaskCall:
    """Call that is held back until it is confirmed."""

    tool: str
    verb: Verb
    tasks: Sequence[Task]
    arguments: Mapping[str, Any]
    """Arguments of the call, in which the task is given by its id."""


@dataclass(frozen=True, slots=True)
class HeldCall:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnsweredConfirmations:
    """Effect of a person's message on the pending confirmations of its conversation."""

    outcome: Literal["granted", "cancelled", "expired", "void"]
    """Outcome. For `expired` and `void` (a task has changed since), the person confirmed, but must
    be asked again before anything happens.
    """
    grant: Grant | None = None
    """Grant for the run of this message, if the outcome is `granted`."""
    calls: tuple[HeldCall, ...] = field(default=())
    """Held-back calls, in order; empty for `cancelled`. Without the grant they ask again."""


def new_record(scope: Scope, held: HeldTaskCall, at: datetime, **more: Any) -> Confirmation:
    record = Confirmation(
        user_id=scope.user_id,
        tool=held.tool,
        verb=held.verb,
        phrase="",
        created_at=at,
        expires_at=at + GOOD_FOR,
        **more,
    )
    gather(record, held, at)
    return record


def gather(record: Confirmation, held: HeldTaskCall, at: datetime) -> None:
    record.items = list(dict.fromkeys([*record.items, *(task.id for task in held.tasks)]))
    seen = {task.id: task.updated_at.isoformat() for task in held.tasks}
    entry = {"tool": held.tool, "arguments": dict(held.arguments), "seen": seen}
    record.arguments = [
        *(
            one
            for one in record.arguments
            if (one["tool"], one["arguments"]) != (entry["tool"], entry["arguments"])
        ),
        entry,
    ]
    is_one = (
        held.verb == "delete"
        and len(record.items) == 1
        and not any(one["tool"] in _BULK_TOOLS for one in record.arguments)
    )
    record.phrase = "yes delete" if is_one else f"yes {held.verb} all {len(record.items)}"
    record.expires_at = at + GOOD_FOR


def gathering(
    session: Session,
    scope: Scope,
    conversation_id: str,
    run_id: str | None,
    held: HeldTaskCall,
    at: datetime,
) -> Confirmation | None:
    """Return the record to which this call belongs, and close the other pending ones."""
    mine: Confirmation | None = None
    for record in open_records(session, scope, conversation_id):
        if (
            mine is None
            and run_id is not None
            and (record.run_id, record.verb) == (run_id, held.verb)
            and record.expires_at > at
        ):
            mine = record
        else:
            record.closed_at = at
            session.add(record)
    return mine


def open_records(session: Session, scope: Scope, conversation_id: str) -> Sequence[Confirmation]:
    """Return the open confirmations, newest first."""
    mine = select(Confirmation).where(
        Confirmation.user_id == scope.user_id, Confirmation.conversation_id == conversation_id
    )
    return session.exec(
        mine.where(col(Confirmation.closed_at).is_(None))
        .order_by(col(Confirmation.created_at).desc())
        .with_for_update()
    ).all()


def replace_open(
    session: Session, scope: Scope, conversation_id: str, run_id: str | None
) -> Sequence[Confirmation]:
    """Return the questions of the same message that this one replaced, oldest first."""
    if run_id is None:
        return ()
    mine = select(Confirmation).where(
        Confirmation.user_id == scope.user_id, Confirmation.conversation_id == conversation_id
    )
    return session.exec(
        mine.where(
            Confirmation.run_id == run_id, col(Confirmation.closed_at).is_not(None)
        ).order_by(col(Confirmation.created_at))
    ).all()


def titles_of(session: Session, scope: Scope, record: Confirmation) -> list[str]:
    """Return the titles of the record's tasks, in the order in which they were added."""
    mine = select(Task.id, Task.title).where(
        Task.user_id == scope.user_id, col(Task.id).in_(record.items)
    )
    titles = dict(session.exec(mine).all())
    return [titles[item] for item in record.items if item in titles]


def is_as_seen(session: Session, scope: Scope, record: Confirmation) -> bool:
    """Return True if every task still exists, unchanged since the person was asked."""
    mine = select(Task).where(
        Task.user_id == scope.user_id,
        col(Task.id).in_(record.items),
        col(Task.deleted_at).is_(None),
    )
    updated = {task.id: task.updated_at.isoformat() for task in session.exec(mine)}
    return all(
        updated.get(task_id) == at
        for one in record.arguments
        for task_id, at in one["seen"].items()
    )


def is_same_wish(record: Confirmation, held: HeldTaskCall) -> bool:
    return all(one["arguments"] == dict(held.arguments) for one in record.arguments)


def answers_of(record: Confirmation) -> AnsweredConfirmations:
    return AnsweredConfirmations(
        "granted", Grant(record.verb, frozenset(record.items)), calls_of(record)
    )


def calls_of(record: Confirmation) -> tuple[HeldCall, ...]:
    return tuple(HeldCall(one["tool"], dict(one["arguments"])) for one in record.arguments)


def code_hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
