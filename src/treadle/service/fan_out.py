"""What happens, told to any number of readers, none of which can slow the others or what tells it.

Each reader has a bounded queue. What is lossy is dropped where that is full; a reader that is
behind with what is not is cut, and comes back with the last id it has. Not here: how a frame looks
on the wire (sse.py), which runs there are (live.py). Entry: `Channels`, `Reader`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio

Position: TypeAlias = tuple[int, int]
"""The sequence of a journal's entry, and the place among that entry's events."""

QUEUE_MOST: Final = 256
HEARTBEAT_S: Final = 15
AGE_MOST_S: Final = 15 * 60
BEAT: Final = b": still here\n\n"
BEHIND: Final = b": you fell behind and were let go; connect again with the last id you have\n\n"
OLD: Final = b": this stream is 15 minutes old; connect again with the last id you have\n\n"
CLOSING: Final = b": the server is closing; connect again with the last id you have\n\n"


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """One event on its way out, encoded once for all readers."""

    data: bytes
    run_id: str = ""
    position: Position | None = None
    """Of a durable one, in the journal of `run_id`; None: nobody can ask for it again."""
    before: Position | None = None
    """Of one that is not durable: nobody wants it who was given something from there on."""
    lossy: bool = False
    """May be left out where a reader is slow."""
    last: bool = False
    """Nothing comes after it."""


class Reader:
    """One open stream. Told by `put` and `beat`, in any task of the event loop; read by one."""

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
        """In which second of fifteen it is looked after."""
        self.begins: Position = (0, -1)
        """Live events begin behind this one: what the reader has read in the journal must go up to
        it.
        """
        self._waiting: deque[EncodedEvent] = deque()
        self._seen: dict[str, Position] = {}
        self._news: anyio.Event | None = None
        """Set by whoever tells; None where nobody waits."""
        self._closed: bytes | None = None
        """What is said last, once what waits was read."""
        self._over = False
        self._quiet = True
        """Nothing was said since the last beat."""
        self._beats = 0

    def put(self, frame: EncodedEvent) -> None:
        """Never waits."""
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
        """What waits can still be read. Idempotent."""
        if self._closed is None:
            self._closed = why
        self._wake()

    def finish(self) -> None:
        """It has all there is: what waits is not read any more."""
        self._waiting.clear()
        self.close(b"")

    def beat(self) -> None:
        """Each 15 seconds: says something where nothing was said, and ends a stream that is too
        old.
        """
        self._beats += 1
        if self._beats * HEARTBEAT_S >= AGE_MOST_S:
            self.close(OLD)
        elif self._quiet and not self._waiting:
            self.put(EncodedEvent(BEAT, lossy=True))
        self._quiet = True

    def pass_over(self, run_id: str, until: Position) -> None:
        """What this run's journal has up to there was read elsewhere: it is not given again."""
        self._seen[run_id] = max(until, self._seen.get(run_id, until))

    async def read(self) -> bytes | None:
        """All that waits, at once; waits for the first. None: that was all."""
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
    """Readers by what they read: a run, or one user's tasks. One ticker beats for all of them."""

    def __init__(self) -> None:
        self._readers: dict[str, set[Reader]] = {}
        self._slots: list[set[Reader]] = [set() for _ in range(HEARTBEAT_S)]
        """By the second in which they are looked after: a thousand do not wake at once."""
        self._opened = 0
        self._closing = False

    def __len__(self) -> int:
        """How many streams are open."""
        return sum(map(len, self._slots))

    def open(self, key: str) -> Reader:
        """From now on; `leave` when it is over."""
        self._opened = (self._opened + 1) % HEARTBEAT_S
        reader = Reader(self._opened)
        self._slots[reader.slot].add(reader)
        self._readers.setdefault(key, set()).add(reader)
        if self._closing:
            reader.close()
        return reader

    def leave(self, key: str, reader: Reader) -> None:
        """Idempotent."""
        self._slots[reader.slot].discard(reader)
        if (readers := self._readers.get(key)) is not None:
            readers.discard(reader)
            if not readers:
                del self._readers[key]

    def tell(self, key: str, frame: EncodedEvent) -> None:
        """Whoever reads this now. Never waits."""
        for reader in self._readers.get(key, ()):
            reader.put(frame)

    def begin(self, key: str, after: Position) -> None:
        """What is told from now on begins behind `after`, for all who read this now."""
        for reader in self._readers.get(key, ()):
            reader.begins = max(reader.begins, after)

    def is_read(self, key: str) -> bool:
        return key in self._readers

    def end(self, key: str) -> None:
        """Nothing more comes of this."""
        for reader in self._readers.get(key, ()):
            reader.close(b"")

    def close(self, *, but: Collection[str] = ()) -> None:
        """Ends every stream, also those that are opened from now on; `but`: keys whose end comes by
        itself.
        """
        self._closing = True
        for key, readers in self._readers.items():
            if key not in but:
                for reader in readers:
                    reader.close()

    async def beat(self) -> None:
        """Until it is cancelled."""
        second = 0
        while True:
            await anyio.sleep(1)
            second = (second + 1) % HEARTBEAT_S
            for reader in tuple(self._slots[second]):
                reader.beat()
