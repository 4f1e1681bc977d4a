"""Workers of a journal in its tables: their names, descriptions and liveness. Entry point:
`Roster`.
"""

from __future__ import annotations

from typing import Any, Final

from treadle._internal.json_text import decode_json, encode_json
from treadle.errors import AgentError
from treadle.journal.queue import WorkerCard, WorkerInfo
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Members
from treadle.journal.tables.rows import key_of, time_of

REMEMBERED_US: Final = 24 * 3600 * 1_000_000
"""Time for which lists show a dead worker, in microseconds."""
SEEN_EVERY_US: Final = 60 * 1_000_000
"""Interval of updates without leases, in microseconds. It shows approximately when a worker
died.
"""
_SET: Final = (
    "name = ?, host = ?, pid = ?, version = ?, engine = ?, queues = ?, slots = ?, draining = 0, "
    "card = 1"
)
_COLUMNS: Final = (
    "id, name, host, pid, version, engine, queues, slots, since_us, seen_at_us, draining"
)


class Roster:
    """Workers, as observed inside the caller's transaction."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def enter(self, db: Cursor, me: str, card: WorkerCard) -> None:
        """Register a worker. Raises AgentError: busy if another living worker has the name, invalid
        for an invalid name.
        """
        if not key_of(card.name):
            raise AgentError(
                "invalid",
                (
                    f"{card.name!r} is not a valid worker name: use text without NUL and halves of "
                    "characters"
                ),
            )
        db.dialect.hold(db, f"worker:{card.name}")
        at, living = db.dialect.now_us(db), {*self._members.living(db)}
        for other, host, pid in db.execute(
            "select id, host, pid from workers where name = ? and id <> ? and card = 1",
            (card.name, me),
        ).fetchall():
            if other in living:
                held = f"process {pid} on {host}"
                raise AgentError(
                    "busy",
                    (
                        f"a worker {card.name!r} is already running: {held}. End that one "
                        "first, or give this one another name"
                    ),
                )
        for (other,) in db.execute(
            "select id from workers where seen_at_us < ?", (at - REMEMBERED_US,)
        ).fetchall():
            if other not in living:
                db.execute("delete from workers where id = ?", (other,))
        said = (
            card.name,
            card.host,
            card.pid,
            card.version,
            card.engine,
            encode_json(card.queues).decode(),
            card.slots,
        )
        db.execute(f"update workers set {_SET} where id = ?", (*said, me))
        if not db.changed:
            db.execute(
                f"insert into workers({_COLUMNS}, card) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1)",
                (me, *said, at, at),
            )

    def say_so(self, db: Cursor, me: str) -> None:
        """Record that the worker is alive, if no lease does."""
        if not self._members.needs_lease:
            at = db.dialect.now_us(db)
            db.execute(
                "update workers set seen_at_us = ? where id = ? and seen_at_us < ?",
                (at, me, at - SEEN_EVERY_US),
            )

    def infos(self, db: Cursor) -> list[WorkerInfo]:
        at, living = db.dialect.now_us(db), {*self._members.living(db)}
        running = dict(
            db.execute(
                "select owner, count(*) from runs where finished is null and owner is not null "
                "group by owner"
            ).fetchall()
        )
        rows = db.execute(f"select {_COLUMNS} from workers where card = 1").fetchall()
        found = [
            self._info(row, alive=row[0] in living, at_us=at, running=running.get(row[0], 0))
            for row in rows
            if row[0] in living or row[9] > at - REMEMBERED_US
        ]
        return sorted(found, key=lambda one: (not one.alive, one.card.name, one.since))

    def _info(self, row: tuple[Any, ...], *, alive: bool, at_us: int, running: int) -> WorkerInfo:
        worker, name, host, pid, version, engine, queues, slots, since_us, seen_at_us, draining = (
            row
        )
        card = WorkerCard(
            name=name,
            host=host,
            pid=pid,
            version=version,
            engine=engine,
            queues=decode_json(queues.encode(), tuple[str, ...]),
            slots=slots,
        )
        seen_at = time_of(at_us if alive and not self._members.needs_lease else seen_at_us)
        return WorkerInfo(
            worker=worker,
            card=card,
            since=time_of(since_us),
            seen_at=seen_at,
            alive=alive,
            draining=bool(draining),
            running=running if alive else 0,
        )
