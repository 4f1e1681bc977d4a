"""Confirmation of bulk and irreversible changes: server-side records of questions and answers,
which a model cannot create.

Everything runs inside a transaction. In a chat the person's next message answers (`asked`,
`answered`); a plain MCP client uses a single-use code (`asked`, `redeemed`). acts.py decides what
needs confirmation.
"""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy import bindparam, or_
from sqlmodel import Session, col, delete, select

from treadle.apps.assistant.confirmation_records import (
    OPEN_HERE,
    AnsweredConfirmations,
    Clock,
    HeldTaskCall,
    answers_of,
    calls_of,
    code_hash,
    gather,
    gathering,
    is_as_seen,
    is_same_wish,
    new_record,
    replace_open,
    titles_of,
)
from treadle.apps.assistant.reply_lists import joined, quoted
from treadle.apps.assistant.tables import Confirmation
from treadle.service.database.scope import Scope
from treadle.types import now

_FORGOTTEN_AFTER: Final = timedelta(hours=1)
"""Age at which unanswered questions are deleted."""
_CODE_BYTES: Final = 12
_DONE: Final[Mapping[str, str]] = {
    "delete": "deleted",
    "complete": "completed",
    "update": "changed",
}
NAMED_MOST: Final = 4
"""Maximum number of tasks that a question names. For more, it gives their number."""
_ANSWERED: Final = (
    select(Confirmation)
    .where(
        col(Confirmation.user_id) == bindparam("mine"),
        or_(col(Confirmation.granted_run_id) == bindparam("run"), OPEN_HERE),
    )
    .order_by(col(Confirmation.created_at).desc())
    .with_for_update()
)
"""SQL statement that every message executes, built once."""


@dataclass(frozen=True, slots=True)
class ConfirmationQuestion:
    text: str
    code: str | None = None
    """Code for a plain MCP client; only its hash is stored."""


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
        session.add(new_record(scope, held, at, code_hash=code_hash(code)))
        return ConfirmationQuestion(_question_of_client(held), code)
    record = gathering(session, scope, conversation_id, run_id, held, at)
    if record is None:
        record = new_record(scope, held, at, conversation_id=conversation_id, run_id=run_id)
    else:
        gather(record, held, at)
    session.add(record)
    replaced = "".join(
        _put_off(one, titles_of(session, scope, one))
        for one in replace_open(session, scope, conversation_id, run_id)
        if one.id != record.id
    )
    return ConfirmationQuestion(
        _question(record, held, titles_of(session, scope, record)) + replaced
    )


def answered(
    session: Session,
    scope: Scope,
    conversation_id: str,
    message: str,
    run_id: str,
    *,
    clock: Clock = now,
) -> AnsweredConfirmations | None:
    """Close the conversation's pending confirmations with the person's message. Return None if
    there were none. `run_id`: the run of this message.

    Idempotent: another call for the same run returns the same grant.
    """
    at = clock()
    pending = session.exec(
        _ANSWERED, params={"mine": scope.user_id, "run": run_id, "conversation": conversation_id}
    ).all()
    if before := [record for record in pending if record.granted_run_id == run_id]:
        return answers_of(before[0])
    for record in pending:
        record.closed_at = at
        session.add(record)
    last = pending[0] if pending else None
    if last is None:
        return None
    if _said(message) != last.phrase:
        return None if last.expires_at <= at else AnsweredConfirmations("cancelled")
    if last.expires_at <= at:
        return AnsweredConfirmations("expired", calls=calls_of(last))
    if not is_as_seen(session, scope, last):
        return AnsweredConfirmations("void", calls=calls_of(last))
    last.granted_run_id = run_id
    return answers_of(last)


def granted(session: Session, scope: Scope, run_id: str) -> AnsweredConfirmations | None:
    """Return the confirmation granted to this run, for a run that is resumed; None if there is
    none.
    """
    record = session.exec(
        select(Confirmation).where(
            Confirmation.user_id == scope.user_id, Confirmation.granted_run_id == run_id
        )
    ).first()
    return None if record is None else answers_of(record)


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
    """Redeem a code. Return True if it was issued for exactly this call, and its tasks are
    unchanged.
    """
    mine = select(Confirmation).where(
        Confirmation.user_id == scope.user_id,
        Confirmation.code_hash == code_hash(code),
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
        and is_same_wish(record, held)
        and record.expires_at > clock()
        and is_as_seen(session, scope, record)
    )


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
