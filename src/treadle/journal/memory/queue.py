"""Runs in memory that wait for a worker, in the only process.

Entry: `MemoryQueue`, `Queued`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from treadle.journal.entries import Entry
from treadle.journal.notifier import QUEUE, Notifier
from treadle.journal.queue import (
    FRUITLESS_MOST,
    Backlog,
    Parked,
    QueuePlace,
    RunQueue,
    Ticket,
    WorkerCard,
    WorkerInfo,
    engine_mark,
    got_further,
    no_place,
    why_parked,
)
from treadle.journal.sessions import ViewMark
from treadle.types import Time, new_id, now


class Queued:
    """State of a run in a queue."""

    __slots__ = ("deliveries", "fruitless", "parked", "place", "ready_at", "seen_head", "sent_to")

    def __init__(self, place: QueuePlace) -> None:
        self.place = place
        self.ready_at = place.ready_at or now()
        self.sent_to: str | None = None
        self.deliveries = self.fruitless = 0
        self.seen_head: int | None = None
        self.parked: str | None = None

    def let_go(self, *, waiting: bool) -> None:
        """Record that its driver released it in an orderly way."""
        self.sent_to, self.ready_at = None, now()
        if self.fruitless and not waiting:
            self.fruitless -= 1

    @classmethod
    def put_back(cls, queued: Queued | None, place: QueuePlace) -> Queued:
        """Queue a run in `place`, ready at its time or now. For a parked run, the count of
        deliveries restarts.
        """
        found = cls(place) if queued is None else queued
        if found.parked is not None:
            found.parked, found.fruitless = None, 0
        found.place, found.ready_at, found.sent_to = place, place.ready_at or now(), None
        return found

    def park(self, why: str) -> None:
        self.parked, self.sent_to, self.ready_at = why, None, now()


class _Run(Protocol):
    """Part of a journal's run that the queue reads."""

    held: bool
    waiting: bool
    queued: Queued | None

    @property
    def finished(self) -> bool: ...

    def unpacked(self) -> list[Entry]: ...


class _Add(Protocol):
    def __call__(
        self, entries: Sequence[Entry], /, *, fence: int, found: ViewMark | None
    ) -> _Run: ...


