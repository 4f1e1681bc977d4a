"""Sessions in memory, as a view of their runs.

Entry point: `SessionStore`.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from treadle.errors import AgentError
from treadle.journal.receipts import Said, folded
from treadle.journal.session_names import NEW_SESSION, check_session_id, excerpt_of, title_of
from treadle.journal.sessions import NO_MARK, SearchHit, SessionInfo, Sessions, ViewMark, spoken
from treadle.messages.message import Message, decode_message, encode_message
from treadle.types import new_id, now

_encoded = msgspec.msgpack.Decoder(list[bytes])


@dataclass(slots=True)
class _Conversation:
    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    changed: int
    """Increases with every change of any session."""
    count: int = 0
    left: list[bytes] = field(default_factory=list[bytes])
    """Messages that have left the view; some may also be in `packed`."""
    packed: list[bytes] = field(default_factory=list[bytes])
    """Compressed messages, those added together in one piece. An idle conversation takes a tenth of
    the space.
    """
    found: dict[str, tuple[bytes, ...]] = field(default_factory=dict[str, tuple[bytes, ...]])
    """Run id -> messages in view when that run began."""
    gone: set[str] = field(default_factory=set[str])
    """Ids of runs that began before the session was cleared."""

    def info(self) -> SessionInfo:
        return SessionInfo(
            id=self.id,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            message_count=self.count,
        )


class SessionStore:
    """Sessions in memory.

    Every method may be called from any thread: the lock guards the two dictionaries and each list
    of messages.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[str, _Conversation] = {}
        """Conversations in the order of their last change. Clocks are too coarse to order them."""
        self._changes = 0
        self._current: str | None = None

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        """Create a session and make it the current one.

        Raises AgentError(invalid) if the id is taken or not valid.
        """
        with self._lock:
            key = session_id if session_id is not None else new_id("session")
            if key in self._sessions:
                raise AgentError("invalid", f"session {key!r} already exists")
            check_session_id(key)
            at = now()
            self._changes += 1
            made = self._sessions[key] = _Conversation(
                key, title.strip() or NEW_SESSION, at, at, self._changes
            )
            self._current = key
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
        packed = _packed(whole)
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.packed.append(packed)
            found.count += len(whole)
            named = (m.text for m in whole if m.role == "user" and m.text.strip())
            if found.title == NEW_SESSION:
                found.title = title_of(next(named, ""))
            self._touch(found)
            return True

    def begin(self, session_id: str, run_id: str) -> None:
        """Record the messages in view as those with which the run began."""
        with self._lock:
            if (found := self._sessions.get(session_id)) is not None:
                found.found[run_id] = (*found.packed,)
                self._touch(found)

    def mark(self, session_id: str) -> ViewMark:
        """Return a mark of the current view, which changes with the view."""
        with self._lock:
            found = self._sessions.get(session_id)
            return NO_MARK if found is None else ViewMark(found.changed)

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        """Return a copy of the messages in view, oldest first; empty if there is no such session.

        `before`: those in view when that run of the session began.
        """
        with self._lock:
            found = self._sessions.get(session_id)
            packed: Sequence[bytes] = (
                [] if found is None else found.found.get(before or "", (*found.packed,))
            )
        return _unpacked(packed)

    def everything(self, session_id: str) -> Sequence[Message]:
        """Return all messages, including those that compaction removed from view."""
        with self._lock:
            found = self._sessions.get(session_id)
            left, packed = ((), ()) if found is None else ((*found.left,), (*found.packed,))
        if not left:
            return _unpacked(packed)
        first: dict[str, Message] = {}
        for message in _unpacked((*left, *packed)):
            # keep the original, because the message in view may have lost its results
            first.setdefault(message.id, message)
        return [*first.values()]

    def remember(self, session_id: str, said: Sequence[Said], *, run_id: str) -> None:
        """Record messages of an ended run, unless the session was cleared since it began."""
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None or run_id not in found.found or run_id in found.gone:
                return
            messages = [one for one in said if isinstance(one, Message)]
            if len(messages) < len(said):
                view = folded(_unpacked(found.packed), said)
                found.left += [*found.packed, _packed(spoken(said))]
                found.packed, found.count, messages = [_packed(view)], len(view), []
            self.add_messages(session_id, messages)

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Search every message. Suitable for thousands of messages, not millions."""
        wanted = words.casefold().split()
        found: dict[str, SearchHit] = {}
        with self._lock:
            sessions = (
                [(s.info(), [*s.left, *s.packed]) for s in self._sessions.values()]
                if wanted
                else []
            )
        for info, packed in sessions:
            for message in _unpacked(packed):
                if message.role in ("user", "assistant") and all(
                    word in message.text.casefold() for word in wanted
                ):
                    excerpt = excerpt_of(message.text, wanted[0])
                    found[message.id] = SearchHit(
                        session_id=info.id,
                        title=info.title,
                        role=message.role,
                        at=message.created_at,
                        excerpt=excerpt,
                    )
        return sorted(found.values(), key=lambda hit: hit.at, reverse=True)[:limit]

    def clear_messages(self, session_id: str) -> bool:
        """Remove all messages from view; False if there is no such session."""
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.packed.clear()
            found.left.clear()
            found.gone.update(found.found)
            found.count = 0
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

    def _touch(self, changed: _Conversation) -> None:
        self._changes += 1
        changed.updated_at, changed.changed = now(), self._changes
        self._sessions[changed.id] = self._sessions.pop(changed.id)


def _packed(messages: Sequence[Message]) -> bytes:
    return zlib.compress(
        msgspec.msgpack.encode([encode_message(message) for message in messages]), level=1
    )


def _unpacked(packed: Iterable[bytes]) -> list[Message]:
    return [
        decode_message(data) for piece in packed for data in _encoded.decode(zlib.decompress(piece))
    ]


if TYPE_CHECKING:
    _: type[Sessions] = SessionStore
