"""Confirmation of bulk and final changes: server-side records of questions and answers, which a
model cannot create.

Everything runs inside a transaction. In a chat the person's next message answers (`asked`,
`answered`); a plain MCP client uses a single-use code (`asked`, `redeemed`). acts.py decides what
needs confirmation.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import and_, bindparam, or_
from sqlmodel import Session, col, delete, select

from treadle.apps.assistant.caller import Grant
from treadle.apps.assistant.replies import joined, quoted
from treadle.apps.assistant.tables import Confirmation, Task
from treadle.service.database.scope import Scope
from treadle.types import now

Clock: TypeAlias = Callable[[], datetime]
Verb: TypeAlias = Literal["delete", "complete", "update"]

GOOD_FOR: Final = timedelta(minutes=5)
_FORGOTTEN_AFTER: Final = timedelta(hours=1)
"""Time after which unanswered questions are deleted."""
_CODE_BYTES: Final = 12
_DONE: Final[Mapping[str, str]] = {
    "delete": "deleted",
    "complete": "completed",
    "update": "changed",
}
NAMED_MOST: Final = 4
"""Maximum tasks that a question names; beyond it, it gives their number."""
_OPEN_HERE: Final = and_(
    col(Confirmation.conversation_id) == bindparam("conversation"),
    col(Confirmation.closed_at).is_(None),
)
_ANSWERED: Final = (
    select(Confirmation)
    .where(
        col(Confirmation.user_id) == bindparam("mine"),
        or_(col(Confirmation.granted_run_id) == bindparam("run"), _OPEN_HERE),
    )
    .order_by(col(Confirmation.created_at).desc())
    .with_for_update()
)
"""Statement for every message, built once."""
_BULK_TOOLS: Final = frozenset({"complete_all", "delete_completed"})


@dataclass(frozen=True, slots=True)
class HeldTaskCall:
    """Call that waits for confirmation."""

    tool: str
    verb: Verb
    tasks: Sequence[Task]
    arguments: Mapping[str, Any]
    """Arguments of the call, with the task given by its id."""


@dataclass(frozen=True, slots=True)
class HeldCall:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConfirmationQuestion:
    text: str
    code: str | None = None
    """Code for a plain MCP client; only its hash is stored."""


@dataclass(frozen=True, slots=True)
class AnsweredConfirmations:
    """Effect of a person's message on the pending confirmations of their conversation."""

    outcome: Literal["granted", "cancelled", "expired", "void"]
    """`expired` and `void` (a task was changed since): the person confirmed, but must be asked
    again before anything happens.
    """
    grant: Grant | None = None
    """Grant for the run of this message, for `granted`."""
    calls: tuple[HeldCall, ...] = field(default=())
    """Held-back calls, in order; empty for `cancelled`. Without the grant they ask again."""


def asked(
    session: Session,
    scope: Scope,
    held: HeldTaskCall,
    *,
    conversation_id: str | None,
    run_id: str | None,
    clock: Clock = now,
) -> ConfirmationQuestion:
    """Store the call, and return the question for the person.

    A chat has one pending confirmation: calls of one run and verb are combined, others are
    replaced.
    """
    at = clock()
    mine = delete(Confirmation).where(
        col(Confirmation.user_id) == scope.user_id, col(Confirmation.granted_run_id).is_(None)
    )
    session.exec(mine.where(col(Confirmation.expires_at) < at - _FORGOTTEN_AFTER))
    if conversation_id is None:
        code = secrets.token_urlsafe(_CODE_BYTES)
        session.add(_record(scope, held, at, code_hash=_hash(code)))
        return ConfirmationQuestion(_question_of_client(held), code)
    record = _gathering(session, scope, conversation_id, run_id, held, at)
    if record is None:
        record = _record(scope, held, at, conversation_id=conversation_id, run_id=run_id)
    else:
        _gather(record, held, at)
    session.add(record)
    replaced = "".join(
        _put_off(one, _titles(session, scope, one))
        for one in _replaced(session, scope, conversation_id, run_id)
        if one.id != record.id
    )
    return ConfirmationQuestion(_question(record, held, _titles(session, scope, record)) + replaced)


def answered(
    session: Session,
    scope: Scope,
    conversation_id: str,
    message: str,
    run_id: str,
    *,
    clock: Clock = now,
) -> AnsweredConfirmations | None:
    """Close the pending confirmations of the conversation with the person's message; None if there
    were none. `run_id`: the run of this message.

    Idempotent: repeated for the same run, it returns the same grant.
    """
    at = clock()
    pending = session.exec(
        _ANSWERED, params={"mine": scope.user_id, "run": run_id, "conversation": conversation_id}
    ).all()
    if before := [record for record in pending if record.granted_run_id == run_id]:
        return _granted(before[0])
    for record in pending:
        record.closed_at = at
        session.add(record)
    last = pending[0] if pending else None
    if last is None:
        return None
    if _said(message) != last.phrase:
        return None if last.expires_at <= at else AnsweredConfirmations("cancelled")
    if last.expires_at <= at:
        return AnsweredConfirmations("expired", calls=_calls(last))
    if not _as_seen(session, scope, last):
        return AnsweredConfirmations("void", calls=_calls(last))
    last.granted_run_id = run_id
    return _granted(last)


