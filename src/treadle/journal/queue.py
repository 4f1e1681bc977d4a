"""Runs that wait for a worker. The run's own row is the outbox from which an engine is fed.

engine.py delivers them; workers drive them. Entry points: `RunQueue`, `QueuePlace`, `Ticket`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol

from treadle.errors import AgentError
from treadle.journal.entries import Entry
from treadle.journal.sessions import ViewMark
from treadle.types import Time, Value

DEFAULT_QUEUE: Final = "default"
"""Queue that always exists."""
FRUITLESS_MOST: Final = 10
"""Number of consecutive deliveries without progress after which a run is parked, because it crashes
its workers or none can drive it.
"""
BEGINNINGS: Final = frozenset(
    {
        "run.resumed",
        "agent.switched",
        "model.batched",
        "model.requested",
        "model.switched",
        "tool.started",
        "cancel.asked",
    }
)
"""Types of entries that only record a beginning, and do not count as progress."""


class QueuePlace(Value, frozen=True, kw_only=True):
    """Place of a run in a queue."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """-1000 to 1000. Higher priorities run first; within one priority, older runs."""
    tenant: str | None = None
    """Tenant to which queue limits apply."""
    ready_at: Time | None = None
    """Earliest start; None: immediately."""


class Ticket(Value, frozen=True, kw_only=True):
    """Delivery of a run.

    Identified by run and delivery together, so that a duplicate is delivered once, or harmlessly
    twice.
    """

    run_id: str
    queue: str
    priority: int
    tenant: str | None
    delivery: int
    """Delivery number; 1 for the first."""
    queued_at: Time
    fruitless: int = 1
    """Number of consecutive deliveries without a new entry, including this one: 1 if the previous
    one made progress or there was none.
    """


class Backlog(Value, frozen=True, kw_only=True):
    """State of a queue."""

    queue: str
    ready: int
    """Runs that can be delivered now."""
    later: int
    """Runs scheduled for later."""
    sent: int
    """Runs that an engine has accepted and no process drives yet."""
    running: int
    waiting: int
    """Runs that wait for a user."""
    parked: int
    """Runs that are no longer delivered; see `Parked`."""
    oldest_ready_at: Time | None


class Parked(Value, frozen=True, kw_only=True):
    """A run that is not delivered until someone wakes it."""

    run_id: str
    queue: str
    why: str
    at: Time


class WorkerCard(Value, frozen=True, kw_only=True):
    """Description of a worker."""

    name: str
    """Unique name among the living workers of a journal."""
    host: str
    pid: int
    version: str
    """Version of Treadle."""
    engine: str
    queues: tuple[str, ...]
    slots: int
    """Maximum number of concurrent runs."""


class WorkerInfo(Value, frozen=True, kw_only=True):
    """Worker in a list: living, or dead for less than a day."""

    worker: str
    """Id that owns runs in the journal. A worker that restarts under the same name gets a new
    one.
    """
    card: WorkerCard
    since: Time
    seen_at: Time
    """Time of its last renewal, by the journal's clock; the current time if none is needed
    (SQLite).
    """
    alive: bool
    draining: bool
    running: int
    """Runs that it owns."""


class RunQueue(Protocol):
    """Queue of a journal. May be used from many tasks; raises AgentError as the journal does.

    A run is ready if it is in a queue, due, not finished, not waiting for a user and not parked,
    and if neither a living process nor an engine has it.
    """

    async def add(
        self, entries: Sequence[Entry], place: QueuePlace, *, found: ViewMark | None = None
    ) -> None:
        """Create a run without a driver: run.started and its other first entries, in one
        transaction. `found` and errors as in `Journal.begin`.
        """
        ...

    async def claim(self, queues: Collection[str], *, engine: str, most: int) -> list[Ticket]:
        """Claim ready runs for this process, in order. Each run is claimed exclusively while this
        process lives.

        Skips runs written by a newer version and those that `engine` has (`sent`); those of another
        engine are ready. Each claim counts as a delivery; a run without progress (`BEGINNINGS`) in
        the last FRUITLESS_MOST is parked instead. An orderly release does not count.
        """
        ...

    async def sent(self, run_ids: Collection[str], *, engine: str) -> None:
        """Record that an engine has the runs and will deliver them, even if this process or a
        driver dies. They cannot be claimed until `put_back`, or until a driver releases them.
        """
        ...

    async def with_engine(self, *, engine: str, most: int, after: str = "") -> list[Ticket]:
        """Return runs that the engine has and no process drives, by run id, above `after`, to ask
        the engine whether it has lost any.
        """
        ...

    async def put_back(
        self,
        run_id: str,
        *,
        at: Time | None = None,
        place: QueuePlace | None = None,
        counts: bool = True,
    ) -> bool:
        """Make a run ready again, now or at a given time, even if it waited, is parked (which
        resets its count), or was in no queue (`place`). `counts`: False if no worker received its
        last claim, which then is no delivery without progress.

        False if it is finished or has a living driver. Raises AgentError(invalid) for an unknown
        run or one without a place.
        """
        ...

    async def drop(self, run_id: str) -> None:
        """Give up this process's claim on a run, because somebody else drives it: if they die, the
        run is ready again. Does nothing for a run without one.
        """
        ...

    async def park(self, run_id: str, why: str) -> None:
        """Park a run until `put_back`, unless it is finished or in no queue.

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def place(self, run_id: str) -> QueuePlace | None:
        """Return the place in which the run waits or waited; None if it was in no queue.

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def backlogs(self) -> list[Backlog]:
        """Return the backlogs of queues with unfinished runs, by name."""
        ...

    async def parked(self, *, limit: int = 100) -> list[Parked]:
        """Return parked runs, newest first."""
        ...

    async def register(self, card: WorkerCard) -> str:
        """Register this process as a worker and return its id. Registering again replaces its card.

        Raises AgentError(busy), with host and process id, if a living worker has the name.
        """
        ...

    async def drain(self) -> None:
        """Stop claiming for this worker, visibly to others."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers: living ones first, then by name.

        Processes that drive runs without being workers are omitted.
        """
        ...


def engine_mark(name: str) -> str:
    """Return the mark that replaces a worker's id for runs that an engine has."""
    return f"engine:{name}"


def why_parked(deliveries: int) -> str:
    """Return the explanation why a run without progress is parked."""
    return (
        f"it was delivered {deliveries} times in a row without progress: its workers died or "
        "released it"
    )


def got_further(kinds: Iterable[str]) -> bool:
    """Return True if entries of these types mean progress."""
    return not BEGINNINGS.issuperset(kinds)


def no_place(run_id: str) -> AgentError:
    return AgentError(
        "invalid", f"run {run_id} is in no queue: name the queue that it should wait in"
    )
