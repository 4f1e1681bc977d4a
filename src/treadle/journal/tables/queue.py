"""Queue of runs in the tables, stored in columns of the runs' rows. Entry point: `TableQueue`.

The database provides the liveness of workers (`Members`) and the time (`Dialect`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import anyio

from treadle._internal.crash import boundary
from treadle.journal.entries import Entry, RunStarted
from treadle.journal.importing import Standing
from treadle.journal.notifier import QUEUE, Notifier, run_topic
from treadle.journal.queue import (
    Backlog,
    Parked,
    QueuePlace,
    RunQueue,
    Ticket,
    WorkerCard,
    WorkerInfo,
    engine_mark,
    no_place,
)
from treadle.journal.sessions import ViewMark
from treadle.journal.tables.beginning import NewRun, make_run
from treadle.journal.tables.claiming import (
    PARK,
    DeadWorkers,
    among,
    claimed,
    dead_workers,
    ready_rows,
    ticket_of,
)
from treadle.journal.tables.database import Cursor, ReadTransactions, Work, Writing
from treadle.journal.tables.listing import parked_place, stored_parking
from treadle.journal.tables.liveness import Members
from treadle.journal.tables.queue_place import place_columns, start_us
from treadle.journal.tables.roster import Roster
from treadle.journal.tables.rows import (
    check_id,
    find,
    insert,
    key_of,
    row_of,
    time_of,
)
from treadle.journal.threads import run_in_thread
from treadle.types import Time

_MOVE: Final = "queue = ?, priority = ?, tenant = ?, "
_PUT_BACK: Final = """
update runs set {moves}ready_at_us = ?, fruitless = case when parked is not null then 0 when fruitless > ? then fruitless - ? else 0 end,
    waiting = 0, sent_to = null, parked = null
where num = ? and finished is null and owner is not distinct from ?"""
_TICKETS: Final = (
    "select id, queue, priority, tenant, deliveries, fruitless, ready_at_us from runs "
)
_OURS: Final = """
select id, queue, priority, tenant, deliveries, fruitless, ready_at_us, owner, waiting from runs
where finished is null and queue is not null and parked is null and sent_to = ? order by num"""
_STATES: Final = """
select queue, case when owner is not null and not {gone} then 'running' when waiting = 1 then 'waiting' when parked is not null then 'parked'
    when sent_to is not null and not {lost} then 'sent' when ready_at_us > ? then 'later' else 'ready' end as state, count(*), min(ready_at_us)
