"""Fan-out of events to any number of readers, none of which can slow down the others or the
publisher.

Each reader has a bounded queue. If it is full, lossy events are dropped; a reader that falls behind
on durable events is disconnected, and reconnects with its last event id. See also: the wire format
(sse.py), runs (live.py). Entry points: `Channels`, `Reader`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio

Position: TypeAlias = tuple[int, int]
"""Sequence number of a journal entry, and index among that entry's events."""

QUEUE_MOST: Final = 256
HEARTBEAT_S: Final = 15
AGE_MOST_S: Final = 15 * 60
BEAT: Final = b": still here\n\n"
BEHIND: Final = b": you fell behind and were disconnected; reconnect with your last event id\n\n"
OLD: Final = b": this stream is 15 minutes old; reconnect with your last event id\n\n"
CLOSING: Final = b": the server is shutting down; reconnect with your last event id\n\n"


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """Outgoing event, encoded once for all readers."""

    data: bytes
    run_id: str = ""
    position: Position | None = None
    """Position of a durable event in the journal of `run_id`; None if the event cannot be requested
    again.
    """
    before: Position | None = None
    """Position of a non-durable event. Readers that have an event from this position on skip it."""
    lossy: bool = False
    """True if the event may be dropped for a slow reader."""
    last: bool = False
    """True for the last event of the stream."""


class Reader:
    """Open stream. `put` and `beat` may be called from any task of the event loop; a single task
    reads.
    """

    __slots__ = (
        "_beats",
        "_closed",
        "_news",
        "_over",
        "_quiet",
        "_seen",
        "_waiting",
        "begins",
        "slot",
    )

    def __init__(self, slot: int = 0) -> None:
        self.slot = slot
        """Second of the heartbeat interval in which this reader is checked."""
        self.begins: Position = (0, -1)
        """Position after which live events begin. The reader must have read the journal up to
        it.
        """
        self._waiting: deque[EncodedEvent] = deque()
        self._seen: dict[str, Position] = {}
        self._news: anyio.Event | None = None
        """Event that the publisher sets; None while no task waits."""
        self._closed: bytes | None = None
        """Final message, sent after the queue has been read."""
        self._over = False
        self._quiet = True
        """True if no event was sent since the last heartbeat."""
        self._beats = 0

    def put(self, frame: EncodedEvent) -> None:
        """Queue a frame without waiting."""
        if self._closed is not None:
            return
        if len(self._waiting) >= QUEUE_MOST:
            if frame.lossy:
                return
            self._waiting = deque(waiting for waiting in self._waiting if not waiting.lossy)
            if len(self._waiting) >= QUEUE_MOST:
                self.close(BEHIND)
                return
        self._waiting.append(frame)
        self._quiet = False
        if frame.last:
            self._closed = b""
        self._wake()

    def close(self, why: bytes = CLOSING) -> None:
        """End the stream after the queued frames. Idempotent."""
        if self._closed is None:
            self._closed = why
        self._wake()

    def finish(self) -> None:
        """End the stream and discard the queued frames, because the reader already has all
        events.
        """
        self._waiting.clear()
        self.close(b"")

    def beat(self) -> None:
        """Send a heartbeat to an idle stream, and end a stream that is too old. Called every 15
        seconds.
        """
        self._beats += 1
        if self._beats * HEARTBEAT_S >= AGE_MOST_S:
            self.close(OLD)
        elif self._quiet and not self._waiting:
            self.put(EncodedEvent(BEAT, lossy=True))
        self._quiet = True

    def pass_over(self, run_id: str, until: Position) -> None:
        """Skip events of this run up to `until`, which the reader has from the journal."""
        self._seen[run_id] = max(until, self._seen.get(run_id, until))

    async def read(self) -> bytes | None:
        """Return all queued frames, waiting for the first. Return None when the stream has
        ended.
        """
        while not self._over:
            if data := b"".join([frame.data for frame in self._taken()]):
                return data
            if self._closed is not None:
                self._over = True
                return self._closed or None
            self._news = anyio.Event()
            await self._news.wait()
            self._news = None
        return None

    def _taken(self) -> list[EncodedEvent]:
        taken, self._waiting = self._waiting, deque()
        return [frame for frame in taken if self._is_new(frame)]

    def _is_new(self, frame: EncodedEvent) -> bool:
        seen = self._seen.get(frame.run_id, (0, -1))
        if frame.position is None:
            return frame.before is None or seen < frame.before
        if frame.position <= seen:
            return False
        self._seen[frame.run_id] = frame.position
        return True

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()


class Channels:
    """Readers by channel: a run, or a user's tasks. One ticker sends all heartbeats."""

    def __init__(self) -> None:
        self._readers: dict[str, set[Reader]] = {}
        self._slots: list[set[Reader]] = [set() for _ in range(HEARTBEAT_S)]
        """Readers by the second of their heartbeat, so that thousands do not wake together."""
        self._opened = 0
        self._closing = False

    def __len__(self) -> int:
        """Return the number of open streams."""
        return sum(map(len, self._slots))

    def open(self, key: str) -> Reader:
        """Subscribe from now on. Call `leave` at the end."""
        self._opened = (self._opened + 1) % HEARTBEAT_S
        reader = Reader(self._opened)
        self._slots[reader.slot].add(reader)
        self._readers.setdefault(key, set()).add(reader)
        if self._closing:
            reader.close()
        return reader

    def leave(self, key: str, reader: Reader) -> None:
        """Unsubscribe a reader. Idempotent."""
        self._slots[reader.slot].discard(reader)
        if (readers := self._readers.get(key)) is not None:
            readers.discard(reader)
            if not readers:
                del self._readers[key]

    def tell(self, key: str, frame: EncodedEvent) -> None:
        """Publish a frame to the current readers of this channel without waiting."""
        for reader in self._readers.get(key, ()):
            reader.put(frame)

    def begin(self, key: str, after: Position) -> None:
        """Set the position after which live events begin, for all current readers."""
        for reader in self._readers.get(key, ()):
            reader.begins = max(reader.begins, after)

    def is_read(self, key: str) -> bool:
        return key in self._readers

    def end(self, key: str) -> None:
        """End the channel's streams."""
        for reader in self._readers.get(key, ()):
            reader.close(b"")

    def close(self, *, but: Collection[str] = ()) -> None:
        """End every stream, including those opened later, except those of keys in `but`, which end
        by themselves.
        """
        self._closing = True
        for key, readers in self._readers.items():
            if key not in but:
                for reader in readers:
                    reader.close()

    async def beat(self) -> None:
        """Send heartbeats until cancelled."""
        second = 0
        while True:
            await anyio.sleep(1)
            second = (second + 1) % HEARTBEAT_S
            for reader in tuple(self._slots[second]):
                reader.beat()
