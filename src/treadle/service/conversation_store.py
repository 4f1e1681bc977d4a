"""Queries over conversations, messages and served runs, in one user's scope.

Synchronous, inside a transaction of `Database.run`. See also: routes (conversations.py), the runs
(chat.py). Entry point: `ConversationStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

from sqlalchemy import Update, bindparam, delete, update
from sqlmodel import Session, col, select

from treadle.service.database.guard import execute, insert_row
from treadle.service.database.scope import Scope
from treadle.service.database.tables import (
    ChatMessage,
    Conversation,
    ServedRun,
    new_row_id,
)
from treadle.service.stored_messages import StoredMessage, Unsettled, as_history, title_of
from treadle.types import now

HISTORY_MOST: Final = 20
"""Number of earlier messages given to a run."""
SHOWN_MOST: Final = 200

# Statements that every answered message executes, built once: building one costs more than
# executing it.
_TOUCHED: Final = (
    update(Conversation)
    .where(
        col(Conversation.user_id) == bindparam("mine"),
        col(Conversation.id) == bindparam("conversation"),
    )
    .values(updated_at=bindparam("at"))
    .execution_options(synchronize_session=False)
)
_FINISHED: Final = (
    update(ServedRun)
    .where(
        col(ServedRun.user_id) == bindparam("mine"),
        col(ServedRun.run_id) == bindparam("run"),
        col(ServedRun.finished_at).is_(None),
    )
    .values(finished_at=bindparam("at"))
    .execution_options(synchronize_session=False)
)
_LAST_SAID: Final[Any] = (
    # select() is typed for at most four columns
    cast("Any", select)(
        ChatMessage.number,
        ChatMessage.role,
        ChatMessage.content,
        ChatMessage.created_at,
        ChatMessage.run_id,
    )
    .where(
        col(ChatMessage.user_id) == bindparam("mine"),
        col(ChatMessage.conversation_id) == bindparam("conversation"),
    )
    .where(col(ChatMessage.number) < bindparam("before"))
    .order_by(col(ChatMessage.number).desc())
    .limit(HISTORY_MOST)
)
_NO_NUMBER: Final = 2**31 - 1


class ConversationStore:
    """Access to one user's rows; other users' rows are invisible."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session, self._user_id = session, scope.user_id

    # ------------------------------------------------------------ conversations

    def all(self, *, limit: int, before: datetime | None = None) -> list[Conversation]:
        """Return conversations, most recent message first."""
        wanted = select(Conversation).where(col(Conversation.user_id) == self._user_id)
        if before is not None:
            wanted = wanted.where(col(Conversation.updated_at) < before)
        return [
            *self._session.exec(
                wanted.order_by(col(Conversation.updated_at).desc(), col(Conversation.id)).limit(
                    limit
                )
            )
        ]

    def get(self, conversation_id: str, *, lock: bool = False) -> Conversation | None:
        """Return a conversation, or None if it does not exist. `lock`: lock the row until the
        transaction ends.
        """
        wanted = select(Conversation).where(
            col(Conversation.user_id) == self._user_id, col(Conversation.id) == conversation_id
        )
        return self._session.exec(wanted.with_for_update() if lock else wanted).first()

    def delete(self, conversation_id: str) -> bool:
        """Delete a conversation with its messages. Return False if it does not exist."""
        if (found := self.get(conversation_id, lock=True)) is None:
            return False
        for table in (ChatMessage, ServedRun):
            self._session.exec(
                delete(table).where(
                    col(table.user_id) == self._user_id,
                    col(table.conversation_id) == conversation_id,
                )
            )
        self._session.delete(found)
        return True

    def messages(self, conversation_id: str) -> list[ChatMessage]:
        """Return the last 200 messages, oldest first."""
        wanted = select(ChatMessage).where(
            col(ChatMessage.user_id) == self._user_id,
            col(ChatMessage.conversation_id) == conversation_id,
        )
        return [
            *self._session.exec(wanted.order_by(col(ChatMessage.number).desc()).limit(SHOWN_MOST))
        ][::-1]

    # ------------------------------------------------------------ messages and answers

    def ask(
        self,
        conversation_id: str | None,
        message: str,
        run_id: str,
        agent: str,
        *,
        journal: str = "",
    ) -> StoredMessage | None:
        """Store a user's message and the run that will answer it in `journal`. A `conversation_id`
        of None begins a conversation.

        Return None if the conversation does not exist. Raises Unsettled.
        """
        at, before = now(), list[Any]()
        if conversation_id is None:
            conversation_id = new_row_id()
            insert_row(
                self._session,
                Conversation,
                {
                    "id": conversation_id,
                    "title": title_of(message),
                    "created_at": at,
                    "updated_at": at,
                },
            )
        elif not self._touch(conversation_id, at):
            return None
        else:
            before = self._last_said(conversation_id)
            self._check_settled(before)
        asked = StoredMessage(
            conversation_id,
            message,
            before[0].number + 1 if before else 1,
            run_id,
            as_history(before),
        )
        self._say(asked, asked.number, "user", message, (), at)
        insert_row(
            self._session,
            ServedRun,
            {
                "run_id": run_id,
                "agent": agent,
                "conversation_id": conversation_id,
                "journal": journal,
                "created_at": at,
                "finished_at": None,
            },
        )
        return asked

    def asked(self, run_id: str) -> StoredMessage | None:
        """Return the message that a run was started for, or None if it no longer exists."""
        rows = [
            *self._session.exec(
                select(ChatMessage).where(
                    col(ChatMessage.user_id) == self._user_id, col(ChatMessage.run_id) == run_id
                )
            )
        ]
        said, answer = (
            next((row for row in rows if row.role == role), None) for role in ("user", "assistant")
        )
        if said is None:
            return None
        before = self._last_said(said.conversation_id, before=said.number)
        return StoredMessage(
            said.conversation_id,
            said.content,
            said.number,
            run_id,
            as_history(before),
            answer,
        )

    def answer(self, asked: StoredMessage, text: str, tool_calls: Sequence[dict[str, Any]]) -> None:
        """Store the reply of a run once, and mark the run as finished. Does nothing if the
        conversation was deleted.
        """
        at = now()
        if self.finish(asked.run_id, at) and self._touch(asked.conversation_id, at):
            self._say(asked, asked.number + 1, "assistant", text, tool_calls, at)

    def _touch(self, conversation_id: str, at: datetime) -> bool:
        """Update the conversation's time, which locks it until the transaction ends. Return False
        if it does not exist.
        """
        return self._changed(_TOUCHED, conversation=conversation_id, at=at)

    def _last_said(self, conversation_id: str, *, before: int = _NO_NUMBER) -> list[Any]:
        """Return the last messages, newest first."""
        return [
            *execute(
                self._session,
                _LAST_SAID,
                {"mine": self._user_id, "conversation": conversation_id, "before": before},
            )
        ]

    def _check_settled(self, before: Sequence[Any]) -> None:
        """Raise Unsettled unless the previous run is finished. A reply is stored with the end of
        its run.
        """
        if (
            before
            and before[0].role == "user"
            and (run := self.run(before[0].run_id)) is not None
            and run.finished_at is None
        ):
            raise Unsettled(run.run_id)

    def _say(
        self,
        asked: StoredMessage,
        number: int,
        role: str,
        content: str,
        tool_calls: Sequence[dict[str, Any]],
        at: datetime,
    ) -> None:
        said = {
            "number": number,
            "role": role,
            "content": content,
            "tool_calls": [*tool_calls],
            "created_at": at,
        }
        insert_row(
            self._session,
            ChatMessage,
            {
                "id": new_row_id(),
                "conversation_id": asked.conversation_id,
                "run_id": asked.run_id,
                **said,
            },
        )

    def _changed(self, statement: Update, **values: Any) -> bool:
        return bool(execute(self._session, statement, {"mine": self._user_id, **values}).rowcount)

    # ------------------------------------------------------------ runs

    def add_run(self, run_id: str, agent: str) -> None:
        self._session.add(ServedRun(user_id=self._user_id, run_id=run_id, agent=agent))

    def run(self, run_id: str) -> ServedRun | None:
        return self._session.exec(
            select(ServedRun).where(
                col(ServedRun.user_id) == self._user_id, col(ServedRun.run_id) == run_id
            )
        ).first()

    def runs(self, *, limit: int, before: datetime | None = None) -> list[ServedRun]:
        """Return runs, newest first."""
        wanted = select(ServedRun).where(col(ServedRun.user_id) == self._user_id)
        if before is not None:
            wanted = wanted.where(col(ServedRun.created_at) < before)
        return [
            *self._session.exec(
                wanted.order_by(
                    col(ServedRun.created_at).desc(), col(ServedRun.run_id).desc()
                ).limit(limit)
            )
        ]

    def runs_of(self, conversation_id: str) -> list[ServedRun]:
        """Return all runs that answer messages of a conversation."""
        wanted = select(ServedRun).where(
            col(ServedRun.user_id) == self._user_id,
            col(ServedRun.conversation_id) == conversation_id,
        )
        return [*self._session.exec(wanted)]

    def newest_run(self, conversation_id: str) -> ServedRun | None:
        wanted = select(ServedRun).where(
            col(ServedRun.user_id) == self._user_id,
            col(ServedRun.conversation_id) == conversation_id,
        )
        return self._session.exec(
            wanted.order_by(col(ServedRun.created_at).desc(), col(ServedRun.run_id).desc()).limit(1)
        ).first()

    def unfinished(self) -> list[ServedRun]:
        """Return unfinished runs, oldest first."""
        wanted = select(ServedRun).where(
            col(ServedRun.user_id) == self._user_id, col(ServedRun.finished_at).is_(None)
        )
        return [*self._session.exec(wanted.order_by(col(ServedRun.created_at)))]

    def finish(self, run_id: str, at: datetime | None = None) -> bool:
        """Mark a run as finished. Return False if it already is, or does not exist."""
        return self._changed(_FINISHED, run=run_id, at=at or now())