def granted(session: Session, scope: Scope, run_id: str) -> AnsweredConfirmations | None:
    """Return the confirmation granted to this run, for a run that is resumed."""
    record = session.exec(
        select(Confirmation).where(
            Confirmation.user_id == scope.user_id, Confirmation.granted_run_id == run_id
        )
    ).first()
    return None if record is None else _granted(record)


def forget(session: Session, scope: Scope, conversation_id: str) -> None:
    """Delete the confirmations of a conversation."""
    session.exec(
        delete(Confirmation).where(
            col(Confirmation.user_id) == scope.user_id,
            col(Confirmation.conversation_id) == conversation_id,
        )
    )


def redeemed(
    session: Session, scope: Scope, code: str, held: HeldTaskCall, *, clock: Clock = now
) -> bool:
    """Redeem a code. True if it was issued for exactly this call, and its tasks are unchanged."""
    mine = select(Confirmation).where(
        Confirmation.user_id == scope.user_id,
        Confirmation.code_hash == _hash(code),
        col(Confirmation.closed_at).is_(None),
    )
    record = session.exec(mine.with_for_update()).first()
    if record is None:
        return False
    record.closed_at = clock()
    session.add(record)
    same = record.tool == held.tool and set(record.items) == {task.id for task in held.tasks}
    return (
        same
        and _same_wish(record, held)
        and record.expires_at > clock()
        and _as_seen(session, scope, record)
    )


# ---------------------------------------------------------------- records


def _record(scope: Scope, held: HeldTaskCall, at: datetime, **more: Any) -> Confirmation:
    record = Confirmation(
        user_id=scope.user_id,
        tool=held.tool,
        verb=held.verb,
        phrase="",
        created_at=at,
        expires_at=at + GOOD_FOR,
        **more,
    )
    _gather(record, held, at)
    return record


def _gather(record: Confirmation, held: HeldTaskCall, at: datetime) -> None:
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


def _gathering(
    session: Session,
    scope: Scope,
    conversation_id: str,
    run_id: str | None,
    held: HeldTaskCall,
    at: datetime,
) -> Confirmation | None:
    """Return the record to which this call belongs; other pending ones are closed."""
    mine: Confirmation | None = None
    for record in _open(session, scope, conversation_id):
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


def _open(session: Session, scope: Scope, conversation_id: str) -> Sequence[Confirmation]:
    """Return the open confirmations, newest first."""
    mine = select(Confirmation).where(
        Confirmation.user_id == scope.user_id, Confirmation.conversation_id == conversation_id
    )
    return session.exec(
        mine.where(col(Confirmation.closed_at).is_(None))
        .order_by(col(Confirmation.created_at).desc())
        .with_for_update()
    ).all()


def _replaced(
    session: Session, scope: Scope, conversation_id: str, run_id: str | None
) -> Sequence[Confirmation]:
    """Return questions of the same message that were replaced by another one, oldest first."""
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


def _titles(session: Session, scope: Scope, record: Confirmation) -> list[str]:
    """Return the titles of the record's tasks, in the order in which they were added."""
    mine = select(Task.id, Task.title).where(
        Task.user_id == scope.user_id, col(Task.id).in_(record.items)
    )
    titles = dict(session.exec(mine).all())
    return [titles[item] for item in record.items if item in titles]


def _as_seen(session: Session, scope: Scope, record: Confirmation) -> bool:
    """True if every task exists unchanged since the person was asked."""
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


def _same_wish(record: Confirmation, held: HeldTaskCall) -> bool:
    return all(one["arguments"] == dict(held.arguments) for one in record.arguments)


def _granted(record: Confirmation) -> AnsweredConfirmations:
    return AnsweredConfirmations(
        "granted", Grant(record.verb, frozenset(record.items)), _calls(record)
    )


def _calls(record: Confirmation) -> tuple[HeldCall, ...]:
    return tuple(HeldCall(one["tool"], dict(one["arguments"])) for one in record.arguments)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


# ---------------------------------------------------------------- wording


def _said(message: str) -> str:
    return unicodedata.normalize("NFKC", message).strip().casefold()


def _question(record: Confirmation, held: HeldTaskCall, titles: Sequence[str]) -> str:
    if record.phrase == "yes delete":
        return (
            f"Do you really want to delete {quoted(held.tasks[0].title)}? Reply 'yes delete' to "
            "confirm."
        )
    return (
        f"{held.verb.capitalize()} {_named(titles)}? That's a big action. Confirm with "
        f"'{record.phrase}'."
    )


def _put_off(record: Confirmation, titles: Sequence[str]) -> str:
    return (
        f" I can ask one thing at a time: I haven't {_DONE[record.verb]} {_named(titles)}, so "
        "please tell me that again afterwards."
    )


def _named(titles: Sequence[str]) -> str:
    shown = [
        quoted(title)
        for title in (titles if len(titles) <= NAMED_MOST else titles[: NAMED_MOST - 1])
    ]
    rest = [f"{len(titles) - len(shown)} more"] if len(titles) > len(shown) else []
    return joined([*shown, *rest])


def _question_of_client(held: HeldTaskCall) -> str:
    if len(held.tasks) == 1:
        return f"Do you really want to {held.verb} {quoted(held.tasks[0].title)}?"
    return f"That's a big action. Do you really want to {held.verb} all {len(held.tasks)} tasks?"
