"""A run's place in a queue, as columns of its row, and their values when it begins there, is
requeued, taken over or released. Entry points: `place_columns`, `start_us`, `put_back`, `LET_GO`,
`TAKEN`.

queue.py claims and lists waiting runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.errors import AgentError
from treadle.journal.entries import Entry
from treadle.journal.queue import QueuePlace
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.driving import Hold
from treadle.journal.tables.rows import key_of, micros
from treadle.types import Time

LET_GO: Final = (
    "sent_to = null, fruitless = case when fruitless > 0 and ? = 0 then fruitless - 1 else "
    "fruitless end"
)
"""SQL for a run that its driver releases. Parameter: True if it waits for a user."""
TAKEN: Final = "sent_to = case when sent_to = ? or sent_to like 'engine:%' then sent_to end"
"""SQL for a run that the worker with this id takes over, so that the earlier claimant no longer
delivers it.
"""
_PUT_BACK_BY_DRIVER: Final = """
update runs set head = head + ?, updated_at_us = ?, owner = null, queue = ?, priority = ?, tenant = ?, ready_at_us = ?,
    fruitless = case when parked is null then fruitless else 0 end, waiting = 0, sent_to = null, parked = null
where num = ? and fence = ? and head = ? and owner = ?"""


def put_back(db: Cursor, hold: Hold, entries: Sequence[Entry], place: QueuePlace) -> None:
    """Advance the head, release the run and queue it in `place`. If the run is no longer held,
    `db.changed` is 0. Raises AgentError(invalid).
    """
    values = (
        len(entries),
        micros(entries[-1].at),
        *place_columns(place),
        start_us(db, None, place),
        hold.num,
        hold.fence,
        hold.head,
        hold.owner,
    )
    db.execute(_PUT_BACK_BY_DRIVER, values)


def place_columns(place: QueuePlace) -> tuple[str, int, str | None]:
    """Return queue, priority and tenant. Raises AgentError(invalid) for values that the tables
    cannot store.
    """
    for name in (place.queue, place.tenant):
        if name is not None and not key_of(name):
            raise AgentError(
                "invalid",
                (
                    f"{name!r} is not a valid queue or tenant name: use text without NUL and halves of "
                    "characters"
                ),
            )
    return place.queue, place.priority, place.tenant


def start_us(db: Cursor, at: Time | None, place: QueuePlace | None) -> int:
    """Return the earliest start in microseconds since 1970: `at`, else the place's own, else now."""
    at = at or (None if place is None else place.ready_at)
    return db.dialect.now_us(db) if at is None else micros(at)
