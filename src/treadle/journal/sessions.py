"""Conversations of many runs: what a store of them can do, and the one that keeps them in memory.

Who runs in a session, and when, is the runtime's business (runtime.py); what of a long one is in
view, window.py's. Entry: `Sessions`, `SessionStore`.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import msgspec

from treadle.errors import AgentError
from treadle.journal.receipts import Said, Summary, folded
from treadle.messages.message import Message, decode_message, encode_message
from treadle.types import new_id, now

NEW_SESSION = "New Session"
TITLE_CHARS = 60
JOINER = "\u200d"
"""Holds emoji together; cannot be shown by itself."""

_FILES = re.compile(r"\A(?:\s*<file path=.*?\n</file>\s*)+", re.DOTALL)
"""Files attached to a prompt (attachments.py)."""

_encoded = msgspec.msgpack.Decoder(list[bytes])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as a list shows it."""

    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    message_count: int


class ViewMark(NamedTuple):
    """State of a session's view; equal marks mean an equal view.

    A session that does not exist has `NO_MARK`.
    """

    changed: int
    removed: int = 0


NO_MARK: Final = ViewMark(0)


class SessionView(NamedTuple):
    """Messages in view of a session's next run, with what identifies them."""

    messages: Sequence[Message]
    """Oldest first."""
    mark: ViewMark
    late: Mapping[str, int]
    """Run id -> sequence of the last late result that is in view, for runs that got any after their
    end.
    """


class SessionChanged(AgentError):
    """The session is not as the caller read it: nothing was written. Read it again."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "busy",
            (
                f"session {session_id!r} has changed since it was read: nothing was begun, read it "
                "again"
            ),
        )


@dataclass(slots=True)
class _Conversation:
    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    changed: int
    """Rises with every change of any session."""
    count: int = 0
    left: list[bytes] = field(default_factory=list[bytes])
    """Messages that have left the view; some may be in `packed` too."""
    packed: list[bytes] = field(default_factory=list[bytes])
    """The messages, what was added at once together: an idle conversation is a tenth of the size of
    its values.
    """
    found: dict[str, tuple[bytes, ...]] = field(default_factory=dict[str, tuple[bytes, ...]])
    """Run id -> what was in view when that run began."""

    def info(self) -> SessionInfo:
        return SessionInfo(
            id=self.id,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            message_count=self.count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A message that a search found."""

    session_id: str
    title: str
    role: str
    at: datetime
    excerpt: str
    """Line around the first match."""


