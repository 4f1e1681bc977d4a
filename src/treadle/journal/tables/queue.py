"""Runs that wait for a worker, in the tables: the columns of their own rows say so. Entry:
`TableQueue`.

Which workers live, and what the time is, the database says in its own way (`Members`, `Dialect`).
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from treadle._internal.crash import boundary
from treadle.journal.entries import SCHEMA, Entry, RunStarted
from treadle.journal.importing import Standing
from treadle.journal.notifier import QUEUE, Notifier, run_topic
from treadle.journal.queue import (
    BEGINNINGS,
    FRUITLESS_MOST,
    Backlog,
    Parked,
    QueuePlace,
    RunQueue,
    Ticket,
    WorkerCard,
    WorkerInfo,
    engine_mark,
    no_place,
    why_parked,
)
from treadle.journal.sessions import ViewMark
from treadle.journal.tables.beginning import check_place, make_run
from treadle.journal.tables.database import Cursor, ReadTransactions, Work, Writing
from treadle.journal.tables.driving import Hold
from treadle.journal.tables.liveness import Members
from treadle.journal.tables.roster import Roster
from treadle.journal.tables.rows import (
    check_id,
    find,
    insert,
    key_of,
    micros,
    place_of,
    row_of,
    showable,
    time_of,
)
from treadle.types import Time

LET_GO: Final = (
    "sent_to = null, fruitless = case when fruitless > 0 and ? = 0 then fruitless - 1 else "
    "fruitless end"
)
"""SQL for a run that its driver releases. Parameter: True if it waits for a person."""
TAKEN: Final = "sent_to = case when sent_to = ? or sent_to like 'engine:%' then sent_to end"
"""SQL for a run that the worker of this id takes over: the earlier claimant no longer delivers it.
"""
_READY: Final = """
select num, id, queue, priority, tenant, ready_at_us, head, seen_head, deliveries, fruitless from runs
where finished is null and {queue} and waiting = 0 and parked is null and {sent} and (owner is null or {gone}) and ready_at_us <= ? and schema <= ?
order by priority desc, num limit ?"""
_CLAIM: Final = (
    "update runs set sent_to = ?, deliveries = ?, fruitless = ?, seen_head = ? where num = ?"
)
_PARK: Final = (
    "update runs set parked = ?, sent_to = null, ready_at_us = ? where num = ? and finished is "
    "null and queue is not null"
)
_PUT_BACK: Final = """
update runs set queue = ?, priority = ?, tenant = ?, ready_at_us = ?, fruitless = ?, waiting = 0, sent_to = null, parked = null
where num = ? and finished is null and owner is not distinct from ?"""
_PUT_BACK_BY_DRIVER: Final = """
update runs set head = head + ?, updated_at_us = ?, owner = null, queue = ?, priority = ?, tenant = ?, ready_at_us = ?,
    fruitless = case when parked is null then fruitless else 0 end, waiting = 0, sent_to = null, parked = null