class MemoryQueue:
    """Queue of one journal."""

    def __init__(
        self, runs: Mapping[str, _Run], add: _Add, find: Callable[[str], _Run], notifier: Notifier
    ) -> None:
        self._runs, self._add, self._find, self._notifier = runs, add, find, notifier
        self._me = new_id("worker")
        self._card: WorkerCard | None = None
        self._since = now()
        self._draining = False

    async def add(
        self, entries: Sequence[Entry], place: QueuePlace, *, found: ViewMark | None = None
    ) -> None:
        self._add(entries, fence=0, found=found).queued = Queued(place)
        self._notifier.tell(QUEUE)

    async def claim(self, queues: Collection[str], *, engine: str, most: int) -> list[Ticket]:
        tickets: list[Ticket] = []
        for run_id, run, queued in sorted(
            self._claimable(queues, engine), key=lambda one: -one[2].place.priority
        ):
            if len(tickets) >= most:
                break
            entries = run.unpacked()
            if queued.seen_head is None or got_further(
                str(entry.__struct_config__.tag) for entry in entries[queued.seen_head :]
            ):
                queued.fruitless = 0
            if queued.fruitless >= FRUITLESS_MOST:
                queued.park(why_parked(queued.fruitless))
                continue
            queued.seen_head, queued.sent_to = len(entries), self._me
            queued.fruitless, queued.deliveries = queued.fruitless + 1, queued.deliveries + 1
            tickets.append(_ticket(run_id, queued))
        return tickets

    def _claimable(self, queues: Collection[str], engine: str) -> list[tuple[str, _Run, Queued]]:
        at, others = now(), (self._me, engine_mark(engine))
        return [
            one
            for one in self._open()
            if one[2].place.queue in queues and _column(one[1], one[2], at, others) == "ready"
        ]

    def _open(self) -> Iterator[tuple[str, _Run, Queued]]:
        """Yield the runs in a queue that are not finished, oldest first."""
        for run_id, run in self._runs.items():
            if run.queued is not None and not run.finished:
                yield run_id, run, run.queued

    async def sent(self, run_ids: Collection[str], *, engine: str) -> None:
        for run_id in run_ids:
            if (
                (run := self._runs.get(run_id)) is not None
                and run.queued is not None
                and run.queued.sent_to == self._me
            ):
                run.queued.sent_to = engine_mark(engine)

    async def with_engine(self, *, engine: str, most: int, after: str = "") -> list[Ticket]:
        mark = engine_mark(engine)
        theirs = {
            run_id: queued
            for run_id, run, queued in self._open()
            if queued.sent_to == mark and not run.held and run_id > after
        }
        return [_ticket(run_id, theirs[run_id]) for run_id in sorted(theirs)[: max(most, 0)]]

    async def put_back(
        self,
        run_id: str,
        *,
        at: Time | None = None,
        place: QueuePlace | None = None,
        counts: bool = True,
    ) -> bool:
        run = self._find(run_id)
        if run.finished or run.held:
            return False
        if place is None:
            if run.queued is None:
                raise no_place(run_id)
            place = msgspec.structs.replace(run.queued.place, ready_at=None)
        if run.queued is not None and not counts:
            run.queued.fruitless = max(run.queued.fruitless - 1, 0)
        run.queued, run.waiting = (
            Queued.put_back(
                run.queued, msgspec.structs.replace(place, ready_at=at or place.ready_at)
            ),
            False,
        )
        self._notifier.tell(QUEUE)
        return True

    async def drop(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        if run is not None and run.queued is not None and run.queued.sent_to == self._me:
            run.queued.sent_to = None

    async def park(self, run_id: str, why: str) -> None:
        run = self._find(run_id)
        if run.queued is not None and not run.finished:
            run.queued.park(why)

    async def place(self, run_id: str) -> QueuePlace | None:
        queued = self._find(run_id).queued
        return (
            None
            if queued is None
            else msgspec.structs.replace(queued.place, ready_at=queued.ready_at)
        )

    async def backlogs(self) -> list[Backlog]:
        at, found = now(), dict[str, list[tuple[str, Time]]]()
        for _, run, queued in self._open():
            found.setdefault(queued.place.queue, []).append(
                (_column(run, queued, at), queued.ready_at)
            )
        return [_backlog(queue, found[queue]) for queue in sorted(found)]

    async def parked(self, *, limit: int = 100) -> list[Parked]:
        runs = [
            Parked(run_id=run_id, queue=queued.place.queue, why=queued.parked, at=queued.ready_at)
            for run_id, _, queued in self._open()
            if queued.parked is not None
        ]
        return sorted(reversed(runs), key=lambda one: one.at, reverse=True)[: max(limit, 0)]

    async def register(self, card: WorkerCard) -> str:
        self._card, self._since, self._draining = card, now(), False
        return self._me

    async def drain(self) -> None:
        self._draining = True

    async def workers(self) -> list[WorkerInfo]:
        if self._card is None:
            return []
        running = sum(run.held for run in self._runs.values())
        info = WorkerInfo(
            worker=self._me,
            card=self._card,
            since=self._since,
            seen_at=now(),
            alive=True,
            draining=self._draining,
            running=running,
        )
        return [info]


def _column(run: _Run, queued: Queued, at: Time, others: Collection[str] | None = None) -> str:
    """Return a column of the backlog. `others`: workers that may have it; None: any."""
    if run.held:
        return "running"
    if run.waiting:
        return "waiting"
    if queued.parked is not None:
        return "parked"
    if queued.sent_to is not None and (others is None or queued.sent_to in others):
        return "sent"
    return "later" if queued.ready_at > at else "ready"


def _backlog(queue: str, runs: list[tuple[str, Time]]) -> Backlog:
    columns = Counter(column for column, _ in runs)
    counts = {
        column: columns[column]
        for column in ("ready", "later", "sent", "running", "waiting", "parked")
    }
    return Backlog(
        queue=queue,
        **counts,
        oldest_ready_at=min((at for column, at in runs if column == "ready"), default=None),
    )


def _ticket(run_id: str, queued: Queued) -> Ticket:
    place, counts = queued.place, {"delivery": queued.deliveries, "fruitless": queued.fruitless}
    return Ticket(
        run_id=run_id,
        queue=place.queue,
        priority=place.priority,
        tenant=place.tenant,
        queued_at=queued.ready_at,
        **counts,
    )


if TYPE_CHECKING:
    _: type[RunQueue] = MemoryQueue