class Sessions(Protocol):
    """A store of conversations.

    Every method is safe from any thread, and quick: a front may call it in its event loop.
    """

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        """A new session, which becomes the current one.

        Raises AgentError(invalid) where the id is taken or is no id.
        """
        ...

    def get(self, session_id: str) -> SessionInfo | None: ...

    def current(self) -> SessionInfo:
        """The current session of this process, made on first use."""
        ...

    def set_current(self, session_id: str) -> bool:
        """False where there is no such session."""
        ...

    def list(self) -> list[SessionInfo]:
        """The last one that changed first."""
        ...

    def delete(self, session_id: str) -> bool:
        """Delete the session with all its messages; False if there is none.

        Raises AgentError(busy) while a run of it is not finished.
        """
        ...

    def add_message(self, session_id: str, message: Message) -> bool: ...

    def add_messages(self, session_id: str, messages: Iterable[Message]) -> bool:
        """All of them, in order, or none; False where there is no such session.

        The first message of a person names an unnamed one.
        """
        ...

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        """A copy of what is in view, oldest first; empty where there is no such session.

        `before`: as that run of it found it.
        """
        ...

    def everything(self, session_id: str) -> Sequence[Message]:
        """Return all messages since it was last cleared, oldest first, also those that left the
        view; a summary stands behind the messages that it replaces.
        """
        ...

    def clear_messages(self, session_id: str) -> bool:
        """False where there is no such session.

        A store of many processes raises AgentError(busy) while one of them drives a run of it.
        """
        ...

    def update_title(self, session_id: str, title: str) -> bool: ...

    def remember(self, session_id: str, said: Sequence[Said]) -> None:
        """A run of it ended, and had said this. A store that reads its journal knows already."""
        ...

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Messages of people and models that hold all the words, also what has left the view; the
        newest first.
        """
        ...


class SessionStore:
    """Sessions in memory.

    Every method is safe from any thread (the lock guards the two dictionaries and each list of
    messages).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sessions: dict[str, _Conversation] = {}
        """Conversations in the order of their last change: clocks are too coarse for it."""
        self._changes = 0
        self._current: str | None = None

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        """A new session, which becomes the current one.

        Raises AgentError(invalid) where the id is taken or is no id.
        """
        with self._lock:
            key = session_id if session_id is not None else new_id("session")
            if key in self._sessions:
                raise AgentError("invalid", f"there is a session {key!r} already")
            check_session_id(key)
            at = now()
            self._changes += 1
            made = self._sessions[key] = _Conversation(
                key, title.strip() or NEW_SESSION, at, at, self._changes
            )
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
        """All of them, in order, or none; False where there is no such session.

        The first message of a person names an unnamed one.
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
        """Keep what is in view as what the run found."""
        with self._lock:
            if (found := self._sessions.get(session_id)) is not None:
                found.found[run_id] = (*found.packed,)
                self._touch(found)

    def mark(self, session_id: str) -> ViewMark:
        with self._lock:
            found = self._sessions.get(session_id)
            return NO_MARK if found is None else ViewMark(found.changed)

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        """A copy, oldest first; empty where there is no such session.

        `before`: as that run of it found it.
        """
        with self._lock:
            found = self._sessions.get(session_id)
            packed: Sequence[bytes] = (
                [] if found is None else found.found.get(before or "", (*found.packed,))
            )
        return _unpacked(packed)

    def everything(self, session_id: str) -> Sequence[Message]:
        with self._lock:
            found = self._sessions.get(session_id)
            left, packed = ((), ()) if found is None else ((*found.left,), (*found.packed,))
        if not left:
            return _unpacked(packed)
        first: dict[str, Message] = {}
        for message in _unpacked((*left, *packed)):
            # the original: the message in view may have lost its results
            first.setdefault(message.id, message)
        return [*first.values()]

    def remember(self, session_id: str, said: Sequence[Said]) -> None:
        with self._lock:
            found = self._sessions.get(session_id)
            messages = [one for one in said if isinstance(one, Message)]
            if found is not None and len(messages) < len(said):
                view = folded(_unpacked(found.packed), said)
                found.left += [*found.packed, _packed(spoken(said))]
                found.packed, found.count, messages = [_packed(view)], len(view), []
            self.add_messages(session_id, messages)

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Reads every message: meant for thousands, not for millions."""
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
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            found.packed.clear()
            found.left.clear()
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


def spoken(said: Iterable[Said]) -> list[Message]:
    """The messages, and each summary where it was made."""
    return [
        one if isinstance(one, Message) else one.message
        for one in said
        if isinstance(one, Message | Summary)
    ]


def excerpt_of(text: str, word: str) -> str:
    """Return one line of at most 120 characters around the first occurrence of the word."""
    place = max(text.casefold().find(word), 0)
    start = max(place - 40, 0)
    line = _shown(text[start : start + 120])
    return ("…" if start else "") + line + ("…" if start + 120 < len(text) else "")


def title_of(text: str) -> str:
    """The first line that says something, at most 60 characters of it, without what cannot be
    shown. What a person says of files goes before these.
    """
    text = _FILES.sub("", text) or text
    line = next((shown for line in text.splitlines() if (shown := _shown(line))), NEW_SESSION)
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def _shown(line: str) -> str:
    words = " ".join(line[: 20 * TITLE_CHARS].split())
    return " ".join("".join(c for c in words if c.isprintable() or c == JOINER).split())


def is_id(text: str) -> bool:
    """Return True for a valid id of a session or a run: never a path, and never anything that a
    terminal obeys.
    """
    return (
        isinstance(cast("object", text), str)
        and 0 < len(text) <= 128
        and text.isprintable()
        and text not in (".", "..")
        and not any(c in "/\\" for c in text)
    )


def check_session_id(session_id: str) -> None:
    """Raises AgentError(invalid)."""
    if not is_id(session_id):
        raise AgentError(
            "invalid",
            f"{session_id!r} is no session id: use up to 128 printable characters without slashes",
        )


if TYPE_CHECKING:
    _: type[Sessions] = SessionStore
