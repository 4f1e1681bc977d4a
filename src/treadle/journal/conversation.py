"""A conversation in memory: its messages, compressed, and the runs to which they belong.

Entry point: `StoredConversation`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from treadle.journal.receipts import Receipt, Said, folded
from treadle.journal.session_names import NEW_SESSION, title_of
from treadle.journal.sessions import SessionInfo, spoken
from treadle.messages.message import Message, decode_message, encode_message

_encoded = msgspec.msgpack.Decoder(list[bytes])


class ConversationPiece(NamedTuple):
    """Part of a conversation."""

    said: bytes | Receipt
    """Compressed messages, those added together in one piece, or a compaction of everything before.
    An idle conversation takes a tenth of the space.
    """
    run_id: str = ""
    """Run that it belongs to; empty for messages that were added directly."""


@dataclass(slots=True)
class PastBeforeRun:
    """Conversation before a run."""

    pieces: list[ConversationPiece | None]
    """The conversation's list; the first `count` of it come before the run."""
    count: int
    packed: tuple[bytes, ...] | None
    """Compressed messages in view when the run began. None: those of the pieces, because nothing was
    compacted, or because runs were removed since.
    """

    def view(self) -> Sequence[bytes]:
        return _view(self.pieces[: self.count]) if self.packed is None else self.packed


@dataclass(slots=True)
class StoredConversation:
    """Conversation of a session. Not for several threads at once."""

    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    changed: int
    """Increases with every change of any session."""
    removed: int = 0
    """Increases with every removal of runs, which leaves the session at its place in the list."""
    count: int = 0
    pieces: list[ConversationPiece | None] = field(default_factory=list[ConversationPiece | None])
    """Everything since the session was cleared. None: a piece of a removed run."""
    packed: list[bytes] = field(default_factory=list[bytes])
    """Compressed messages in view."""
    found: dict[str, PastBeforeRun] = field(default_factory=dict[str, PastBeforeRun])
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

    def everything(self) -> tuple[Sequence[ConversationPiece | None], Sequence[bytes]]:
        """Return copies of the pieces and of the view, for `all_messages`."""
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
        self.count = len(unpacked(self.packed))
        self.removed += 1

    def begin(self, run_id: str) -> None:
        """Record the messages in view as those with which the run began."""
        count = len(self.pieces)
        packed = None if count == len(self.packed) else (*self.packed,)
        self.found[run_id] = PastBeforeRun(self.pieces, count, packed)

    def add(self, said: Sequence[Said], pieces: Sequence[ConversationPiece]) -> None:
        """Append what was said, in its compressed form."""
        self.pieces += pieces
        packed = [piece.said for piece in pieces if isinstance(piece.said, bytes)]
        if len(packed) == len(pieces):
            self.packed += packed
            self.count += len(said)
        else:
            view = folded(unpacked(self.packed), said)
            self.packed, self.count = [_packed(view)], len(view)

    def name(self, said: Iterable[Message]) -> None:
        """Name an unnamed conversation after the user's first message."""
        if self.title == NEW_SESSION:
            users = (one.text for one in said if one.role == "user")
            self.title = title_of(next((text for text in users if text.strip()), ""))

    def remember(self, run_id: str, said: Sequence[Said]) -> None:
        """Add what a run said: before the messages that were added while it was active."""
        past, pieces = self.found[run_id], pieces_of(said, run_id)
        at, own = past.count, self.pieces
        if at == len(own) or any(piece and piece.run_id == run_id for piece in own):
            self.add(said, pieces)
            return
        for other in self.found.values():
            if other.pieces is own and other.count > at:
                other.packed, other.count = (*other.view(),), other.count + len(pieces)
        own[at:at] = pieces
        self.packed = _view(own)
        self.count = len(unpacked(self.packed))

    def clear(self) -> None:
        """Remove all messages from view."""
        self.packed.clear()
        self.pieces = []  # runs that began before keep the old list
        self.gone.update(self.found)
        self.count = 0


def pieces_of(said: Iterable[Said], run_id: str = "") -> list[ConversationPiece]:
    pieces, messages = list[ConversationPiece](), list[Message]()
    for one in (*said, None):
        if isinstance(one, Message):
            messages.append(one)
            continue
        if messages:
            pieces.append(ConversationPiece(_packed(messages), run_id))
            messages = []
        if one is not None:
            pieces.append(ConversationPiece(one, run_id))
    return pieces


def _said(pieces: Iterable[ConversationPiece | None]) -> Iterator[Said]:
    for piece in pieces:
        if piece is None:
            continue
        if isinstance(piece.said, bytes):
            yield from unpacked([piece.said])
        else:
            yield piece.said


def _view(pieces: Iterable[ConversationPiece | None]) -> list[bytes]:
    """Return the compressed messages in view after these pieces."""
    left = [piece for piece in pieces if piece]
    packed = [piece.said for piece in left if isinstance(piece.said, bytes)]
    return packed if len(packed) == len(left) else [_packed(folded((), _said(left)))]


def all_messages(
    pieces: Iterable[ConversationPiece | None], packed: Iterable[bytes]
) -> list[Message]:
    said = [*_said(pieces)]
    told = spoken(said)
    if all(isinstance(one, Message) for one in said):
        return told
    first: dict[str, Message] = {}
    for message in (*told, *unpacked(packed)):
        # keep the original, because the message in view may have lost its results
        first.setdefault(message.id, message)
    return [*first.values()]


def _packed(messages: Sequence[Message]) -> bytes:
    return zlib.compress(
        msgspec.msgpack.encode([encode_message(message) for message in messages]), level=1
    )


def unpacked(packed: Iterable[bytes]) -> list[Message]:
    return [
        decode_message(data) for piece in packed for data in _encoded.decode(zlib.decompress(piece))
    ]
