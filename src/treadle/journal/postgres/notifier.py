"""Notifications over PostgreSQL: one connection listens and notifies, in a thread, and never in an
append's transaction.

Behind a pooler such as pgbouncer no notifications arrive, and waiters poll the journal. channels.py
packs messages. Entry point: `PostgresNotifier`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import psycopg

from treadle.errors import AgentError
from treadle.journal.forks import abandon_in_children
from treadle.journal.memory.notifier import POLL_S, LocalNotifier
from treadle.journal.notifier import Listening, Notifier
from treadle.journal.postgres.channels import (
    ChannelKey,
    Notification,
)
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.notification_connection import NotificationConnection
from treadle.journal.postgres.readers import abandoned
from treadle.journal.tables.sealing import Seal
from treadle.journal.threads import start
from treadle.types import new_id

logger = logging.getLogger("treadle.journal")

TOGETHER_S: Final = 0.02
"""Seconds after a notification in which further messages are collected for the next."""
WISH_S: Final = 10.0
"""Seconds between announcements of a subscriber. One that has not announced itself for two and a
half times as long is considered gone.
"""
UNKNOWN_S: Final = 2.0
"""Seconds for which a newly connected process sends everything, because it does not know the
subscribers yet.
"""
HELD_MAX: Final = 10_000
"""Maximum number of messages waiting to be sent; the oldest are dropped."""
SUBSCRIBED_WITHIN_S: Final = 2.0
_ASKS: Final = "?"
"""Request that the subscribers of other processes announce themselves."""


class PostgresNotifier:
    """Notifier of a journal. Its thread and its connection start with the first subscriber or
    message.
    """

    def __init__(
        self, server: PostgresServer, *, poll_s: float = POLL_S, seal: Seal | None = None
    ) -> None:
        self._server = server
        self._seal = seal
        self._local = (
            LocalNotifier(poll_s=poll_s) if server.shard is None else server.shard.notifier
        )
        self._me = new_id("ear")
        self._lock = threading.Lock()
        """Guards all attributes below."""
        self._topics: Counter[str] = Counter()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, anyio.Event]] = []
        """New subscribers that the server does not know yet."""
        self._outgoing: deque[Notification] = deque(maxlen=HELD_MAX)
        self._wishes: dict[str, float] = {}
        """Topics of other processes' subscribers, with the time until which each is valid."""
        self._all_until = 0.0
        """Time until which every message is sent."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._is_refused = False
        """True once the missing right has been logged."""
        self._wake_in, self._wake_out = _pair()
        self._db: psycopg.Connection | None = None
        abandon_in_children(self)

    # ------------------------------------------------------------ listening

    @asynccontextmanager
    async def listen(self, *topics: str) -> AsyncGenerator[Listening]:
        async with self._local.listen(*topics) as ear:
            subscribed = anyio.Event()
            with self._lock:
                self._topics.update(topics)
                self._waiting.append((asyncio.get_running_loop(), subscribed))
            self._begin()
            self._wake()
            try:
                # stop waiting for an unreachable server
                with anyio.move_on_after(SUBSCRIBED_WITHIN_S):
                    await subscribed.wait()
                yield ear
            finally:
                with self._lock:
                    self._topics.subtract(topics)
                    self._topics = +self._topics

    def tell(self, topic: str, payload: bytes = b"") -> None:
        self._local.tell(topic, payload)
        try:
            self._tell_others(topic, payload)
        except MemoryError:  # the entries are stored, and subscribers poll at their own interval
            return

    def _tell_others(self, topic: str, payload: bytes) -> None:
        self._begin()
        if self._closed or (topic.startswith(("run:", "delta:")) and not self._elsewhere(topic)):
            return
        if self._seal is not None and payload:
            text = payload.decode("utf-8", "surrogateescape")
            payload = self._seal.sealed_text(topic, text).encode()
        is_first = not self._outgoing
        self._outgoing.append(Notification(topic, payload))
        if is_first:
            self._wake()

    def wanted(self, topic: str) -> bool:
        self._begin()
        return self._local.wanted(topic) or self._elsewhere(topic)

    def _elsewhere(self, topic: str) -> bool:
        now = time.monotonic()
        return now < self._all_until or self._wishes.get(topic, 0) > now

    # ------------------------------------------------------------ the thread

    def _begin(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._closed or self._thread is not None:
                    return
                self._all_until = time.monotonic() + UNKNOWN_S
                thread = threading.Thread(target=self._run, name="treadle-notifier", daemon=True)
                with contextlib.suppress(AgentError):  # subscribers poll at their own interval
                    start(thread)
                    self._thread = thread

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # the thread is already awake, or has ended
            self._wake_in.send(b"!")

    def _run(self) -> None:
        pause_s = 0.1
        while not self._closed:
            try:
                self._db = db = self._server.connect()
                self._serve(NotificationConnection(self._server, db, self._me))
                pause_s = 0.1
            except (
                psycopg.Error,
                OSError,
                ValueError,
            ) as e:  # only hints: waiters poll as well
                self._report(e)
                pause_s = min(pause_s * 2, 5.0)
            finally:
                if self._db is not None:
                    self._db.close()
                self._subscribed()
            self._pause(pause_s)

    def _report(self, error: Exception) -> None:
        """Log a missing privilege once, because unlike a lost connection it does not recover on
        its
        own.
        """
        if isinstance(error, psycopg.errors.InsufficientPrivilege) and not self._is_refused:
            self._is_refused = True
            logger.warning(
                "this role cannot read the key of notifications in %s, so this process polls: "
                "`grant select on treadle.notify_key` to it",
                self._server.place,
            )

    def _pause(self, pause_s: float) -> None:
        deadline = time.monotonic() + pause_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_out, selectors.EVENT_READ)
            while not self._closed and (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    _drain(self._wake_out)

    def _serve(self, line: NotificationConnection) -> None:
        """Serve until closed. Raises psycopg.Error, OSError."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_out, selectors.EVENT_READ)
            selector.register(line.db.fileno(), selectors.EVENT_READ)
            self._all_until = time.monotonic() + (float("inf") if line.is_deaf else UNKNOWN_S)
            key = line.key
            line.subscribe((key.wishes,))
            line.notify([(key.wishes, [Notification(_ASKS, b"")])])
            self._tell_all()  # changes from times without subscribers are found by polling
            wished_at, sent_at, wished = 0.0, 0.0, frozenset[str]()
            while not self._closed:
                topics = frozenset(self._topics)
                line.subscribe([key.wishes, *map(key.channel_of, topics)])
                self._subscribed()
                now = time.monotonic()
                if not topics <= wished or now >= wished_at + WISH_S or line.asked:
                    wished, wished_at, line.asked = topics, now, False
                    line.notify(
                        [(key.wishes, [Notification(topic, b"") for topic in topics])]
                        if topics
                        else []
                    )
                if self._outgoing and now >= sent_at + TOGETHER_S:
                    sent_at = now
                    line.notify(self._taken(key))
                for told in line.heard():
                    self._hear(told, line)
                pause_s = (
                    0
                    if line.asked
                    else max(sent_at + TOGETHER_S - time.monotonic(), 0)
                    if self._outgoing
                    else WISH_S / 4
                )
                for ready, _ in selector.select(pause_s):
                    if ready.fileobj is self._wake_out:
                        _drain(self._wake_out)

    def _taken(self, key: ChannelKey) -> list[tuple[str, list[Notification]]]:
        """Return the messages to send, by channel, in order. An empty one is sent once."""
        by_channel: dict[str, dict[object, Notification]] = {}
        for number in range(len(self._outgoing)):
            told = self._outgoing.popleft()
            by_channel.setdefault(key.channel_of(told.topic), {})[
                number if told.payload else told.topic
            ] = told
        return [(channel, [*some.values()]) for channel, some in by_channel.items()]

    def _hear(self, told: Notification, line: NotificationConnection) -> None:
        if not told.topic.startswith("wish "):
            payload = told.payload
            if self._seal is not None and payload:
                try:
                    text = self._seal.opened_text(told.topic, payload.decode())
                except (AgentError, ValueError):  # from another journal or version: only hints
                    return
                payload = text.encode("utf-8", "surrogateescape")
            self._local.tell(told.topic, payload)
        elif (topic := told.topic.removeprefix("wish ")) == _ASKS:
            line.asked = True
        else:
            now = time.monotonic()
            if len(self._wishes) > HELD_MAX:
                self._wishes = {
                    topic: until for topic, until in self._wishes.items() if until > now
                }
            self._wishes[topic] = now + 2.5 * WISH_S

    def _subscribed(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with contextlib.suppress(RuntimeError):  # the loop is closed and has no waiters
                loop.call_soon_threadsafe(event.set)

    def _tell_all(self) -> None:
        for topic in [*self._topics]:
            self._local.tell(topic)

    def close(self) -> None:
        """Wake remaining subscribers. Idempotent."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wake()
            thread.join()
        self._wake_in.close()
        self._wake_out.close()
        self._local.close()

    def abandon(self) -> None:
        """Detach in a forked child, where the parent's thread does not exist and none of its loops
        listens.
        """
        self._lock, self._closed, self._thread = threading.Lock(), True, None
        self._local.abandon()
        abandoned(self._db)
        self._db = None
        self._wake_in, self._wake_out = _pair()


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return a pair of sockets that wakes the thread while it waits for a connection."""
    into, out = socket.socketpair()
    into.setblocking(False)
    out.setblocking(False)
    return into, out


def _drain(out: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while out.recv(4096):
            pass


if TYPE_CHECKING:
    _: type[Notifier] = PostgresNotifier
