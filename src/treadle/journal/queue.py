"""Runs that wait for a worker: the run's own row is the outbox from which an engine is fed.

engine.py delivers them, workers drive them. Entry points: `RunQueue`, `QueuePlace`, `Ticket`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

from treadle.errors import AgentError
from treadle.journal.entries import Entry
from treadle.journal.sessions import ViewMark
from treadle.types import Time, Value

DEFAULT_QUEUE: Final = "default"
"""There always is one of this name."""
FRUITLESS_MOST: Final = 10
"""A run that was delivered so often in a row without getting any further is parked: it takes its
workers down, or none can drive it.
"""
BEGINNINGS: Final = frozenset(
    {"run.resumed", "model.requested", "model.switched", "tool.started", "cancel.asked"}
)
"""Types of entries that say only that something begins: with these alone a run has not got any
further.
"""


class QueuePlace(Value, frozen=True, kw_only=True):
    """Place of a run in a queue."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """-1000 to 1000; the higher goes first, of equals the older."""
    tenant: str | None = None
    """Tenant by which queues limit runs."""
    ready_at: Time | None = None
    """Earliest start; None: at once."""


class Ticket(Value, frozen=True, kw_only=True):
    """A run to be delivered.

    Run and delivery together identify it: a duplicate is delivered once, or harmlessly twice.
    """

    run_id: str
    queue: str
    priority: int
    tenant: str | None
    delivery: int
    """1 for the first."""
    queued_at: Time
    fruitless: int = 1
    """Deliveries in a row, this one included, that found the run without an entry more: 1 where the
    one before moved it, or there was none.
    """


class Backlog(Value, frozen=True, kw_only=True):
    """State of a queue."""

    queue: str
    ready: int
    """Could be delivered now."""
    later: int
    """Runs whose time has not come."""
    sent: int
    """Runs that an engine has and no process drives yet."""
    running: int
    waiting: int
    """Runs that wait for a person."""
    parked: int
    """Given up: see `Parked`."""
    oldest_ready_at: Time | None


class Parked(Value, frozen=True, kw_only=True):
    """A run that is not delivered any more until it is woken."""

    run_id: str
    queue: str
    why: str
    at: Time


class WorkerCard(Value, frozen=True, kw_only=True):
    """Description of a worker."""

    name: str
    """Name, unique among the living workers of a journal."""
    host: str
    pid: int
    version: str
    """Version of Treadle."""
    engine: str
    queues: tuple[str, ...]
    slots: int
    """Runs that it drives at once, at most."""


class WorkerInfo(Value, frozen=True, kw_only=True):
    """A worker as a list shows it; living ones, and those that died within the last day."""

    worker: str
    """Its id: what owns runs in the journal. A name that comes back has another one."""
    card: WorkerCard
    since: Time
    seen_at: Time
    """Time of its last sign of life, by the journal's clock; now, if none is needed (SQLite)."""
    alive: bool
    draining: bool
    running: int
    """Runs that it owns."""


class RunQueue(Protocol):
    """Part of a journal. Safe from many tasks; raises AgentError as the journal does.

    A run is ready that is in a queue, not finished, not waiting for a person, not parked, whose
    time has come, that no living process owns, and that is with no living worker and with no
    engine.
    """

    async def add(
        self, entries: Sequence[Entry], place: QueuePlace, *, found: ViewMark | None = None
    ) -> None:
        """Create a run without a driver: run.started and its other first entries, in one
        transaction. `found`, and errors: as `Journal.begin`.
        """
        ...

    async def claim(self, queues: Collection[str], *, engine: str, most: int) -> list[Ticket]:
        """Claim ready runs for this process, the first in order first, each for one claimant alone:
        while this process lives no other gets them.

        Runs that a newer version wrote, and those that `engine` has (`sent`), are left out; those
        of another engine are ready. Each claim counts as a delivery; a run without progress
        (`BEGINNINGS`) in the last FRUITLESS_MOST is parked instead. An orderly release does not
        count.
        """
        ...

    async def sent(self, run_ids: Collection[str], *, engine: str) -> None:
        """Record that an engine has the runs and delivers them, even if this process dies: they
        cannot be claimed until `put_back`, or the end of a driver.
        """
        ...

    async def with_engine(self, *, engine: str, most: int, after: str = "") -> list[Ticket]:
        """Return runs that the engine has and no process drives, by run id, above `after`: the
        engine is asked whether it has lost some.
        """
        ...

    async def put_back(
        self, run_id: str, *, at: Time | None = None, place: QueuePlace | None = None
    ) -> bool:
        """Make a run ready again, now or at a time; also one that waited, is parked (its count
        restarts), or was in no queue (`place`).

        False if it is finished, or a living process drives it. Raises AgentError(invalid) for an
        unknown run, and one without a place.
        """
        ...

    async def park(self, run_id: str, why: str) -> None:
        """Park a run until `put_back`, unless it is finished, or in no queue.

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def place(self, run_id: str) -> QueuePlace | None:
        """Return the place in which the run waits or waited; None: in no queue.

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def backlogs(self) -> list[Backlog]:
        """Return the backlogs of queues with unfinished runs, by name."""
        ...

    async def parked(self, *, limit: int = 100) -> list[Parked]:
        """Newest first."""
        ...

    async def register(self, card: WorkerCard) -> str:
        """Makes this process a worker of that name; gives its id. The same process again: it has
        another card from then on.

        Raises AgentError(busy) where a living one has the name, with its host and process id.
        """
        ...

    async def drain(self) -> None:
        """This worker claims no more; others see it."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Living ones first, by name.

        Processes that drive runs and are no workers are not among them.
        """
        ...


def engine_mark(name: str) -> str:
    """Stands in place of a worker's id for runs that an engine has."""
    return f"engine:{name}"


def why_parked(deliveries: int) -> str:
    """Explain why a run without progress is parked."""
    return (
        f"it was delivered {deliveries} times in a row and got no further: its workers died over "
        "it, or had to let go of it"
    )


def got_further(kinds: Iterable[str]) -> bool:
    """Return True if entries of these types mean progress."""
    return not BEGINNINGS.issuperset(kinds)


def no_place(run_id: str) -> AgentError:
    return AgentError("invalid", f"run {run_id} is in no queue: say in which one it is to wait")
