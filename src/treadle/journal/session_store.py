"""Sessions in memory, as a view of their runs.

Entry point: `SessionStore`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.errors import AgentError
from treadle.journal.conversation import StoredConversation, all_messages, pieces_of, unpacked
from treadle.journal.receipts import Said
from treadle.journal.session_names import NEW_SESSION, check_session_id, excerpt_of
from treadle.journal.sessions import NO_MARK, SearchHit, SessionInfo, Sessions, ViewMark
from treadle.messages.message import Message
from treadle.types import new_id, now


class SessionStore:
    """Sessions in memory.

    Every method may be called from any thread: the lock guards the two dictionaries and each list
    of messages.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[str, StoredConversation] = {}
        """Conversations in the order of their last change. Clocks are too coarse to order them."""
        self._changes = 0
        self._current: str | None = None

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        """Create a session and make it the current one.

        Raises AgentError(invalid) if the id is taken or not valid.
        """
        with self._lock:
            made = self.make(title, session_id if session_id is not None else new_id("session"))
            self._current = made.id
            return made

    def make(self, title: str, session_id: str) -> SessionInfo:
        """Create the session of a run. The current one stays. Raises the errors of `create`."""
        with self._lock:
            if session_id in self._sessions:
                raise AgentError("invalid", f"session {session_id!r} already exists")
            check_session_id(session_id)
            at = now()
            self._changes += 1
            made = self._sessions[session_id] = StoredConversation(
                session_id, title.strip() or NEW_SESSION, at, at, self._changes
            )
            return made.info()

    def get(self, session_id: str) -> SessionInfo | None:
        """Return a session's metadata, or None if there is no such session."""
        with self._lock:
            found = self._sessions.get(session_id)
            return None if found is None else found.info()

    def current(self) -> SessionInfo:
        """Return the current session, creating it on first use."""
        with self._lock:
            found = self._sessions.get(self._current or "")
            return self.create() if found is None else found.info()

    def set_current(self, session_id: str) -> bool:
        """Set the current session; False if there is no such session."""
        with self._lock:
            if session_id not in self._sessions:
                return False
            self._current = session_id
            return True

    def list(self) -> list[SessionInfo]:
        """Return all sessions, most recently changed first."""
        with self._lock:
            return [session.info() for session in reversed(self._sessions.values())]

    def delete(self, session_id: str) -> bool:
        """Delete a session; False if there is none."""
        with self._lock:
            return self._sessions.pop(session_id, None) is not None

    def add_message(self, session_id: str, message: Message) -> bool:
        """Append one message; False if there is no such session."""
        return self.add_messages(session_id, [message])

    def add_messages(self, session_id: str, messages: Iterable[Message]) -> bool:
        """Append all messages in order, or none; False if there is no such session.

        The user's first message names an unnamed session.
        """
        whole = [*messages]
        pieces = pieces_of(whole)
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.add(whole, pieces)
            found.name(whole)
            self._touch(found)
            return True

    def begin(self, session_id: str, run_id: str) -> None:
        """Record the messages in view as those with which the run began."""
        with self._lock:
            if (found := self._sessions.get(session_id)) is not None:
                found.begin(run_id)
                self._touch(found)

    def mark(self, session_id: str) -> ViewMark:
        """Return a mark of the current view, which changes with the view."""
        with self._lock:
            found = self._sessions.get(session_id)
            return NO_MARK if found is None else ViewMark(found.changed, found.removed)

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        """Return a copy of the messages in view, oldest first; empty if there is no such session.

        `before`: those in view when that run of the session began.
        """
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return []
            if before is None:
                packed: Sequence[bytes] = (*found.packed,)
            else:  # none if the session has been deleted since, and recreated
                past = found.found.get(before)
                packed = () if past is None else past.view()
        return unpacked(packed)

    def everything(self, session_id: str) -> Sequence[Message]:
        """Return all messages, including those that compaction removed from view."""
        with self._lock:
            found = self._sessions.get(session_id)
            pieces, packed = ((), ()) if found is None else found.everything()
        return all_messages(pieces, packed)

    def remember(self, session_id: str, said: Sequence[Said], *, run_id: str) -> None:
        """Record messages of an ended run, unless the session was cleared since it began."""
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None or run_id not in found.found:
                return
            if run_id not in found.gone:
                found.remember(run_id, said)
            self._touch(found)

    def forget(self, session_id: str, run_ids: Collection[str]) -> None:
        """Remove the messages and compactions of removed runs, and the session if nothing is left.

        Forks of later runs in other sessions keep a copy of the messages, unlike on disk.
        """
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None or found.found.keys().isdisjoint(run_ids):
                return
            found.forget(run_ids)
            if not (found.found or found.gone or any(found.pieces)):
                del self._sessions[session_id]

    def runs_before(self, session_id: str, run_id: str) -> set[str]:
        """Return the ids of the runs whose messages precede a run of the session."""
        with self._lock:
            found = self._sessions.get(session_id)
            past = None if found is None else found.found.get(run_id)
            pieces = [] if past is None else past.pieces[: past.count]
        return {piece.run_id for piece in pieces if piece}

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Search every message. Suitable for thousands of messages, not millions."""
        wanted = words.casefold().split()
        found: dict[str, SearchHit] = {}
        with self._lock:
            sessions = (
                [(s.info(), s.everything()) for s in self._sessions.values()] if wanted else []
            )
        # a fork has copies of messages of its origin, which is older
        for info, told in sorted(sessions, key=lambda one: one[0].created_at):
            for message in all_messages(*told):
                if message.role in ("user", "assistant") and all(
                    word in message.text.casefold() for word in wanted
                ):
                    excerpt = excerpt_of(message.text, wanted[0])
                    hit = SearchHit(
                        session_id=info.id,
                        title=info.title,
                        role=message.role,
                        at=message.created_at,
                        excerpt=excerpt,
                    )
                    found.setdefault(message.id, hit)
        return sorted(found.values(), key=lambda hit: hit.at, reverse=True)[:limit]

    def clear_messages(self, session_id: str) -> bool:
        """Remove all messages from view; False if there is no such session."""
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.clear()
            self._touch(found)
            return True

    def update_title(self, session_id: str, title: str) -> bool:
        """Set the title; False if there is no such session."""
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.title = title.strip() or NEW_SESSION
            self._touch(found)
            return True

    def _touch(self, changed: StoredConversation) -> None:
        self._changes += 1
        changed.updated_at, changed.changed = now(), self._changes
        self._sessions[changed.id] = self._sessions.pop(changed.id)


if TYPE_CHECKING:
    _: type[Sessions] = SessionStore