where num = ? and fence = ? and head = ? and owner = ?"""
_NAMED: Final = """
with recursive found(id) as (
    select min({it}) from runs where finished is null and queue is not null and {it} is not null
    union all
    select (select min({it}) from runs where finished is null and queue is not null and {it} > found.id) from found where found.id is not null
) select id from found where id is not null"""
"""Each once, without a look at every row."""
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


class _Row(NamedTuple):
    """A run that may be claimed."""

    num: int
    run_id: str
    queue: str
    priority: int
    tenant: str | None
    ready_at_us: int
    head: int
    seen_head: int | None
    deliveries: int
    fruitless: int

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.num


class _Gone(NamedTuple):
    """Ids of the dead, among those that runs name."""

    owners: Sequence[str]
    holders: Sequence[str]
    """To whom runs were sent."""
    engines: Sequence[str]
    """The marks of those that have runs; none of them is dead."""


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
        """`append`: writes what holds entries of runs; None: as everything else is written."""
        self._writing, self._reading, self._members, self._notifier = (
            writing,
            reading,
            members,
            notifier,
        )
        self._append = append or writing.write
        self._roster = Roster(members)
        self._handed: set[tuple[str, int]] = set()
        """Claims by run and delivery that were returned to a caller here."""
        self._claiming = anyio.Lock()
        """Makes claims one at a time, so that a claim in progress does not count as lost."""

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
            num = make_run(
                db,
                started,
                self._members.of,
                owner=None,
                head=len(rows),
                standing=standing,
                place=place,
                found=found,
            )
            insert(db, num, 1, rows)
            boundary()

        await self._append(work)
        boundary()
        self._notifier.tell(QUEUE)
        self._notifier.tell(run_topic(started.run_id))

    async def put_back(
        self, run_id: str, *, at: Time | None = None, place: QueuePlace | None = None
    ) -> bool:
        def work(db: Cursor) -> bool:
            num = find(db, run_id).num
            row = db.execute(
                (
                    "select finished, owner, queue, priority, tenant, parked, fruitless from runs "
                    "where num = ?"
                ),
                (num,),
            ).fetchone()
            assert row is not None, "it was found"
            finished, owner, queue, priority, tenant, parked, fruitless = row
            if finished is not None or self._members.of(db, owner) is not None:
                return False
            if place is None and queue is None:
                raise no_place(run_id)
            where = (queue, priority, tenant) if place is None else _columns(place)
            db.execute(
                _PUT_BACK,
                (
                    *where,
                    _ready_at_us(db, at, place),
                    fruitless if parked is None else 0,
                    num,
                    owner,
                ),
            )
            return db.changed == 1

        if put := await self._writing.write(work):
            self._notifier.tell(QUEUE)
        return put

    async def park(self, run_id: str, why: str) -> None:
        await self._writing.write(
            lambda db: (
                db.execute(
                    _PARK, (showable(why), db.dialect.now_us(db), find(db, run_id).num)
                ).changed
            )
        )

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
            gone = self._gone(db, but=me)
            tickets = self._lost(db, me, gone, set(queues))[:most]
            while len(tickets) < most:
                rows = _ready(
                    db,
                    sorted(set(map(key_of, queues))),
                    gone,
                    engine_mark(engine),
                    most - len(tickets),
                )
                claimed = [ticket for row in rows if (ticket := _claimed(db, row, me)) is not None]
                tickets += claimed
                # else some were parked, and others may stand behind them
                if len(claimed) == len(rows):
                    break
            return tickets

        async with self._claiming:
            tickets = await self._writing.write(work)
            self._handed.update((ticket.run_id, ticket.delivery) for ticket in tickets)
        return tickets

    def _lost(self, db: Cursor, me: str, gone: _Gone, queues: Collection[str]) -> list[Ticket]:
        """Return the tickets of an earlier claim of ours that no caller received: its caller was
        cancelled, or the database broke off right after it.
        """
        rows = db.execute(_OURS, (me,)).fetchall()
        self._handed.intersection_update(
            [(run_id, delivery) for run_id, _, _, _, delivery, *_ in rows]
        )
        found = [
            _ticket(*row)
            for *row, owner, waits in rows
            if not waits and (owner is None or owner in gone.owners)
        ]
        return [
            ticket
            for ticket in found
            if ticket.queue in queues and (ticket.run_id, ticket.delivery) not in self._handed
        ]

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
            dead, values = _among("owner", self._gone(db).owners)
            where = (
                "where finished is null and queue is not null and sent_to = ? and id > ? and "
                f"(owner is null or {dead}) order by id limit ?"
            )
            rows = db.execute(
                _TICKETS + where, (engine_mark(engine), key_of(after), *values, max(most, 0))
            ).fetchall()
            return [_ticket(*row) for row in rows]

        return await self._reading.read(read)

    def _gone(self, db: Cursor, *, but: str | None = None) -> _Gone:
        """Return the dead workers. The named ones are read first: a worker that arrives in between
        does not count as dead.
        """
        owners, holders = (
            [one for (one,) in db.execute(_NAMED.format(it=it)).fetchall()]
            for it in ("owner", "sent_to")
        )
        living = {*self._members.living(db), but} if owners or holders else set[str | None]()
        engines = [one for one in holders if one.startswith(engine_mark(""))]
        return _Gone(
            [one for one in owners if one not in living],
            [one for one in holders if one not in living and one not in engines],
            engines,
        )

    async def _enter(self) -> str:
        # of its own: tools may keep all the others
        return await anyio.to_thread.run_sync(
            self._members.register, limiter=anyio.CapacityLimiter(1)
        )

    # ------------------------------------------------------------ how it stands

    async def backlogs(self) -> list[Backlog]:
        def read(db: Cursor) -> list[Backlog]:
            gone = self._gone(db)
            (dead, owners), (lost, holders) = (
                _among("owner", gone.owners),
                _among("sent_to", gone.holders),
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
                Parked(run_id=run_id, queue=queue, why=why, at=time_of(at_us))
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


def put_back(db: Cursor, hold: Hold, entries: Sequence[Entry], place: QueuePlace) -> None:
    """Move the head, release the run and queue it in `place`.

    Where the run is not held any more, `db.changed` is 0. Raises AgentError(invalid).
    """
    where, ready_at_us = _columns(place), _ready_at_us(db, None, place)
    values = (
        len(entries),
        micros(entries[-1].at),
        *where,
        ready_at_us,
        hold.num,
        hold.fence,
        hold.head,
        hold.owner,
    )
    db.execute(_PUT_BACK_BY_DRIVER, values)


def _columns(place: QueuePlace) -> tuple[str, int, str | None]:
    """Raises AgentError(invalid)."""
    check_place(place)
    return place.queue, place.priority, place.tenant


def _ready_at_us(db: Cursor, at: Time | None, place: QueuePlace | None) -> int:
    at = at or (None if place is None else place.ready_at)
    return db.dialect.now_us(db) if at is None else micros(at)


def _among(column: str, values: Sequence[str]) -> tuple[str, Sequence[str]]:
    """SQL for whether a column that is not null holds one of these, and what it is given."""
    return (f"{column} in ({', '.join('?' * len(values))})", values) if values else ("0 = 1", ())


def _ready(db: Cursor, queues: Sequence[str], gone: _Gone, mark: str, most: int) -> list[_Row]:
    """Return the first runs in order, over all queues; free ones are found in their order, and
    those of dead workers are few.
    """
    dead, owners = _among("owner", gone.owners)
    rest = (*owners, db.dialect.now_us(db), SCHEMA, most)
    free = (
        _READY.format(queue="queue = ?", sent="sent_to is null", gone=dead) + db.dialect.skip_locked
    )
    found = [
        [_Row(*row) for row in db.execute(free, (queue, *rest)).fetchall()] for queue in queues
    ]
    if lost := [*gone.holders, *(one for one in gone.engines if one != mark)]:
        (theirs, holders), (named, names) = _among("sent_to", lost), _among("queue", queues)
        left = _READY.format(queue=named, sent=theirs, gone=dead) + db.dialect.skip_locked
        found.append([_Row(*row) for row in db.execute(left, (*names, *holders, *rest)).fetchall()])
    return list(heapq.merge(*found, key=lambda row: row.order))[:most]


def _claimed(db: Cursor, row: _Row, me: str) -> Ticket | None:
    """Claim a run. None: it is parked instead."""
    fruitless = (
        0 if row.seen_head is None or _got_further(db, row.num, row.seen_head) else row.fruitless
    )
    if fruitless >= FRUITLESS_MOST:
        db.execute(_PARK, (why_parked(fruitless), db.dialect.now_us(db), row.num))
        return None
    db.execute(_CLAIM, (me, row.deliveries + 1, fruitless + 1, row.head, row.num))
    return _ticket(
        row.run_id,
        row.queue,
        row.priority,
        row.tenant,
        row.deliveries + 1,
        fruitless + 1,
        row.ready_at_us,
    )


def _got_further(db: Cursor, num: int, head: int) -> bool:
    marks = ", ".join("?" * len(BEGINNINGS))
    statement = (
        f"select 1 from entries where place > ? and place < ? and type not in ({marks}) limit 1"
    )
    return (
        db.execute(
            statement, (place_of(num, head), place_of(num + 1, 0), *sorted(BEGINNINGS))
        ).fetchone()
        is not None
    )


def _ticket(
    run_id: str,
    queue: str,
    priority: int,
    tenant: str | None,
    delivery: int,
    fruitless: int,
    ready_at_us: int,
) -> Ticket:
    at = time_of(ready_at_us)
    return Ticket(
        run_id=run_id,
        queue=queue,
        priority=priority,
        tenant=tenant,
        delivery=delivery,
        fruitless=fruitless,
        queued_at=at,
    )


def _backlog(queue: str, counts: Mapping[str, int], oldest_ready_at: Time | None) -> Backlog:
    found = {
        state: counts.get(state, 0)
        for state in ("ready", "later", "sent", "running", "waiting", "parked")
    }
    return Backlog(queue=queue, **found, oldest_ready_at=oldest_ready_at)


if TYPE_CHECKING:
    _: type[RunQueue] = TableQueue
