"""Claiming of queued runs: selecting ready runs, detecting dead claimants, and the rows
written when a run is claimed or parked.

Entry points: `ready_rows`, `claimed`, `ticket_of`, `dead_workers`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from treadle.journal.entries import SCHEMA
from treadle.journal.queue import BEGINNINGS, FRUITLESS_MOST, Ticket, engine_mark, why_parked
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.listing import stored_parking
from treadle.journal.tables.liveness import Members
from treadle.journal.tables.rows import place_of, time_of

_READY: Final = """
select num, id, queue, priority, tenant, ready_at_us, head, seen_head, deliveries, fruitless from runs
where finished is null and {queue} and waiting = 0 and parked is null and {sent} and (owner is null or {gone}) and ready_at_us <= ? and schema <= ?
order by priority desc, num limit ?"""
_CLAIM: Final = (
    "update runs set sent_to = ?, deliveries = ?, fruitless = ?, seen_head = ? where num = ?"
)
_NAMED: Final = """
with recursive found(id) as (
    select min({it}) from runs where finished is null and queue is not null and {it} is not null
    union all
    select (select min({it}) from runs where finished is null and queue is not null and {it} > found.id) from found where found.id is not null
) select id from found where id is not null"""
"""Statement for distinct values that does not read every row."""
PARK: Final = (
    "update runs set parked = ?, sent_to = null, ready_at_us = ? where num = ? and finished is "
    "null and queue is not null"
)


class _ReadyRow(NamedTuple):
    """A run that can be claimed."""

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


class DeadWorkers(NamedTuple):
    """Ids of dead workers that own runs."""

    owners: Sequence[str]
    holders: Sequence[str]
    """Workers and engines to which runs were sent."""
    engines: Sequence[str]
    """Marks of engines that have runs. They never count as dead."""


def among(column: str, values: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return SQL, with its parameters, that tests whether a non-null column contains one of
    these.
    """
    return (f"{column} in ({', '.join('?' * len(values))})", values) if values else ("0 = 1", ())


def dead_workers(db: Cursor, members: Members, *, but: str | None = None) -> DeadWorkers:
    """Return the dead workers. The named ones are read first, so that a worker that registers in
    between does not count as dead.
    """
    owners, holders = (
        [one for (one,) in db.execute(_NAMED.format(it=it)).fetchall()]
        for it in ("owner", "sent_to")
    )
    living = {*members.living(db), but} if owners or holders else set[str | None]()
    engines = [one for one in holders if one.startswith(engine_mark(""))]
    return DeadWorkers(
        [one for one in owners if one not in living],
        [one for one in holders if one not in living and one not in engines],
        engines,
    )


def ready_rows(
    db: Cursor,
    queues: Sequence[str],
    gone: DeadWorkers,
    mark: str,
    most: int,
    *,
    locking: bool = True,
) -> list[_ReadyRow]:
    """Return the first claimable runs over all queues, in order. `locking`: for a claim, which
    changes them.
    """
    lock = db.dialect.skip_locked if locking else ""
    dead, owners = among("owner", gone.owners)
    rest = (*owners, db.dialect.now_us(db), SCHEMA, most)
    free = _READY.format(queue="queue = ?", sent="sent_to is null", gone=dead) + lock
    found = [
        [_ReadyRow(*row) for row in db.execute(free, (queue, *rest)).fetchall()] for queue in queues
    ]
    if lost := [*gone.holders, *(one for one in gone.engines if one != mark)]:
        (theirs, holders), (named, names) = among("sent_to", lost), among("queue", queues)
        left = _READY.format(queue=named, sent=theirs, gone=dead) + lock
        found.append(
            [_ReadyRow(*row) for row in db.execute(left, (*names, *holders, *rest)).fetchall()]
        )
    return list(heapq.merge(*found, key=lambda row: row.order))[:most]


def claimed(db: Cursor, row: _ReadyRow, me: str) -> Ticket | None:
    """Claim a run. Returns None if it is parked instead."""
    fruitless = (
        0 if row.seen_head is None or _got_further(db, row.num, row.seen_head) else row.fruitless
    )
    if fruitless >= FRUITLESS_MOST:
        why = stored_parking(db, row.run_id, why_parked(fruitless))
        db.execute(PARK, (why, db.dialect.now_us(db), row.num))
        return None
    db.execute(_CLAIM, (me, row.deliveries + 1, fruitless + 1, row.head, row.num))
    return ticket_of(
        (
            row.run_id,
            row.queue,
            row.priority,
            row.tenant,
            row.deliveries + 1,
            fruitless + 1,
            row.ready_at_us,
        )
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


def ticket_of(columns: Sequence[Any]) -> Ticket:
    """Build a ticket. `columns`: id, queue, priority, tenant, delivery, fruitless, ready_at_us."""
    run_id, queue, priority, tenant, delivery, fruitless, ready_at_us = columns
    return Ticket(
        run_id=run_id,
        queue=queue,
        priority=priority,
        tenant=tenant,
        delivery=delivery,
        fruitless=fruitless,
        queued_at=time_of(ready_at_us),
    )
