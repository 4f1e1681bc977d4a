"""What old runs can be taken away, and what that frees. How a run is taken away is removal.py's. Entry: `plan`, `prune_some`."""

from __future__ import annotations

from typing import NamedTuple, cast

from treadle.journals.sqlite.database import Cursor
from treadle.journals.sqlite.removal import remove_run, remove_session, sweep
from treadle.journals.sqlite.rows import micros, place_of
from treadle.types import Time


class Plan(NamedTuple):
    """Old runs by id, with their numbers."""

    going: dict[str, int]
    kept: list[str]
    """Runs that stay were forked from them, or are parts of the same tree of runs."""


def plan(db: Cursor, before: Time) -> Plan:
    rows = db.execute("select id, num from runs where finished is not null and updated_at_us < ? order by num", (micros(before),)).fetchall()
    old = {run_id: num for run_id, num in rows}
    needed_by: dict[str, list[str]] = {}
    for run_id, fork_of in db.execute("select id, fork_of from runs where fork_of is not null"):
        needed_by.setdefault(fork_of, []).append(run_id)
    for run_id, parent in db.execute("select id, parent from runs where parent in (select id from runs)"):  # a parent that goes on needs its children's ends
        needed_by.setdefault(run_id, []).append(parent)
        needed_by.setdefault(parent, []).append(run_id)
    kept: set[str] = set()
    while more := {run_id for run_id in old if run_id not in kept and any(other not in old or other in kept for other in needed_by.get(run_id, ()))}:
        kept |= more
    return Plan({run_id: num for run_id, num in old.items() if run_id not in kept}, [run_id for run_id in old if run_id in kept])


def size_bytes(db: Cursor, runs: list[int]) -> int:
    """Of their entries, and of the long texts that no other run holds."""
    total = 0
    uses: dict[int, int] = {}
    for run in runs:
        span = (place_of(run, 0), place_of(run + 1, 0))
        total += cast("int", db.execute("select sum(length(body)) from entries where place between ? and ?", span).get)
        for blob, count in db.execute("select blob, count(*) from cuts where place between ? and ? group by blob", span):
            uses[blob] = uses.get(blob, 0) + count
    for blob, count in uses.items():
        if db.execute("select count(*) from cuts where blob = ?", (blob,)).get == count:
            total += cast("int", db.execute("select length(body) from blobs where num = ?", (blob,)).get)
    return total


def prune_some(db: Cursor, before: Time, *, most: int) -> dict[str, int]:
    """Takes some of them away; gives each with its size in bytes."""
    going = dict(list(plan(db, before).going.items())[:most])
    sizes: dict[str, int] = {}
    for run_id, num in going.items():
        sizes[run_id] = size_bytes(db, [num])
        session = cast("int | None", db.execute("select session from runs where num = ?", (num,)).get)
        remove_run(db, num)
        if (
            session is not None
            and db.execute(
                "select 1 where not exists (select 1 from session_entries where session = ?1) and not exists (select 1 from runs where session = ?1)",
                (session,),
            ).fetchone()
        ):
            remove_session(db, session)
    sweep(db)
    return sizes
