"""The queue of a journal over several shards. Entry point: `ShardedQueue`.

Priorities hold over all shards: a claim first asks each for its next runs, and then takes from each
as many as are among the first of all.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import structs

from treadle.errors import AgentError
from treadle.journal.entries import Entry, RunStarted
from treadle.journal.queue import (
    Backlog,
    Parked,
    QueuePlace,
    RunQueue,
    Ticket,
    WorkerCard,
    WorkerInfo,
)
from treadle.journal.sessions import ViewMark
from treadle.journal.shards.directory import Directory
from treadle.journal.shards.part import PartJournal
from treadle.journal.shards.shard import Shard, ask_all, first_missing
from treadle.types import Time

T = TypeVar("T")

TRIES_MOST: Final = 3
"""Attempts at a claim whose runs other workers have claimed in the meantime."""
_COUNTS: Final = ("ready", "later", "sent", "running", "waiting", "parked")


class AtRun(Protocol):
    """Function that runs an operation in the shard of a run."""

    async def __call__(self, run_id: str, work: Callable[[PartJournal], Awaitable[T]], /) -> T: ...


class ShardedQueue:
    """Queue over all shards."""

    def __init__(self, directory: Directory, at_run: AtRun) -> None:
        self._directory = directory
        self._shards = [*directory.shards.values()]
        self._at = at_run
        self._card: WorkerCard | None = None
        self._draining = False

    # ------------------------------------------------------------ in

    async def add(
        self, entries: Sequence[Entry], place: QueuePlace, *, found: ViewMark | None = None
    ) -> None:
        started = entries[0]
        assert isinstance(started, RunStarted), "a run begins with run.started"
        shard = await self._directory.place(started)
        await shard.do(lambda journal: journal.queue.add(entries, place, found=found))
        self._directory.remember(started.run_id, shard)

    async def put_back(
        self,
        run_id: str,
        *,
        at: Time | None = None,
        place: QueuePlace | None = None,
        counts: bool = True,
    ) -> bool:
        return await self._at(
            run_id,
            lambda journal: journal.queue.put_back(run_id, at=at, place=place, counts=counts),
        )

    async def drop(self, run_id: str) -> None:
        await self._at(run_id, lambda journal: journal.queue.drop(run_id))

    async def park(self, run_id: str, why: str) -> None:
        await self._at(run_id, lambda journal: journal.queue.park(run_id, why))

    async def place(self, run_id: str) -> QueuePlace | None:
        return await self._at(run_id, lambda journal: journal.queue.place(run_id))

    # ------------------------------------------------------------ out

    async def claim(self, queues: Collection[str], *, engine: str, most: int) -> list[Ticket]:
        if most <= 0 or not queues:
            return []
        await self._enter_again()
        for _ in range(TRIES_MOST):
            shares = await self._shares(queues, engine, most)
            if not shares:
                return []
            if tickets := await self._claimed(shares, queues, engine, most):
                return tickets
        return []

    async def _shares(
        self, queues: Collection[str], engine: str, most: int
    ) -> list[tuple[Shard, int]]:
        """Return how many runs to claim from each shard, so that the first of all are claimed."""
        answers = await ask_all(
            self._shards, lambda journal: journal.ready(queues, engine=engine, most=most)
        )
        first = heapq.merge(*([(run, shard.name) for run in runs] for shard, runs in answers))
        counts = Counter(name for _, name in islice(first, most))
        for shard, _ in answers:
            if shard.uncertain:  # a claim there may have succeeded unnoticed: its runs come first
                counts[shard.name] = most
        shares = [(shard, counts[shard.name]) for shard, _ in answers if counts[shard.name]]
        return sorted(shares, key=lambda share: not share[0].uncertain)

    async def _claimed(
        self, shares: Sequence[tuple[Shard, int]], queues: Collection[str], engine: str, most: int
    ) -> list[Ticket]:
        """Claim from each shard in turn. A shard that fails costs the others nothing, unless none
        has given anything.
        """
        claimed: list[list[Ticket]] = []
        failure: AgentError | None = None
        from_shards: list[tuple[Shard, list[Ticket]]] = []
        for shard, share in shares:
            if (count := min(share, most - sum(map(len, claimed)))) <= 0:
                break
            shard.uncertain = True
            try:
                tickets = await shard.do(
                    lambda journal, count=count: journal.queue.claim(
                        queues, engine=engine, most=count
                    )
                )
            except AgentError as e:
                failure = e
                continue
            except BaseException:  # cancelled: the next claim returns these
                for before, some in from_shards:
                    before.uncertain = True
                    if before.opened is not None:
                        before.opened.queue.unhand(some)
                raise
            shard.uncertain = False
            from_shards.append((shard, tickets))
            for ticket in tickets:
                self._directory.remember(ticket.run_id, shard)
            claimed.append(tickets)
        if failure is not None and not any(claimed):
            raise failure
        return [*heapq.merge(*claimed, key=lambda ticket: (-ticket.priority, ticket.queued_at))]

    async def sent(self, run_ids: Collection[str], *, engine: str) -> None:
        by_shard: dict[str, list[str]] = {}
        for run_id in run_ids:
            if (shard := await self._directory.find(run_id)) is not None:
                by_shard.setdefault(shard.name, []).append(run_id)
        for name, some in by_shard.items():
            await self._directory.shards[name].do(
                lambda journal, some=some: journal.queue.sent(some, engine=engine)
            )

    async def with_engine(self, *, engine: str, most: int, after: str = "") -> list[Ticket]:
        answers = await ask_all(
            self._shards,
            lambda journal: journal.queue.with_engine(engine=engine, most=most, after=after),
        )
        for shard, tickets in answers:
            for ticket in tickets:
                self._directory.remember(ticket.run_id, shard)
        merged = heapq.merge(*(tickets for _, tickets in answers), key=lambda one: one.run_id)
        return [*merged][:most]

    # ------------------------------------------------------------ state of the queue

    async def backlogs(self) -> list[Backlog]:
        found: dict[str, Backlog] = {}
        for _, backlogs in await ask_all(self._shards, lambda journal: journal.queue.backlogs()):
            for one in backlogs:
                known = found.get(one.queue)
                found[one.queue] = one if known is None else _sum(known, one)
        return [found[queue] for queue in sorted(found)]

    async def parked(self, *, limit: int = 100) -> list[Parked]:
        answers = await ask_all(self._shards, lambda journal: journal.queue.parked(limit=limit))
        every = (one for _, some in answers for one in some)
        return sorted(every, key=lambda one: one.at, reverse=True)[: max(limit, 0)]

    # ------------------------------------------------------------ workers

    async def register(self, card: WorkerCard) -> str:
        self._card, self._draining = card, False
        if all(shard.missing is not None for shard in self._shards):
            raise first_missing(self._shards) or AgentError("agent", "no shard answers")
        me = ""
        for shard in self._shards:
            if shard.missing is None:
                me = await self._register(shard, card) or me
        return me

    async def _register(self, shard: Shard, card: WorkerCard) -> str:
        """Register this process in one shard; "" if its server is missing."""
        try:
            me = await shard.do(lambda journal: journal.queue.register(card))
        except AgentError:
            if shard.missing is None:
                raise
            return ""
        shard.card = card
        return me

    async def _enter_again(self) -> None:
        """Register this worker in shards that were missing when it began."""
        if self._card is None or self._draining:
            return
        for shard in self._shards:
            if shard.missing is None and shard.card is not self._card:
                await self._register(shard, self._card)

    async def drain(self) -> None:
        self._draining = True
        for shard in self._shards:
            if shard.missing is None:
                try:
                    await shard.do(lambda journal: journal.queue.drain())
                except AgentError:
                    if shard.missing is None:
                        raise

    async def workers(self) -> list[WorkerInfo]:
        found: dict[str, WorkerInfo] = {}
        for _, infos in await ask_all(self._shards, lambda journal: journal.queue.workers()):
            for info in infos:
                known = found.get(info.worker)
                found[info.worker] = info if known is None else _one_worker(known, info)
        return sorted(found.values(), key=lambda one: (not one.alive, one.card.name, one.since))


def _sum(one: Backlog, other: Backlog) -> Backlog:
    oldest = [at for at in (one.oldest_ready_at, other.oldest_ready_at) if at is not None]
    counts: dict[str, Any] = {
        state: getattr(one, state) + getattr(other, state) for state in _COUNTS
    }
    return Backlog(queue=one.queue, **counts, oldest_ready_at=min(oldest, default=None))


def _one_worker(one: WorkerInfo, other: WorkerInfo) -> WorkerInfo:
    """Return a worker as two shards see it. It is alive if one of them sees it so."""
    return structs.replace(
        one,
        since=min(one.since, other.since),
        seen_at=max(one.seen_at, other.seen_at),
        alive=one.alive or other.alive,
        draining=one.draining or other.draining,
        running=one.running + other.running,
    )


if TYPE_CHECKING:
    _: type[RunQueue] = ShardedQueue
