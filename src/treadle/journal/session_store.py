"""Sessions in memory, as a view of their runs.

Entry point: `SessionStore`.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from treadle.errors import AgentError
from treadle.journal.receipts import Receipt, Said, folded
from treadle.journal.session_names import NEW_SESSION, check_session_id, excerpt_of, title_of
from treadle.journal.sessions import NO_MARK, SearchHit, SessionInfo, Sessions, ViewMark, spoken
from treadle.messages.message import Message, decode_message, encode_message
from treadle.types import new_id, now

_encoded = msgspec.msgpack.Decoder(list[bytes])


class _Piece(NamedTuple):
    """Part of a conversation."""

    said: bytes | Receipt
    """Compressed messages, those added together in one piece, or a compaction of everything before.
    An idle conversation takes a tenth of the space.
    """
    run_id: str = ""
    """Run that it belongs to; empty for messages that were added directly."""


@dataclass(slots=True)
class _Past:
    """Conversation before a run."""

    pieces: list[_Piece | None]
    """The conversation's list; the first `count` of it come before the run."""
    count: int
    packed: tuple[bytes, ...] | None
    """Compressed messages in view when the run began. None: those of the pieces, because nothing was
    compacted, or because runs were removed since.
    """

    def view(self) -> Sequence[bytes]:
        return _view(self.pieces[: self.count]) if self.packed is None else self.packed


@dataclass(slots=True)
class _Conversation:
    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    changed: int
    """Increases with every change of any session."""
    removed: int = 0
    """Increases with every removal of runs, which leaves the session at its place in the list."""
    count: int = 0
    pieces: list[_Piece | None] = field(default_factory=list[_Piece | None])
    """Everything since the session was cleared. None: a piece of a removed run."""
    packed: list[bytes] = field(default_factory=list[bytes])
    """Compressed messages in view."""
    found: dict[str, _Past] = field(default_factory=dict[str, _Past])
    """Run id -> what that run found when it began."""
    gone: set[str] = field(default_factory=set[str])
    """Ids of runs, also removed ones, that began before the session was cleared."""

    def info(self) -> SessionInfo:
        return SessionInfo(
            id=self.id,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            message_count=self.count,
        )

    def everything(self) -> tuple[Sequence[_Piece | None], Sequence[bytes]]:
        """Return copies of the pieces and of the view, for `_everything`."""
        return (*self.pieces,), (*self.packed,)

    def forget(self, run_ids: Collection[str]) -> None:
        """Remove the pieces of runs, also from the past of other runs, and compute the view."""
        for run_id in run_ids:
            self.found.pop(run_id, None)
        pasts = self.found.values()
        # lists from before a clear are known only to the runs that began then
        for pieces in {id(one): one for one in (self.pieces, *(p.pieces for p in pasts))}.values():
            pieces[:] = [None if one and one.run_id in run_ids else one for one in pieces]
        for past in pasts:
            past.packed = None
        self.packed = _view(self.pieces)
        self.count = len(_unpacked(self.packed))
        self.removed += 1


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
        pieces = _pieces(whole)
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None:
                return False
            self._add(found, whole, pieces)
            return True

    def begin(self, session_id: str, run_id: str) -> None:
        """Record the messages in view as those with which the run began."""
        with self._lock:
            if (found := self._sessions.get(session_id)) is not None:
                count = len(found.pieces)
                packed = None if count == len(found.packed) else (*found.packed,)
                found.found[run_id] = _Past(found.pieces, count, packed)
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
            past = found.found.get(before or "")
            packed = (*found.packed,) if past is None else past.view()
        return _unpacked(packed)

    def everything(self, session_id: str) -> Sequence[Message]:
        """Return all messages, including those that compaction removed from view."""
        with self._lock:
            found = self._sessions.get(session_id)
            pieces, packed = ((), ()) if found is None else found.everything()
        return _everything(pieces, packed)

    def remember(self, session_id: str, said: Sequence[Said], *, run_id: str) -> None:
        """Record messages of an ended run, unless the session was cleared since it began."""
        with self._lock:
            found = self._sessions.get(session_id)
            if found is None or run_id not in found.found or run_id in found.gone:
                return
            self._add(found, said, _pieces(said, run_id))

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
        for info, told in sessions:
            for message in _everything(*told):
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
            found.pieces = []  # runs that began before keep the old list
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

    def _add(self, changed: _Conversation, said: Sequence[Said], pieces: Sequence[_Piece]) -> None:
        changed.pieces += pieces
        packed = [piece.said for piece in pieces if isinstance(piece.said, bytes)]
        if len(packed) == len(pieces):
            changed.packed += packed
            changed.count += len(said)
        else:
            view = folded(_unpacked(changed.packed), said)
            changed.packed, changed.count = [_packed(view)], len(view)
        if changed.title == NEW_SESSION:
            users = (one.text for one in said if isinstance(one, Message) and one.role == "user")
            changed.title = title_of(next((text for text in users if text.strip()), ""))
        self._touch(changed)

    def _touch(self, changed: _Conversation) -> None:
        self._changes += 1
        changed.updated_at, changed.changed = now(), self._changes
        self._sessions[changed.id] = self._sessions.pop(changed.id)


def _pieces(said: Iterable[Said], run_id: str = "") -> list[_Piece]:
    pieces, messages = list[_Piece](), list[Message]()
    for one in (*said, None):
        if isinstance(one, Message):
            messages.append(one)
            continue
        if messages:
            pieces.append(_Piece(_packed(messages), run_id))
            messages = []
        if one is not None:
            pieces.append(_Piece(one, run_id))
    return pieces


def _said(pieces: Iterable[_Piece | None]) -> Iterator[Said]:
    for piece in pieces:
        if piece is None:
            continue
        if isinstance(piece.said, bytes):
            yield from _unpacked([piece.said])
        else:
            yield piece.said


def _view(pieces: Iterable[_Piece | None]) -> list[bytes]:
    """Return the compressed messages in view after these pieces."""
    left = [piece for piece in pieces if piece]
    packed = [piece.said for piece in left if isinstance(piece.said, bytes)]
    return packed if len(packed) == len(left) else [_packed(folded((), _said(left)))]


def _everything(pieces: Iterable[_Piece | None], packed: Iterable[bytes]) -> list[Message]:
    said = [*_said(pieces)]
    told = spoken(said)
    if all(isinstance(one, Message) for one in said):
        return told
    first: dict[str, Message] = {}
    for message in (*told, *_unpacked(packed)):
        # keep the original, because the message in view may have lost its results
        first.setdefault(message.id, message)
    return [*first.values()]


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
