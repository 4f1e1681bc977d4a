"""Conversations of many runs: the store that keeps them in memory.

Who runs in a session, and when, is the runtime's business (runtime.py). Entry: `SessionStore`.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from treadle.errors import AgentError
from treadle.message import Message, decode_message, encode_message
from treadle.types import new_id, now

MAX_SESSION_MESSAGES = 100
"""Messages that a session keeps in view by default."""
NEW_SESSION = "New Session"
TITLE_CHARS = 60
JOINER = "\u200d"
"""Holds emoji together; cannot be shown by itself."""

_encoded = msgspec.msgpack.Decoder(list[bytes])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as a list shows it."""

    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    message_count: int


@dataclass(slots=True)
class _Conversation:
    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    count: int = 0
    packed: list[bytes] = field(default_factory=list[bytes])
    """The messages, what was added at once together: an idle conversation is a tenth of the size of its values."""

    def info(self) -> SessionInfo:
        return SessionInfo(id=self.id, title=self.title, created_at=self.created_at, updated_at=self.updated_at, message_count=self.count)


class SessionStore:
    """Sessions in memory. Every method is safe from any thread (the lock guards the two dictionaries and each list of messages)."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[str, _Conversation] = {}
        """In the order of their last change: clocks are too coarse to tell."""
        self._current: str | None = None

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        """A new session, which becomes the current one. Raises AgentError(invalid) where the id is taken or is no id."""
        with self._lock:
            key = session_id if session_id is not None else new_id("session")
            if key in self._sessions:
                raise AgentError("invalid", f"there is a session {key!r} already")
            check_session_id(key)
            at = now()
            made = self._sessions[key] = _Conversation(key, title.strip() or NEW_SESSION, at, at)
            self._current = key
            return made.info()

    def get(self, session_id: str) -> SessionInfo | None:
        with self._lock:
            found = self._sessions.get(session_id)
            return None if found is None else found.info()

    def current(self) -> SessionInfo:
        """The current session, made on first use."""
        with self._lock:
            found = self._sessions.get(self._current or "")
            return self.create() if found is None else found.info()

    def set_current(self, session_id: str) -> bool:
        """False where there is no such session."""
        with self._lock:
            if session_id not in self._sessions:
                return False
            self._current = session_id
            return True

    def list(self) -> list[SessionInfo]:
        """The last one that changed first."""
        with self._lock:
            return [session.info() for session in reversed(self._sessions.values())]

    def delete(self, session_id: str) -> bool:
        """False where there was none."""
        with self._lock:
            return self._sessions.pop(session_id, None) is not None

    def add_message(self, session_id: str, message: Message) -> bool:
        return self.add_messages(session_id, [message])

    def add_messages(self, session_id: str, messages: Iterable[Message]) -> bool:
        """All of them, in order, or none; False where there is no such session. The first message of a person names an unnamed one."""
        whole = [*messages]
        packed = zlib.compress(msgspec.msgpack.encode([encode_message(message) for message in whole]), level=1)
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

    def get_messages(self, session_id: str) -> Sequence[Message]:
        """A copy, oldest first; empty where there is no such session."""
        with self._lock:
            found = self._sessions.get(session_id)
            packed = [] if found is None else [*found.packed]
        return [decode_message(data) for piece in packed for data in _encoded.decode(zlib.decompress(piece))]

    def clear_messages(self, session_id: str) -> bool:
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.packed.clear()
            found.count = 0
            self._touch(found)
            return True

    def update_title(self, session_id: str, title: str) -> bool:
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.title = title.strip() or NEW_SESSION
            self._touch(found)
            return True

    def _touch(self, changed: _Conversation) -> None:
        changed.updated_at = now()
        self._sessions[changed.id] = self._sessions.pop(changed.id)


def title_of(text: str) -> str:
    """The first line that says something, at most 60 characters of it, without what cannot be shown."""
    line = next((shown for line in text.splitlines() if (shown := _shown(line))), NEW_SESSION)
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def _shown(line: str) -> str:
    words = " ".join(line[: 20 * TITLE_CHARS].split())
    return " ".join("".join(c for c in words if c.isprintable() or c == JOINER).split())


def check_session_id(session_id: str) -> None:
    """A session's id is an id, never a path. Raises AgentError(invalid)."""
    if not session_id or len(session_id) > 128 or any(c in "/\\\0" or not c.isprintable() for c in session_id) or session_id in (".", ".."):
        raise AgentError("invalid", f"{session_id!r} is no session id: use up to 128 printable characters without slashes")
