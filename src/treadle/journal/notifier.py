"""What processes over one journal tell each other beside it: that something is new, and what a
model is just saying. Hints only: they may be lost, come late or twice, and whoever waits looks at
the journal itself now and then.

Entry: `Notifier`, `Listening`.
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
    """What of a run is in no journal; each payload is JSON."""
    return f"delta:{run_id}"


class Listening(Protocol):
    async def wait(self) -> list[bytes]:
        """The payloads since the last time, those of one topic in order, the oldest dropped where
        there are too many; empty after the notifier's poll time.

        Returns at once where something came meanwhile: subscribe, then look at the journal, then
        wait. Cancelled, it loses nothing: what came is given the next time.
        """
        ...


class Notifier(Protocol):
    """One for each journal object.

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
        """Whether somebody, in whatever process, listens to it, as far as is known: what is dear to
        say need not be said.
        """
        ...
