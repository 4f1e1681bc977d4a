"""Notifications between processes of one machine: immediate inside this process, by polling the
journal for others.

It polls only while there are subscribers; a model's deltas stay in the process. Entry point:
`LocalNotifier`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from treadle.errors import AgentError
from treadle.journal.notifier import Notifier
from treadle.journal.threads import start

POLL_S: Final = 1.0
"""Maximum seconds that `wait` waits."""
LOOK_S: Final = 0.05
"""Seconds between checks for changes by other processes."""
KEPT_MAX: Final = 1000
"""Maximum number of payloads queued for a listener that does not read them."""


class JournalWatch(Protocol):
    """Detector of changes by other processes. Belongs to one thread."""

    def changed(self, topics: Collection[str], /) -> Collection[str]:
        """Return the topics changed since the last call; on the first call, all of them."""
        ...

    def close(self) -> None: ...


class _Ear:
    """Subscriber's queue of payloads."""

    def __init__(self, poll_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._poll_s = poll_s
        self._came = anyio.Event()
        self._lock = threading.Lock()
        """Guards the two attributes below."""
        self._payloads: deque[bytes] = deque(maxlen=KEPT_MAX)
        self._told = False

    def tell(self, payload: bytes) -> None:
        with self._lock:
            if payload:
                self._payloads.append(payload)
            if self._told:
                return
            self._told = True
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop is closed and has no waiters
            return

    def _wake(self) -> None:
        self._came.set()

    async def wait(self) -> list[bytes]:
        with anyio.move_on_after(self._poll_s):
            await self._came.wait()
        self._came = anyio.Event()
        with self._lock:
            payloads, self._told = [*self._payloads], False
            self._payloads.clear()
        return payloads


class LocalNotifier:
    """Notifier of a journal object."""

    def __init__(
        self, watch: Callable[[], JournalWatch] | None = None, *, poll_s: float = POLL_S
    ) -> None:
        """Create a local notifier. `watch` reports changes by other processes; None if there are no
        others.
        """
        self._watch, self._poll_s = watch, poll_s
        self._lock = threading.Lock()
        """Guards all attributes below."""
        self._ears: dict[str, tuple[_Ear, ...]] = {}
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        """Event that ends the current thread. Each thread has its own."""
        self._ending: list[threading.Thread] = []
        """Threads that are ending."""

    @asynccontextmanager
    async def listen(self, *topics: str) -> AsyncGenerator[_Ear]:
        ear = _Ear(self._poll_s)
        self._add(topics, ear)
        try:
            yield ear
        finally:
            self._remove(topics, ear)

    def _add(self, topics: Collection[str], ear: _Ear) -> None:
        with self._lock:
            for topic in topics:
                self._ears[topic] = (*self._ears.get(topic, ()), ear)
            if self._watch is None or self._thread is not None or not any(map(_is_seen, topics)):
                return
            ends = threading.Event()
            thread = threading.Thread(
                target=self._look, args=(self._watch, ends), name="treadle-notifier", daemon=True
            )
            with suppress(AgentError):  # without a thread, subscribers poll at their own interval
                start(thread)
                self._thread, self._ends = thread, ends

    def _remove(self, topics: Collection[str], ear: _Ear) -> None:
        with self._lock:
            for topic in topics:
                if left := tuple(one for one in self._ears.get(topic, ()) if one is not ear):
                    self._ears[topic] = left
                else:
                    self._ears.pop(topic, None)
            if not any(map(_is_seen, self._ears)):
                self._end()

    def tell(self, topic: str, payload: bytes = b"") -> None:
        try:
            for ear in self._ears.get(topic, ()):
                ear.tell(payload)
        except MemoryError:  # the entries are stored, and subscribers also poll
            return

    def wanted(self, topic: str) -> bool:
        return topic in self._ears

    def _look(self, watch: Callable[[], JournalWatch], ends: threading.Event) -> None:
        """Poll in a thread. If polling fails, waiters poll at their own interval."""
        try:
            looking = watch()
        except AgentError:  # the journal is closed, or cannot be opened now
            ends.wait()
            return
        try:
            while not ends.wait(LOOK_S):
                with self._lock:
                    topics = [topic for topic in self._ears if _is_seen(topic)]
                for topic in looking.changed(topics):
                    self.tell(topic)
        finally:
            looking.close()

    def _end(self) -> None:
        self._ending = [
            thread
            for thread in (*self._ending, self._thread)
            if thread is not None and thread.is_alive()
        ]
        self._thread = None
        self._ends.set()

    def close(self) -> None:
        """Wake the remaining subscribers, which receive nothing more from other processes.
        Idempotent.
        """
        with self._lock:
            self._watch = None
            self._end()
            threads, topics = self._ending, [*self._ears]
        for thread in threads:
            thread.join()
        for topic in topics:
            self.tell(topic)

    def abandon(self) -> None:
        """Detach in a forked child, where the parent's thread does not exist and none of its loops
        listens.
        """
        self._lock, self._ends = threading.Lock(), threading.Event()
        self._ears, self._thread, self._watch, self._ending = {}, None, None, []


def _is_seen(topic: str) -> bool:
    """Return True if the journal itself shows changes of this topic."""
    return not topic.startswith("delta:")


if TYPE_CHECKING:
    _: type[Notifier] = LocalNotifier
