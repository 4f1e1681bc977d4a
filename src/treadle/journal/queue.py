"""Runs that wait for a worker: the run's own row says so, and is the outbox from which an engine is
told.

Who delivers them is engine.py's, who drives them a worker's business. Entry: `RunQueue`,
`QueuePlace`, `Ticket`.
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
    """Where a run waits."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """-1000 to 1000; the higher goes first, of equals the older."""
    tenant: str | None = None
    """For whom; what queues limit per tenant is counted by it."""
    ready_at: Time | None = None
    """Not before; None: at once."""


class Ticket(Value, frozen=True, kw_only=True):
    """A run that is to be delivered.

    Run and delivery together name it: told twice, it is delivered once, or harmlessly twice.
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
    """How a queue stands."""

    queue: str
    ready: int
    """Could be delivered now."""
    later: int
    """Not yet: their time has not come."""
    sent: int
    """An engine has them; nobody drives them yet."""
    running: int
    waiting: int
    """For a person."""
    parked: int
    """Given up: see `Parked`."""
    oldest_ready_at: Time | None


class Parked(Value, frozen=True, kw_only=True):
    """A run that is not delivered any more until somebody wakes it."""

    run_id: str
    queue: str
    why: str
    at: Time


class WorkerCard(Value, frozen=True, kw_only=True):
    """What a worker says of itself."""

    name: str
    """One living worker of a journal has it."""
    host: str
    pid: int
    version: str
    """Of Treadle."""
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
    """When it last said that it lives, by the journal's clock; where nobody needs to say so
    (SQLite), now.
    """
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
        """Makes a run that nobody drives: run.started and what belongs to its beginning, in one
        transaction. `found`, and errors: as `Journal.begin`.
        """
        ...

    async def claim(self, queues: Collection[str], *, engine: str, most: int) -> list[Ticket]:
        """Takes ready runs for this process, the first in order first, each for one claimant alone:
        while this process lives nobody else gets them.

        Left out are runs that a newer version wrote, and those that `engine` has (`sent`); those of
        another engine are ready. Each claim is a delivery more; a run that got no further
        (`BEGINNINGS`) in the last FRUITLESS_MOST is parked instead. What a driver let go of in
        order does not count.
        """
        ...

    async def sent(self, run_ids: Collection[str], *, engine: str) -> None:
        """An engine has them now and delivers them, also when this process is dead: nobody claims
        them until `put_back`, or the end of a driver.
        """
        ...

    async def with_engine(self, *, engine: str, most: int, after: str = "") -> list[Ticket]:
        """Runs that the engine has and nobody drives, by run id, above `after`: what it is asked
        about, in case it has forgotten some.
        """
        ...

    async def put_back(
        self, run_id: str, *, at: Time | None = None, place: QueuePlace | None = None
    ) -> bool:
        """Makes a run ready again, now or at a time; also one that waited, is parked (it then
        begins anew to count), or was in no queue (`place`).

        False where it is finished, or a living process drives it. Raises AgentError(invalid) for an
        unknown run, and one without a place.
        """
        ...

    async def park(self, run_id: str, why: str) -> None:
        """Until `put_back`. Nothing where it is finished, or in no queue.

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def place(self, run_id: str) -> QueuePlace | None:
        """Where it waits, or waited; None: in no queue.

        Raises AgentError(invalid) for an unknown run.
        """
        ...

    async def backlogs(self) -> list[Backlog]:
        """By name; of queues that hold a run which is not finished."""
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
    """Of a run that never gets any further."""
    return (
        f"it was delivered {deliveries} times in a row and got no further: its workers died over "
        "it, or had to let go of it"
    )


def got_further(kinds: Iterable[str]) -> bool:
    """Whether entries of these types are more than beginnings."""
    return not BEGINNINGS.issuperset(kinds)


def no_place(run_id: str) -> AgentError:
    return AgentError("invalid", f"run {run_id} is in no queue: say in which one it is to wait")
