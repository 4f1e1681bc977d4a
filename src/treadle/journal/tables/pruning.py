"""Selection of runs to delete, by age or by name, and the space that it frees. removal.py deletes
them.

Entry points: `plan`, `prune_some`, `remove_some`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import NamedTuple, cast

from treadle._internal.json_text import decode_json
from treadle.journal.removable import AHEAD_MOST, aged, removable, unfinished
from treadle.journal.run_info import RunInfo
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.holding import hold_runs, hold_session
from treadle.journal.tables.listing import opened_summary
from treadle.journal.tables.removal import remove_run, remove_session, sweep
from treadle.journal.tables.rows import key_of, micros, place_of, time_of
from treadle.types import Time

_BEFORE = """
join session_entries as place on place.run = later.num
join session_entries as other on other.session = place.session and other.pos < place.pos
join runs as earlier on earlier.num = other.run
where {which} not exists (
    select 1 from session_entries as cut
    where cut.session = place.session and cut.kind = 'cleared' and cut.pos > other.pos and cut.pos < place.pos
)"""
_GOES_ON = "select earlier.id, later.id from runs as later" + _BEFORE.format(
    which="later.finished is null and {which} and"
)
_FORKED = (
    "select earlier.id, fork.id from runs as fork join runs as later on later.id = fork.fork_of"
    + _BEFORE.format(which="{which} and")
)
"""Runs on which another run depends: a later unfinished run of the session, or a fork of a later
run, continues from their messages.
"""


_MAY_BE_OLD = "{run}finished is not null and ({run}updated_at_us < ? or {run}updated_at_us > ?)"
"""Finished runs that ended before a given time, or so late that the clock was wrong: `_ends`."""


class PruningPlan(NamedTuple):
    """Numbers of old runs, by id."""

    going: dict[str, int]
    kept: list[str]
    """Ids of old runs that are kept, because a remaining run was forked from them, continues from
    their messages, or belongs to the same tree.
    """


def plan(db: Cursor, before: Time) -> PruningPlan:
    old = _old(db, before)
    needed_by: dict[str, list[str]] = {}
    for run_id, fork_of in db.execute("select id, fork_of from runs where fork_of is not null"):
        needed_by.setdefault(fork_of, []).append(run_id)
    # a parent that resumes needs its children's results
    for run_id, parent in db.execute(
        "select id, parent from runs where parent in (select id from runs)"
    ):
        needed_by.setdefault(run_id, []).append(parent)
        needed_by.setdefault(parent, []).append(run_id)
    for query in (_GOES_ON, _FORKED):
        for run_id, later in db.execute(
            query.format(which=_MAY_BE_OLD.format(run="earlier.")), _ends(db, before)
        ):
            needed_by.setdefault(run_id, []).append(later)
    kept: set[str] = set()
    while more := {
        run_id
        for run_id in old
        if run_id not in kept
        and any(other not in old or other in kept for other in needed_by.get(run_id, ()))
    }:
        kept |= more
    return PruningPlan(
        {run_id: num for run_id, num in old.items() if run_id not in kept},
        [run_id for run_id in old if run_id in kept],
    )


def _old(db: Cursor, before: Time) -> dict[str, int]:
    """Return the numbers of old runs by id, in the order in which they began."""
    rows = db.execute(
        f"select id, num, updated_at_us from runs where {_MAY_BE_OLD.format(run='')} order by num",
        _ends(db, before),
    ).fetchall()
    numbers = {run_id: num for run_id, num, _ in rows}

    def is_imported(run_id: str) -> bool:
        summary = db.execute("select summary from runs where num = ?", (numbers[run_id],)).get
        return decode_json(opened_summary(db, run_id, summary), RunInfo).imported is not None

    ends = [(run_id, time_of(ended_us)) for run_id, _, ended_us in rows]
    now = time_of(db.dialect.now_us(db))
    return {run: numbers[run] for run in aged(ends, before, now=now, is_imported=is_imported)}


def _ends(db: Cursor, before: Time) -> tuple[int, int]:
    """Return the values of `_MAY_BE_OLD`, in microseconds."""
    return micros(before), db.dialect.now_us(db) + AHEAD_MOST // timedelta(microseconds=1)


def size_bytes(db: Cursor, runs: list[int]) -> int:
    """Return the size of their entries, and of the long texts that no other run uses, in bytes."""
    total = 0
    uses: dict[int, int] = {}
    for run in runs:
        span = (place_of(run, 0), place_of(run + 1, 0))
        total += cast(
            "int",
            db.execute(
                "select sum(length(body)) from entries where place between ? and ?", span
            ).get,
        )
        for blob, count in db.execute(
            "select blob, count(*) from cuts where place between ? and ? group by blob", span
        ):
            uses[blob] = uses.get(blob, 0) + count
    for blob, count in uses.items():
        if db.execute("select count(*) from cuts where blob = ?", (blob,)).get == count:
            total += cast(
                "int", db.execute("select length(body) from blobs where num = ?", (blob,)).get
            )
    return total


def prune_some(
    db: Cursor, before: Time, some: Mapping[str, int], *, going: Collection[str]
) -> dict[str, int]:
    """Delete the runs that have not become needed since the plan, and yield each with its size in
    bytes. `going`: all planned runs.
    """
    hold_runs(db)
    return _take_away(db, _still_going(db, before, some, going))


def remove_some(db: Cursor, run_ids: Collection[str]) -> tuple[dict[str, int], list[str]]:
    """Delete finished runs and their descendants. Return the deleted ids with their sizes in bytes,
    and the ids that forks need.

    Raises AgentError(busy) if one of them is not finished.
    """
    hold_runs(db)
    trees = {root: tree for root in map(key_of, run_ids) if (tree := _tree(db, root))}
    numbers = {run_id: num for tree in trees.values() for run_id, num in tree.items()}
    going = removable(
        trees,
        lambda run_id: [
            fork
            for (fork,) in db.execute("select id from runs where fork_of = ?", (run_id,)).fetchall()
        ],
    )
    gone = _take_away(db, {run_id: num for run_id, num in numbers.items() if run_id in going})
    return gone, [run_id for run_id in numbers if run_id not in going]


def _tree(db: Cursor, root: str) -> dict[str, int]:
    """Return the numbers of a run and its descendants, by id; empty for an unknown run. Raises
    AgentError(busy) if one is not finished.
    """
    tree = dict[str, int]()
    found = db.execute("select id, num, finished from runs where id = ?", (root,)).fetchall()
    while found:
        run_id, num, finished = found.pop()
        if finished is None:
            raise unfinished(run_id)
        tree[run_id] = num
        found += db.execute(
            "select id, num, finished from runs where parent = ?", (run_id,)
        ).fetchall()
    return tree


def _take_away(db: Cursor, going: Mapping[str, int]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for run_id, num in going.items():
        session = db.execute(
            (
                "select sessions.num, sessions.id from runs join sessions on sessions.num = "
                "runs.session where runs.num = ?"
            ),
            (num,),
        ).fetchone()
        if session is not None and session[1] is not None:
            hold_session(db, session[1])
        sizes[run_id] = size_bytes(db, [num])
        remove_run(db, num)
        if session is not None and _is_empty(db, session[0]):
            remove_session(db, session[0])
    sweep(db)
    return sizes


def _still_going(
    db: Cursor, before: Time, some: Mapping[str, int], going: Collection[str]
) -> dict[str, int]:
    # The later run that proved its age may be deleted already.
    old = f"select 1 from runs where num = ? and {_MAY_BE_OLD.format(run='')}"
    ends = _ends(db, before)
    left = {
        run_id: num
        for run_id, num in some.items()
        if db.execute(old, (num, *ends)).fetchone() is not None
    }
    while needed := {run_id for run_id in left if _is_needed(db, run_id, left, going)}:
        left = {run_id: num for run_id, num in left.items() if run_id not in needed}
    return left


def _is_needed(db: Cursor, run_id: str, left: Collection[str], going: Collection[str]) -> bool:
    """Return True if a remaining run needs it: a fork, a run that continues its conversation, a
    child, or its parent.
    """
    after = db.execute(
        "select id from runs where fork_of = ? union all select id from runs where parent = ?",
        (run_id, run_id),
    ).fetchall()
    above = db.execute(
        "select above.id from runs join runs as above on above.id = runs.parent where runs.id = ?",
        (run_id,),
    ).fetchall()
    after += [
        (later,)
        for query in (_GOES_ON, _FORKED)
        for _, later in db.execute(query.format(which="earlier.id = ?"), (run_id,)).fetchall()
    ]
    return any(other not in left for (other,) in after) or any(
        other not in going for (other,) in above
    )


def _is_empty(db: Cursor, session: int) -> bool:
    said = "not exists (select 1 from session_entries where session = ?)"
    return (
        db.execute(
            f"select 1 where {said} and not exists (select 1 from runs where session = ?)",
            (session, session),
        ).fetchone()
        is not None
    )
