"""Notifications between processes that share a journal: hints about changes, and a model's deltas.

They may be lost, late or duplicated, so waiters also poll the journal. Entry points: `Notifier`,
`Listening`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

QUEUE = "queue"
"""Topic of runs that have become ready."""


def run_topic(run_id: str) -> str:
    """Return the topic of a run's new entries."""
    return f"run:{run_id}"


def delta_topic(run_id: str) -> str:
    """Return the topic of a run's events that are not journaled; each payload is JSON."""
    return f"delta:{run_id}"


class Listening(Protocol):
    async def wait(self) -> list[bytes]:
        """Return the payloads since the last call, in order within a topic; empty after the poll
        interval. If there are too many, the oldest are dropped.

        Returns immediately if something has arrived: subscribe, then read the journal, then wait.
        Cancellation loses nothing: the next call returns it.
        """
        ...


class Notifier(Protocol):
    """Notifier of a journal.

    `listen` and `wait` belong to one event loop; `tell` may be called from any thread.
    """

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listening]:
        """Subscribe to all topics for the duration of the block.

        An async generator may enter and exit it, because it keeps no cancel scope or task group
        open.
        """
        ...

    def tell(self, topic: str, payload: bytes = b"") -> None:
        """Notify every process that shares the journal, including this one.

        Never waits or raises; a burst is sent together.
        """
        ...

    def wanted(self, topic: str) -> bool:
        """Return True if the topic has a known subscriber in any process, so that costly payloads
        can be skipped.
        """
        ...
