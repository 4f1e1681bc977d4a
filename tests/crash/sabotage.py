"""Takes a guard away, in the process of a test only, to see that the checker notices. Entry:
`sabotage`.

Nothing in the product knows of it: it replaces functions and statements of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import apsw

from tests.crash.sabotage_postgres import OF_POSTGRES
from treadle.journal.entries import Entry, ToolFinished, ToolStarted
from treadle.journal.sqlite import driving, encrypting, schema
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.tables.driving import Hold
from treadle.loop import recorder as pen

Guard = Literal[
    "start", "fence", "index", "barrier", "only fence", "only head", "only owner", "lease"
]
"""Those of PostgreSQL alone stand last. `fence` takes all away that says who appends:

`only …`, one of the three.
"""
_ADVANCE = "update runs set head = head + ?1, updated_at_us = ?2 where num = ?3 and ?4 + ?5 is not null and ?6 is not null"
"""Whatever fence, head and owner are."""


def sabotage(guards: Sequence[Guard], *, postgres: bool = False) -> None:
    for guard in guards:
        if postgres and guard in OF_POSTGRES:
            OF_POSTGRES[guard]()
        else:
            _SABOTAGE[guard]()


def _without_starts() -> None:
    """Calls run, and no tool.started says so."""
    append = pen.Pen.append

    async def without(self: pen.Pen, *entries: Entry, hold: bool = False) -> None:
        await append(
            self, *[entry for entry in entries if not isinstance(entry, ToolStarted)], hold=hold
        )

    pen.Pen.append = without


def _without_fence() -> None:
    """Whoever believes that it drives a run appends to it, wherever it ends by now."""

    def finish(db: Any, hold: Hold, entries: Sequence[Entry], end: int, seen: object) -> None:
        end_of_run = _head(db, hold.num) + len(entries)
        db.execute(
            "update runs set head = ?, finished = ? where num = ?",
            (end_of_run, end_of_run, hold.num),
        )

    def add_late(db: Any, hold: Hold, entries: Sequence[Entry]) -> None:
        db.execute("update runs set head = head + ? where num = ?", (len(entries), hold.num))

    insert = driving.insert

    def insert_at_head(db: Any, run: int, first: int, rows: Sequence[Any]) -> None:
        insert(db, run, _head(db, run) - len(rows) + 1, rows)

    driving._ADVANCE = _ADVANCE  # pyright: ignore[reportPrivateUsage]  what is taken away here is inside
    driving.finish = finish
    driving.add_late = add_late
    driving.insert = insert_at_head


def _head(db: Any, run: int) -> int:
    return db.execute("select head from runs where num = ?", (run,)).fetchone()[0]


def _without_index() -> None:
    """The database takes a second result for a call."""
    make_ready = schema.make_ready

    def without(connection: apsw.Connection, path: Path, *, busy_timeout_s: float) -> None:
        make_ready(connection, path, busy_timeout_s=busy_timeout_s)
        cursor_of(connection).execute("drop index if exists one_result").fetchall()

    encrypting.make_ready = without


def _without_barrier() -> None:
    """Results are used before they are in the journal: they wait for what is appended after the
    next response.
    """
    kept: list[Entry] = []

    async def without(self: pen.Pen, *entries: Entry, hold: bool = False) -> None:
        held = self.held
        self.keep(*entries)
        if hold:
            return
        kept.extend(entry for entry in held if isinstance(entry, ToolFinished))
        now = [entry for entry in held if not isinstance(entry, ToolFinished)]
        if any(entry.__struct_config__.tag in ("model.responded", "run.finished") for entry in now):
            now, kept[:] = [*kept, *now], []
        held.clear()
        if now:
            first = await self.writer.append(now)
            self._feed.appended(now, first)  # pyright: ignore[reportPrivateUsage]  what is taken away here is inside

    pen.Pen.append = without


_SABOTAGE: Mapping[Guard, Callable[[], None]] = {
    "start": _without_starts,
    "fence": _without_fence,
    "index": _without_index,
    "barrier": _without_barrier,
}
