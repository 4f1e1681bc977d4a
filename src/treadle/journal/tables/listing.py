"""Lists of runs: stored with finished runs, folded from their entries for the others.

Entry points: `listed`, `costs`, `summary_of`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle.budget.costs import By, Costs, RunCost, Tally
from treadle.errors import AgentError
from treadle.journal.entries import RunFinished, RunResumed, RunStarted
from treadle.journal.projection import total_of
from treadle.journal.run_info import UNCOUNTED, RunInfo, RunStatus, info_of, spent
from treadle.journal.session_names import title_of
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Alive, Process
from treadle.journal.tables.rows import bodies, entries_of, key_of, time_of
from treadle.journal.totals import with_totals
from treadle.types import Usage

ASKED_AT_ONCE = 500
"""Maximum number of parameters of one query."""

_DECODER = msgspec.json.Decoder(RunCost)
_COLUMNS = (
    "select num, schema, owner, waiting, finished, head, updated_at_us, summary, counted, queue, "
    "tenant, parked from runs "
)


def summary_of(
    started: RunStarted, resumed: RunResumed | None = None, finished: RunFinished | None = None
) -> bytes:
    """Return the listed fields of a run, as stored in its row; complete if it is finished. Other
    columns have the rest.
    """
    last = resumed or started
    info = RunInfo(
        run_id=started.run_id,
        session_id=started.session_id,
        parent_run_id=started.parent_run_id,
        forked_from=started.fork.run_id if started.fork else None,
        agent=started.agent,
        model=last.model,
        mode=last.mode,
        cwd=last.cwd,
        status="finished",
        outcome=finished.outcome if finished else None,
        started_at=started.at,
        updated_at=started.at,
        prompt=title_of(started.input.text),
        turns=finished.turns if finished else 0,
        tool_calls=finished.tool_calls if finished else 0,
        usage=finished.usage if finished else Usage(),
        cost_usd=finished.cost_usd if finished else None,
        spending=finished.spending if finished else (),
        total=UNCOUNTED if finished is None else total_of(finished),
        user_id=started.user_id,
        entries=1,
        imported=started.imported,
    )
    return encode_json(info)


def listed(
    db: Cursor, is_alive: Alive, where: str = "", values: tuple[object, ...] = ()
) -> list[RunInfo]:
    """Return the runs selected by `where` (the rest of the query), in its order."""

    def children_of(run_ids: Collection[str]) -> Iterator[RunInfo]:
        keys = [key_of(run_id) for run_id in run_ids]
        for at in range(0, len(keys), ASKED_AT_ONCE):
            some = keys[at : at + ASKED_AT_ONCE]
            yield from _rows(
                db, is_alive, f"where parent in ({', '.join('?' * len(some))})", (*some,)
            )

    return with_totals([*_rows(db, is_alive, where, values)], children_of)


def _rows(db: Cursor, is_alive: Alive, where: str, values: tuple[object, ...]) -> Iterator[RunInfo]:
    drivers: dict[str | None, Process | None] = {None: None}
    for (
        num,
        schema,
        owner,
        waiting,
        finished,
        head,
        updated_us,
        summary,
        counted,
        *place,
    ) in db.execute(_COLUMNS + where, values).fetchall():
        if owner not in drivers:
            drivers[owner] = is_alive(db, owner)
        driver = drivers[owner]
        queue, tenant, parked = place
        left: RunStatus = "stopped" if queue is None or parked is not None else "queued"
        status: RunStatus = (
            "finished"
            if finished
            else "running"
            if driver is not None
            else "waiting"
            if waiting
            else left
        )
        info = (
            decode_json(summary, RunInfo)
            if counted
            else _folded(db, num, schema) or decode_json(summary, RunInfo)
        )
        lease_s = None if driver is None or finished else driver.lease_s
        more = {"queue": queue, "tenant": tenant, "parked": parked, "lease_s": lease_s}
        yield msgspec.structs.replace(
            info, status=status, entries=head, updated_at=time_of(updated_us), **more
        )


def costs(db: Cursor, by: By, since: date | None) -> Costs:
    """Sum up the stored costs. Only unfinished runs are read."""
    tally = Tally(by, since=since)
    for num, schema, summary, counted in db.stream(
        "select num, schema, summary, counted from runs order by num"
    ):
        if counted:
            tally.add(_DECODER.decode(summary))
        elif (info := _folded(db, num, schema)) is not None:
            tally.add(spent(info))
    return tally.costs()


def _folded(db: Cursor, run: int, schema: int) -> RunInfo | None:
    """Fold a run. None if it contains unreadable content of a newer version, so that the list
    continues without its figures.
    """
    try:
        return info_of(entries_of(bodies(db, run), schema), "finished")
    except (AgentError, ValueError):
        return None
