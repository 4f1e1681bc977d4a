"""What was said, and which runs answer it: every query over conversations, messages and served runs, in one user's scope.

Synchronous, inside a transaction of `Database.run`. Not here: routes (conversations.py), what a run is (chat.py). Entry: `ConversationStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, update
from sqlmodel import Session, col, select

from treadle.database.scope import Scope
from treadle.database.tables import ChatMessage, Conversation, ServedRun
from treadle.tasks.context import MessageHistory
from treadle.types import now

HISTORY_MOST: Final = 50
"""Messages that a run is told of."""
SHOWN_MOST: Final = 200
TITLE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Asked:
    """A message of a person that was stored, with the run that is to answer it."""

    conversation_id: str
    message: str
    run_id: str
    history: tuple[MessageHistory, ...] = ()
    """What was said before it, oldest first."""
    answer: ChatMessage | None = None
    """Where there is one already."""


class ConversationStore:
    """Sees one user's rows; what is somebody else's is not there."""

    def __init__(self, session: Session, scope: Scope) -> None:
        self._session, self._user_id = session, scope.user_id

    # ------------------------------------------------------------ conversations

    def all(self, *, limit: int, before: datetime | None = None) -> list[Conversation]:
        """Newest first, by their last message."""
        wanted = select(Conversation).where(col(Conversation.user_id) == self._user_id)
        if before is not None:
            wanted = wanted.where(col(Conversation.updated_at) < before)
        return [*self._session.exec(wanted.order_by(col(Conversation.updated_at).desc(), col(Conversation.id)).limit(limit))]

    def get(self, conversation_id: str, *, lock: bool = False) -> Conversation | None:
        """`lock`: nobody else changes it before this transaction ends."""
        wanted = select(Conversation).where(col(Conversation.user_id) == self._user_id, col(Conversation.id) == conversation_id)
        return self._session.exec(wanted.with_for_update() if lock else wanted).first()

    def delete(self, conversation_id: str) -> bool:
        """With all that was said in it; False where it is not there."""
        if (found := self.get(conversation_id, lock=True)) is None:
            return False
        for table in (ChatMessage, ServedRun):
            self._session.exec(delete(table).where(col(table.user_id) == self._user_id, col(table.conversation_id) == conversation_id))
        self._session.delete(found)
        return True

    def messages(self, conversation_id: str, *, limit: int = SHOWN_MOST, before: int | None = None) -> list[ChatMessage]:
        """The last ones, oldest first; `before`: those under this number."""
        wanted = select(ChatMessage).where(col(ChatMessage.user_id) == self._user_id, col(ChatMessage.conversation_id) == conversation_id)
        if before is not None:
            wanted = wanted.where(col(ChatMessage.number) < before)
        return [*self._session.exec(wanted.order_by(col(ChatMessage.number).desc()).limit(limit))][::-1]

    # ------------------------------------------------------------ a message, and its answer

    def ask(self, conversation: Conversation | None, message: str, run_id: str, agent: str) -> Asked:
        """Stores a person's message and the run that is to answer it; in a new conversation where none is given."""
        if conversation is None:
            conversation = Conversation(user_id=self._user_id, title=title_of(message))
            self._session.add(conversation)
            self._session.flush()
        history = self.messages(conversation.id, limit=HISTORY_MOST)
        self._say(conversation, ChatMessage(role="user", content=message, run_id=run_id, **self._in(conversation.id)), after=history)
        self._session.add(ServedRun(user_id=self._user_id, run_id=run_id, agent=agent, conversation_id=conversation.id))
        return Asked(conversation.id, message, run_id, _as_history(history))

    def asked(self, run_id: str) -> Asked | None:
        """What a run of a conversation was started for; None where its message is not there any more."""
        rows = [*self._session.exec(select(ChatMessage).where(col(ChatMessage.user_id) == self._user_id, col(ChatMessage.run_id) == run_id))]
        said, answer = (next((row for row in rows if row.role == role), None) for role in ("user", "assistant"))
        if said is None:
            return None
        before = self.messages(said.conversation_id, limit=HISTORY_MOST, before=said.number)
        return Asked(said.conversation_id, said.content, run_id, _as_history(before), answer)

    def answer(self, run_id: str, text: str, tool_calls: Sequence[dict[str, Any]]) -> None:
        """Stores the reply of a run, once, and that the run is over. Nothing happens where the conversation is gone."""
        asked = self.asked(run_id)
        conversation = None if asked is None else self.get(asked.conversation_id, lock=True)
        if asked is not None and conversation is not None and asked.answer is None:
            row = ChatMessage(role="assistant", content=text, tool_calls=[*tool_calls], run_id=run_id, **self._in(conversation.id))
            self._say(conversation, row, after=self.messages(conversation.id, limit=1))
        self.finish(run_id)

    def _in(self, conversation_id: str) -> dict[str, Any]:
        return {"user_id": self._user_id, "conversation_id": conversation_id, "number": 0}

    def _say(self, conversation: Conversation, row: ChatMessage, *, after: Sequence[ChatMessage]) -> None:
        row.number = after[-1].number + 1 if after else 1
        conversation.updated_at = row.created_at
        self._session.add(conversation)
        self._session.add(row)

    # ------------------------------------------------------------ runs

    def add_run(self, run_id: str, agent: str) -> None:
        self._session.add(ServedRun(user_id=self._user_id, run_id=run_id, agent=agent))

    def run(self, run_id: str) -> ServedRun | None:
        return self._session.exec(select(ServedRun).where(col(ServedRun.user_id) == self._user_id, col(ServedRun.run_id) == run_id)).first()

    def runs(self, *, limit: int, before: datetime | None = None) -> list[ServedRun]:
        """Newest first."""
        wanted = select(ServedRun).where(col(ServedRun.user_id) == self._user_id)
        if before is not None:
            wanted = wanted.where(col(ServedRun.created_at) < before)
        return [*self._session.exec(wanted.order_by(col(ServedRun.created_at).desc(), col(ServedRun.run_id).desc()).limit(limit))]

    def newest_run(self, conversation_id: str) -> ServedRun | None:
        wanted = select(ServedRun).where(col(ServedRun.user_id) == self._user_id, col(ServedRun.conversation_id) == conversation_id)
        return self._session.exec(wanted.order_by(col(ServedRun.created_at).desc(), col(ServedRun.run_id).desc()).limit(1)).first()

    def unfinished(self) -> list[ServedRun]:
        """Oldest first."""
        wanted = select(ServedRun).where(col(ServedRun.user_id) == self._user_id, col(ServedRun.finished_at).is_(None))
        return [*self._session.exec(wanted.order_by(col(ServedRun.created_at)))]

    def finish(self, run_id: str) -> None:
        """Idempotent."""
        mine = (col(ServedRun.user_id) == self._user_id, col(ServedRun.run_id) == run_id, col(ServedRun.finished_at).is_(None))
        self._session.exec(update(ServedRun).where(*mine).values(finished_at=now()))


def title_of(message: str) -> str:
    """Its first line, cut at a word."""
    line = " ".join(message.split())
    if len(line) <= TITLE_CHARS:
        return line
    cut = line[: TITLE_CHARS - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def _as_history(rows: Sequence[ChatMessage]) -> tuple[MessageHistory, ...]:
    return tuple(MessageHistory("user" if row.role == "user" else "assistant", row.content, row.created_at, row.tool_calls or None) for row in rows)
