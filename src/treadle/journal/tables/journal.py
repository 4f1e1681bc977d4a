"""Parts that all journals in tables share: reading, importing and pruning.

sqlite/ and postgres/ drive runs and access the tables. Entry point: `TableJournal`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import partial

from typing_extensions import Unpack

from treadle._internal.json_text import decode_json, encode_json, members
from treadle.budget.costs import By, Costs
from treadle.errors import AgentError
from treadle.journal.entries import Fork, Record, RunFinished, RunStarted
from treadle.journal.importing import standing_of
from treadle.journal.journal import read_run
from treadle.journal.load import forked, load
from treadle.journal.run_info import Freed, Holder, RunFilter, RunInfo, checked_filter, info_of
from treadle.journal.run_state import RunState
from treadle.journal.sessions import SessionView
from treadle.journal.tables import pruning
from treadle.journal.tables.beginning import NewRun, make_run
from treadle.journal.tables.conversations import holder, ran
from treadle.journal.tables.database import Cursor, ReadTransactions, Writing
from treadle.journal.tables.listing import costs, listed, selected, stored_summary
from treadle.journal.tables.liveness import Alive
from treadle.journal.tables.rows import (
    bodies,
    check_id,
    find,
    insert,
    key_of,
    records,
    row_of,
    showable,
)
from treadle.journal.tables.sessions import TableSessions
from treadle.journal.tables.upcasting import upcast
from treadle.journal.threads import run_in_thread
from treadle.types import Time

PRUNED_AT_ONCE = 20
"""Number of runs deleted in one transaction, so that appends are not delayed."""

_LEFT_BEHIND = (
    "select id, owner from runs where finished is null and queue is null and waiting = 0 and "
    "parent is null order by num desc limit ?"
)

_ORPHANS = (
    "select part.id, part.owner from runs as part join runs as parent on parent.id = part.parent "
    "where part.finished is null and parent.finished is not null order by part.num desc limit ?"
)


class TableJournal:
    """Part of a journal that needs only its tables."""

    def __init__(self, writing: Writing, reading: ReadTransactions, alive: Alive) -> None:
        self._writing = writing
        self._reading = reading
        self._alive = alive
        self.sessions = TableSessions(writing, reading, alive)

    # ------------------------------------------------------------ reading

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        return await self._reading.read(lambda db: records(db, run_id, after=after))

    async def load(self, run_id: str) -> RunState:
        return await self._reading.read(
            lambda db: load(run_id, partial(records, db), self.sessions)
        )

    async def children(self, run_id: str) -> list[RunInfo]:
        return await self._reading.read(
            lambda db: listed(db, self._alive, "where parent = ? order by num", (key_of(run_id),))
        )

    async def load_fork(self, fork: Fork) -> RunState:
        return await self._reading.read(
            lambda db: forked(fork, partial(records, db), self.sessions)
        )

    async def view(self, session_id: str) -> SessionView:
        return await run_in_thread(partial(self.sessions.view, session_id))

    async def read_bytes(self, run_id: str) -> list[bytes]:
        return await self._reading.read(
            lambda db: [data for _, data in bodies(db, find(db, run_id).num)]
        )

    async def info(self, run_id: str) -> RunInfo:
        def read(db: Cursor) -> RunInfo:
            return listed(db, self._alive, "where num = ?", (find(db, run_id).num,))[0]

        return await self._reading.read(read)

    async def runs(self, *, limit: int | None = None, **only: Unpack[RunFilter]) -> list[RunInfo]:
        wanted = checked_filter(only)
        most = sys.maxsize if limit is None else min(max(limit, 0), sys.maxsize)
        return await self._reading.read(lambda db: selected(db, self._alive, wanted, limit=most))

    async def under_way(self, *, limit: int) -> list[RunInfo]:
        def read(db: Cursor) -> list[RunInfo]:
            held = listed(
                db,
                self._alive,
                "where finished is null and owner is not null order by updated_at_us limit ?",
                (2 * limit,),
            )
            return [info for info in held if info.status == "running"][:limit]

        return await self._reading.read(read)

    async def left_behind(self, *, limit: int) -> list[str]:
        return await self._reading.read(lambda db: self._not_driven(db, _LEFT_BEHIND, limit))

    async def orphans(self, *, limit: int) -> list[str]:
        return await self._reading.read(lambda db: self._not_driven(db, _ORPHANS, limit))

    def _not_driven(self, db: Cursor, query: str, limit: int) -> list[str]:
        alive: dict[str | None, bool] = {None: False}
        found = db.execute(query, (limit,)).fetchall()
        for _, owner in found:
            if owner not in alive:
                alive[owner] = self._alive(db, owner) is not None
        return [run_id for run_id, owner in found if not alive[owner]]

    async def holder(self, session_id: str) -> Holder | None:
        return await self._reading.read(lambda db: holder(db, session_id, self._alive))

    async def costs(self, by: By, *, since: date | None = None) -> Costs:
        return await self._reading.read(lambda db: costs(db, by, since))

    # ------------------------------------------------------------ importing, pruning

    async def add_run(self, entries: Sequence[bytes]) -> RunInfo:
        read = read_run(_upcast(entries))
        started = read[0]
        assert isinstance(started, RunStarted), "read_run sees to it"
        run_id = started.run_id
        check_id(run_id)
        info, standing = info_of(read, "finished"), standing_of(read)
        end = next(
            (seq for seq, entry in enumerate(read, 1) if isinstance(entry, RunFinished)), None
        )
        rows = [row_of(entry, data) for entry, data in zip(read, entries, strict=True)]

        def work(db: Cursor) -> None:
            if db.execute("select 1 from runs where id = ?", (run_id,)).fetchone() is not None:
                raise AgentError(
                    "invalid", f"run {run_id} is already in this journal: nothing was added"
                )
            if (
                started.fork is not None
                and db.execute("select 1 from runs where id = ?", (started.fork.run_id,)).fetchone()
                is None
            ):
                raise AgentError(
                    "invalid",
                    (
                        f"run {run_id} was forked from {started.fork.run_id}, which is not in this journal: "
                        "import it first"
                    ),
                )
            num = make_run(db, NewRun(started, head=len(rows), standing=standing), None)
            try:
                insert(db, num, 1, rows)
            except db.dialect.refused as e:
                raise AgentError(
                    "invalid",
                    f"run {run_id} has two results, or two starts, of one call: nothing was added",
                ) from e
            if end is not None:
                db.execute(
                    "update runs set finished = ?, summary = ?, counted = 1, agent = ? where num = ?",
                    (end, stored_summary(db, run_id, encode_json(info)), showable(info.agent), num),
                )
                ran(db, num, read[-1].at, said=None)

        await self._writing.write(work)
        return await self.info(run_id)

    async def prune(self, before: Time, *, apply: bool) -> Freed:
        """Prune old runs, while appends continue. Freed space is returned to the disk."""

        def would(db: Cursor) -> tuple[pruning.PruningPlan, int]:
            planned = pruning.plan(db, before)
            return planned, 0 if apply else pruning.size_bytes(db, list(planned.going.values()))

        planned, size = await self._reading.read(would)
        runs = tuple(planned.going)
        if apply:
            gone = await self._prune(before, planned.going)
            await self._shrink()
            runs, size = tuple(run_id for run_id in runs if run_id in gone), sum(gone.values())
        return Freed(runs=runs, kept=tuple(planned.kept), size_bytes=size)

    async def _prune(self, before: Time, going: Mapping[str, int]) -> dict[str, int]:
        """Prune the runs, newest first, because newer runs may depend on older ones. Returns the
        size of each.
        """
        gone: dict[str, int] = {}
        while left := [run for run in reversed(list(going.items())) if run[0] not in gone]:
            before_these = len(gone)
            for at in range(0, len(left), PRUNED_AT_ONCE):
                some = dict(left[at : at + PRUNED_AT_ONCE])
                gone |= await self._writing.write(
                    partial(pruning.prune_some, before=before, some=some, going=going)
                )
            if len(gone) == before_these:
                break
        return gone

    async def remove(self, run_ids: Collection[str]) -> Freed:
        gone, kept = await self._writing.write(partial(pruning.remove_some, run_ids=run_ids))
        await self._scrub()
        return Freed(runs=tuple(gone), kept=tuple(kept), size_bytes=sum(gone.values()))

    async def _scrub(self) -> None:
        """Remove deleted data from the database's own log, where possible."""

    async def _shrink(self) -> None:
        """Return freed space to the disk, if the database does not do so itself."""


def _upcast(entries: Sequence[bytes]) -> Sequence[bytes]:
    """Return the entries in this version's schema; an invalid one stays for its reader to report."""
    try:
        schema = (
            decode_json(members(entries[0].decode()).get("schema", "1").encode(), int)
            if entries
            else 1
        )
    except ValueError:
        return entries
    if schema < 1:
        return entries
    return [upcast(data, schema) for data in entries]
