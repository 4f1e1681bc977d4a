"""Notifications between processes over one journal: that something changed, and deltas of a model.

They are hints: they may be lost, late or duplicated, so waiters also poll the journal. Entry
points: `Notifier`, `Listening`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

QUEUE = "queue"
"""The topic of runs that became ready."""


def run_topic(run_id: str) -> str:
    """A run has more entries."""
    return f"run:{run_id}"


def delta_topic(run_id: str) -> str:
    """Return the topic of a run's events that are in no journal; each payload is JSON."""
    return f"delta:{run_id}"


class Listening(Protocol):
    async def wait(self) -> list[bytes]:
        """Return the payloads since the last call, those of one topic in order, without the oldest
        if there are too many; empty after the notifier's poll time.

        Returns at once if something has arrived: subscribe, then read the journal, then wait.
        Cancellation loses nothing: the next call returns it.
        """
        ...


class Notifier(Protocol):
    """Notifier of a journal object.

    `listen` and `wait` belong to one event loop; `tell` is safe from any thread.
    """

    def listen(self, *topics: str) -> AbstractAsyncContextManager[Listening]:
        """To all of them, from when the block has begun.

        An asynchronous generator may enter and leave it: no cancel scope or task group stays open.
        """
        ...

    def tell(self, topic: str, payload: bytes = b"") -> None:
        """To every process over the journal, this one too.

        Never waits and raises nothing; many at once are sent together.
        """
        ...

    def wanted(self, topic: str) -> bool:
        """Return True if the topic has a subscriber in any process, as far as is known, so that
        costly payloads can be skipped.
        """
        ...
