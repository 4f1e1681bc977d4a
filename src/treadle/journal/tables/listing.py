"""Lists of runs: stored with finished runs, folded from their entries for the others.

Entry points: `listed`, `selected`, `costs`, `summary_of`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from operator import itemgetter
from typing import Any

import msgspec

from treadle._internal.json_text import decode_json, encode_json
from treadle.budget.costs import By, Costs, RunCost, Tally
from treadle.errors import AgentError
from treadle.journal.entries import AgentSwitched, RunFinished, RunResumed, RunStarted
from treadle.journal.projection import total_of
from treadle.journal.run_info import (
    UNCOUNTED,
    RunFilter,
    RunInfo,
    RunStatus,
    info_of,
    meets,
    spent,
)
from treadle.journal.session_names import title_of
from treadle.journal.tables.conversations import number_of
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Alive, Process
from treadle.journal.tables.rows import bodies, entries_of, key_of, showable, time_of
from treadle.journal.totals import with_totals
from treadle.types import Outcome, Usage

ASKED_AT_ONCE = 500
"""Maximum number of parameters of one query."""

_TAGGED = "tags is not null and replace(tags, ?, '') <> tags"
"""Condition on a tag, between line breaks, that both databases know and that an index answers."""
_DECODER = msgspec.json.Decoder(RunCost)
_COLUMNS = (
    "select num, schema, owner, waiting, finished, head, updated_at_us, summary, counted, id, "
    "queue, tenant, parked from runs "
)


def summary_of(
    started: RunStarted,
    driver: RunStarted | RunResumed,
    charged: RunStarted | RunResumed | AgentSwitched,
    *,
    finished: RunFinished | None = None,
) -> bytes:
    """Return the listed fields of a run, as stored in its row; complete if it is finished. Other
    columns have the rest.

    `driver`, `charged`: entries that name the last driver, and the agent in charge.
    """
    info = RunInfo(
        run_id=started.run_id,
        session_id=started.session_id,
        parent_run_id=started.parent_run_id,
        forked_from=started.fork.run_id if started.fork else None,
        agent=charged.agent,
        model=charged.model,
        mode=driver.mode,
        cwd=driver.cwd,
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
        tags=started.tags,
        metadata=started.metadata,
        entries=1,
        imported=started.imported,
    )
    return encode_json(info)


def stored_summary(db: Cursor, run_id: str, summary: bytes) -> bytes:
    """Return a summary as the row of its run stores it."""
    return summary if db.seal is None else db.seal.sealed(summary_place(run_id), summary)


def opened_summary(db: Cursor, run_id: str, stored: bytes) -> bytes:
    """Return a stored summary, as the inverse of `stored_summary`."""
    return stored if db.seal is None else db.seal.opened(summary_place(run_id), stored)


def summary_place(run_id: str) -> str:
    return f"summary of run {run_id}"


def parked_place(run_id: str) -> str:
    return f"parking of run {run_id}"


def stored_parking(db: Cursor, run_id: str, why: str) -> str:
    """Return the reason why a run is parked, as its row stores it."""
    text = showable(why)
    return text if db.seal is None else db.seal.sealed_text(parked_place(run_id), text)


def listed(
    db: Cursor, is_alive: Alive, where: str = "", values: tuple[object, ...] = ()
) -> list[RunInfo]:
    """Return the runs selected by `where` (the rest of the query), in its order."""
    rows = db.execute(_COLUMNS + where, values).fetchall()
    return _with_totals(db, is_alive, [info for _, info in _infos(db, is_alive, rows)])


def selected(db: Cursor, is_alive: Alive, only: RunFilter, *, limit: int) -> list[RunInfo]:
    """Return the newest runs that meet the conditions, which are set."""
    places = dict[str, object]()
    if (session_id := only.get("session_id")) is not None:
        places["session = ?"] = number_of(db, session_id)
    if (forked_from := only.get("forked_from")) is not None:
        places["fork_of = ?"] = key_of(forked_from)
    if only.keys() <= {"session_id", "forked_from"}:
        where = f"where {' and '.join(places)} " if places else ""
        return listed(db, is_alive, f"{where}order by num desc limit ?", (*places.values(), limit))
    found = [
        one
        for labels in _labels(only)
        for one in _newest(db, is_alive, places | labels, only, limit)
    ]
    found.sort(key=itemgetter(0), reverse=True)
    return _with_totals(db, is_alive, [info for _, info in found[:limit]])


def _labels(only: RunFilter) -> Iterator[dict[str, object]]:
    """Yield conditions on the columns of runs, with their values, which no two runs share.

    They only narrow the selection down. An unfinished run can have another agent than its row says;
    rows that older versions made have no labels, but their summaries do.
    """
    labels = dict[str, object]()
    if (user_id := only.get("user_id")) is not None:
        labels["user_id = ?"] = showable(user_id)
    if (tag := only.get("tag")) is not None:
        labels[_TAGGED] = tags_column((tag,))
    agents = {} if "agent" not in only else {"agent = ?": showable(only["agent"] or "")}
    status = only.get("status")
    if status not in ("finished", *Outcome):
        began = {f"(head > 1 or {name})": value for name, value in agents.items()}
        yield {"finished is null": None, "agent is not null": None, **labels, **began}
        if tag is None:
            yield {"finished is null": None, "agent is null": None}
    if status is None or status in ("finished", *Outcome):
        yield {"finished is not null": None, "agent is not null": None, **labels, **agents}
        if tag is None:
            yield {"finished is not null": None, "agent is null": None}


def _newest(
    db: Cursor, is_alive: Alive, where: Mapping[str, object], only: RunFilter, limit: int
) -> Iterator[tuple[int, RunInfo]]:
    """Yield the newest runs among those that meet `where`, with their numbers."""
    values = tuple([value for condition, value in where.items() if "?" in condition])
    query = f"{_COLUMNS}where {' and '.join(where)} order by num desc"
    infos = _infos(db, is_alive, db.stream(query, values))
    return islice((one for one in infos if meets(one[1], only)), limit)


def tags_column(tags: Sequence[str]) -> str | None:
    """Return the tags of a run as its row stores them: each between two line breaks."""
    return f"\n{showable(chr(10).join(tags))}\n" if tags else None


def _with_totals(db: Cursor, is_alive: Alive, infos: list[RunInfo]) -> list[RunInfo]:
    def children_of(run_ids: Collection[str]) -> Iterator[RunInfo]:
        keys = [key_of(run_id) for run_id in run_ids]
        for at in range(0, len(keys), ASKED_AT_ONCE):
            some = keys[at : at + ASKED_AT_ONCE]
            where = f"where parent in ({', '.join('?' * len(some))})"
            rows = db.execute(_COLUMNS + where, some).fetchall()
            yield from map(itemgetter(1), _infos(db, is_alive, rows))

    return with_totals(infos, children_of)


def _infos(
    db: Cursor, is_alive: Alive, rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[int, RunInfo]]:
    drivers: dict[str | None, Process | None] = {None: None}
    for num, schema, owner, waiting, finished, head, updated_us, stored, counted, *rest in rows:
        if owner not in drivers:
            drivers[owner] = is_alive(db, owner)
        driver = drivers[owner]
        run_id, queue, tenant, parked = rest
        if db.seal is not None and parked is not None:
            parked = db.seal.opened_text(parked_place(run_id), parked)
        summary = opened_summary(db, run_id, stored)
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
        yield (
            num,
            msgspec.structs.replace(
                info, status=status, entries=head, updated_at=time_of(updated_us), **more
            ),
        )


def costs(db: Cursor, by: By, since: date | None) -> Costs:
    """Sum up the stored costs. Only unfinished runs are read."""
    tally = Tally(by, since=since)
    for num, run_id, schema, summary, counted in db.stream(
        "select num, id, schema, summary, counted from runs order by num"
    ):
        if counted:
            tally.add(_DECODER.decode(opened_summary(db, run_id, summary)))
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