from runs where finished is null and queue is not null group by 1, 2"""


class TableQueue:
    """Queue of one journal."""

    def __init__(
        self,
        writing: Writing,
        reading: ReadTransactions,
        members: Members,
        notifier: Notifier,
        *,
        append: Callable[[Work[None]], Awaitable[None]] | None = None,
    ) -> None:
        """Create a queue in tables. `append` writes transactions with entries of runs. None: they
        are written like all others.
        """
        self._writing, self._reading, self._members, self._notifier = (
            writing,
            reading,
            members,
            notifier,
        )
        self._append = append or writing.write
        self._roster = Roster(members)
        self._handed: set[tuple[str, int]] = set()
        """Claims that were returned to a caller in this process, by run and delivery."""
        self._claiming = anyio.Lock()
        """Serialises claims, so that a claim in progress does not count as lost."""

    # ------------------------------------------------------------ in

    async def add(
        self, entries: Sequence[Entry], place: QueuePlace, *, found: ViewMark | None = None
    ) -> None:
        started = entries[0]
        assert isinstance(started, RunStarted), "a run begins with run.started"
        check_id(started.run_id)
        rows = [row_of(entry) for entry in entries]
        standing = Standing(fence=0, waiting=False, updated_at=entries[-1].at)

        def work(db: Cursor) -> None:
            run = NewRun(started, head=len(rows), place=place, standing=standing)
            num = make_run(db, run, self._members.of, found=found)
            insert(db, num, 1, rows)
            boundary()

        await self._append(work)
        boundary()
        self._notifier.tell(QUEUE)
        self._notifier.tell(run_topic(started.run_id))

    async def put_back(
        self,
        run_id: str,
        *,
        at: Time | None = None,
        place: QueuePlace | None = None,
        counts: bool = True,
    ) -> bool:
        def work(db: Cursor) -> bool:
            num = find(db, run_id).num
            row = db.execute(
                "select finished, owner, queue from runs where num = ?", (num,)
            ).fetchone()
            assert row is not None, "it was found"
            finished, owner, queue = row
            if finished is not None or self._members.of(db, owner) is not None:
                return False
            if place is None and queue is None:
                raise no_place(run_id)
            # of a run that keeps its place, others may change it meanwhile
            moves, where = ("", ()) if place is None else (_MOVE, place_columns(place))
            values = (*where, start_us(db, at, place), int(not counts), int(not counts), num, owner)
            db.execute(_PUT_BACK.format(moves=moves), values)
            return db.changed == 1

        if put := await self._writing.write(work):
            self._notifier.tell(QUEUE)
        return put

    async def drop(self, run_id: str) -> None:
        me = await self._enter()
        values = (key_of(run_id), me)
        await self._writing.write(
            lambda db: (
                db.execute(
                    "update runs set sent_to = null where id = ? and sent_to = ?", values
                ).changed
            )
        )

    async def park(self, run_id: str, why: str) -> None:
        def work(db: Cursor) -> int:
            values = (stored_parking(db, run_id, why), db.dialect.now_us(db), find(db, run_id).num)
            return db.execute(PARK, values).changed

        await self._writing.write(work)

    async def place(self, run_id: str) -> QueuePlace | None:
        def read(db: Cursor) -> QueuePlace | None:
            row = db.execute(
                "select queue, priority, tenant, ready_at_us from runs where num = ?",
                (find(db, run_id).num,),
            ).fetchone()
            if row is None or row[0] is None:
                return None
            return QueuePlace(
                queue=row[0], priority=row[1], tenant=row[2], ready_at=time_of(row[3])
            )

        return await self._reading.read(read)

    # ------------------------------------------------------------ out

    async def claim(self, queues: Collection[str], *, engine: str, most: int) -> list[Ticket]:
        if most <= 0 or not queues:
            return []
        me = await self._enter()

        def work(db: Cursor) -> list[Ticket]:
            self._roster.say_so(db, me)
            gone = dead_workers(db, self._members, but=me)
            tickets = self._lost(db, me, gone, set(queues))[:most]
            while len(tickets) < most:
                rows = ready_rows(
                    db,
                    sorted(set(map(key_of, queues))),
                    gone,
                    engine_mark(engine),
                    most - len(tickets),
                )
                mine = [ticket for row in rows if (ticket := claimed(db, row, me)) is not None]
                tickets += mine
                # otherwise some were parked, and others may follow them
                if len(mine) == len(rows):
                    break
            return tickets

        async with self._claiming:
            tickets = await self._writing.write(work)
            self._handed.update((ticket.run_id, ticket.delivery) for ticket in tickets)
        return tickets

    def _lost(
        self, db: Cursor, me: str, gone: DeadWorkers, queues: Collection[str]
    ) -> list[Ticket]:
        """Return the tickets of an earlier claim of this process that no caller received, because
        its caller was cancelled or the connection was lost right after it.
        """
        rows = db.execute(_OURS, (me,)).fetchall()
        self._handed.intersection_update(
            [(run_id, delivery) for run_id, _, _, _, delivery, *_ in rows]
        )
        found = [
            ticket_of(row)
            for *row, owner, waits in rows
            if not waits and (owner is None or owner in gone.owners)
        ]
        return [
            ticket
            for ticket in found
            if ticket.queue in queues and (ticket.run_id, ticket.delivery) not in self._handed
        ]

    def unhand(self, tickets: Sequence[Ticket]) -> None:
        """Return the tickets of a claim to the next one, because no caller received them."""
        self._handed.difference_update((ticket.run_id, ticket.delivery) for ticket in tickets)

    async def sent(self, run_ids: Collection[str], *, engine: str) -> None:
        if not run_ids:
            return
        mark, me = engine_mark(engine), await self._enter()

        def work(db: Cursor) -> None:
            statement = (
                "update runs set sent_to = ? where id = ? and sent_to = ? and finished is null"
            )
            db.executemany(statement, [(mark, key_of(run_id), me) for run_id in sorted(run_ids)])

        await self._writing.write(work)

    async def with_engine(self, *, engine: str, most: int, after: str = "") -> list[Ticket]:
        def read(db: Cursor) -> list[Ticket]:
            dead, values = among("owner", dead_workers(db, self._members).owners)
            where = (
                "where finished is null and queue is not null and sent_to = ? and id > ? and "
                f"(owner is null or {dead}) order by id limit ?"
            )
            rows = db.execute(
                _TICKETS + where, (engine_mark(engine), key_of(after), *values, max(most, 0))
            ).fetchall()
            return [ticket_of(row) for row in rows]

        return await self._reading.read(read)

    async def _enter(self) -> str:
        return await run_in_thread(self._members.register)

    # ------------------------------------------------------------ state of the queue

    async def backlogs(self) -> list[Backlog]:
        def read(db: Cursor) -> list[Backlog]:
            gone = dead_workers(db, self._members)
            (dead, owners), (lost, holders) = (
                among("owner", gone.owners),
                among("sent_to", gone.holders),
            )
            found: dict[str, dict[str, int]] = {}
            oldest: dict[str, Time] = {}
            for queue, state, count, ready_at_us in db.execute(
                _STATES.format(gone=dead, lost=lost), (*owners, *holders, db.dialect.now_us(db))
            ).fetchall():
                found.setdefault(queue, {})[state] = count
                if state == "ready":
                    oldest[queue] = time_of(ready_at_us)
            return [_backlog(queue, found[queue], oldest.get(queue)) for queue in sorted(found)]

        return await self._reading.read(read)

    async def parked(self, *, limit: int = 100) -> list[Parked]:
        def read(db: Cursor) -> list[Parked]:
            rows = db.execute(
                "select id, queue, parked, ready_at_us from runs where finished is null and queue "
                "is not null and parked is not null order by ready_at_us desc, num desc limit ?",
                (max(limit, 0),),
            ).fetchall()
            return [
                Parked(
                    run_id=run_id,
                    queue=queue,
                    why=why if db.seal is None else db.seal.opened_text(parked_place(run_id), why),
                    at=time_of(at_us),
                )
                for run_id, queue, why, at_us in rows
            ]

        return await self._reading.read(read)

    # ------------------------------------------------------------ workers

    async def register(self, card: WorkerCard) -> str:
        me = await self._enter()
        await self._writing.write(lambda db: self._roster.enter(db, me, card))
        return me

    async def drain(self) -> None:
        me = await self._enter()
        await self._writing.write(
            lambda db: db.execute("update workers set draining = 1 where id = ?", (me,)).changed
        )

    async def workers(self) -> list[WorkerInfo]:
        return await self._reading.read(self._roster.infos)


def _backlog(queue: str, counts: Mapping[str, int], oldest_ready_at: Time | None) -> Backlog:
    found = {
        state: counts.get(state, 0)
        for state in ("ready", "later", "sent", "running", "waiting", "parked")
    }
    return Backlog(queue=queue, **found, oldest_ready_at=oldest_ready_at)


if TYPE_CHECKING:
    _: type[RunQueue] = TableQueue
