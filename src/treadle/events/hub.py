"""Publish and subscribe over the events of all runs. Runs do not wait for subscribers.

A slow subscriber may miss events. To receive all events of one run, use its stream (feed.py). Entry
point: `Hub`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

import anyio

from treadle.messages.events import TOOL_EVENTS, Event


@dataclass(frozen=True, slots=True)
class Missed:
    """Placeholder for events that a slow subscriber missed.

    Attributes:
        count: Number of missed events.
    """

    count: int


class Listener(Protocol):
    """Receiver of events. `put` runs in the publishing task: it must be fast and must not raise."""

    def put(self, event: Event) -> None: ...

    def close(self) -> None:
        """End the listener. Called when the broker closes; no events follow."""
        ...


class Subscription:
    """Async iterator over a broker's future events. Use it as a context manager, or close it."""

    def __init__(self, broker: Broker, maxsize: int) -> None:
        self._broker = broker
        self._maxsize = maxsize
        self._queue: deque[Event | Missed] = deque()
        self._missed = 0
        self._closed = False
        self._news = anyio.Event()

    def put(self, event: Event) -> None:
        if len(self._queue) >= self._maxsize:
            self._missed += 1
            return
        if self._missed:
            self._queue.append(Missed(self._missed))
            self._missed = 0
        self._queue.append(event)
        self._news.set()

    def close(self) -> None:
        """End the subscription; queued events can still be read. Idempotent."""
        self._closed = True
        self._news.set()
        self._broker.remove(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[Event | Missed]:
        return self

    async def __anext__(self) -> Event | Missed:
        while not self._queue:
            if self._missed:
                count, self._missed = self._missed, 0
                return Missed(count)
            if self._closed:
                raise StopAsyncIteration
            if self._news.is_set():  # keep an unset event: another reader may wait for it
                self._news = anyio.Event()
            await self._news.wait()
        return self._queue.popleft()


class Broker:
    """Topic of the hub, to which any number of subscribers can listen.

    Publishing never waits. A subscriber whose queue is full misses events, and receives their
    number as `Missed`.
    """

    def __init__(self) -> None:
        self._subscriptions: tuple[Listener, ...] = ()
        self.heard = False
        """True if there are subscriptions. Stored, because every event of every run reads it."""
        self._closed = False

    def subscribe(self, maxsize: int = 1000) -> Subscription:
        """Subscribe to future events, with a queue of at most `maxsize`.

        A subscription to a closed broker ends immediately.
        """
        subscription = Subscription(self, max(1, maxsize))
        self.add(subscription)
        return subscription

    def add(self, listener: Listener) -> None:
        """Add a listener for future events. A closed broker closes it immediately."""
        if self._closed:
            listener.close()
        else:
            self._subscriptions = (*self._subscriptions, listener)
            self.heard = True

    def remove(self, listener: Listener) -> None:
        self._subscriptions = tuple(s for s in self._subscriptions if s is not listener)
        self.heard = bool(self._subscriptions)

    def publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def close(self) -> None:
        """End every subscription. Idempotent."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()


class Hub:
    """Publisher of the events of all runs, under two topics.

    Attributes:
        agents: Topic of all events except those of tool calls.
        tools: Topic of the events of tool calls.
        awaited: True if subscribers that arrive during a response should receive the rest of it.
    """

    def __init__(self) -> None:
        self.agents = Broker()
        self.tools = Broker()
        self.awaited = False

    @property
    def heard(self) -> bool:
        """True if either topic has a subscriber or a listener."""
        return self.agents.heard or self.tools.heard

    def add(self, listener: Listener) -> None:
        """Add a listener to both topics. It receives all events in order."""
        self.agents.add(listener)
        self.tools.add(listener)

    def remove(self, listener: Listener) -> None:
        """Remove a listener from both topics."""
        self.agents.remove(listener)
        self.tools.remove(listener)

    def publish(self, event: Event) -> None:
        """Deliver an event to its topic. Never waits."""
        (self.tools if isinstance(event, TOOL_EVENTS) else self.agents).publish(event)

    def close(self) -> None:
        """End all subscriptions. Their iterators stop after the queued events."""
        self.agents.close()
        self.tools.close()
