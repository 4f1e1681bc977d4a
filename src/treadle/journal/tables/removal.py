"""Deletion of runs and sessions, with all data that only they use. pruning.py and sessions.py
select them. Entry point: `remove_run`.
"""

from __future__ import annotations

from treadle.journal.tables import search
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.rows import place_of


def remove_run(db: Cursor, run: int) -> None:
    """Delete a run: its place in its session, its indexed words, its entries, and long texts that
    are not used elsewhere.

    Its row is deleted before its entries, so that entries which its driver is still adding are
    either committed, and deleted too, or rejected.
    """
    for session, pos in db.execute(
        "select session, pos from session_entries where run = ?", (run,)
    ).fetchall():
        search.forget(db, session, pos)
        db.execute("delete from session_entries where session = ? and pos = ?", (session, pos))
        db.execute(
            "update sessions set messages = null, removed = removed + 1 where num = ?", (session,)
        )
    db.execute("delete from runs where num = ?", (run,))
    db.execute("delete from stops where run = ?", (run,))
    span = (place_of(run, 0), place_of(run + 1, 0))
    blobs = [
        (blob,)
        for (blob,) in db.execute(
            "select distinct blob from cuts where place between ? and ?", span
        )
    ]
    db.execute("insert into leaving values(?)", (run,))
    db.execute("delete from entries where place between ? and ?", span)
    db.execute("delete from cuts where place between ? and ?", span)
    db.execute("delete from leaving")
    db.executemany(
        "delete from blobs where num = ? and not exists (select 1 from cuts where blob = num)",
        blobs,
    )


def remove_session(db: Cursor, session: int) -> None:
    """Delete a session's row and the messages that were added to it directly. Its runs must be
    deleted first.
    """
    for (pos,) in db.execute(
        "select pos from session_entries where session = ?", (session,)
    ).fetchall():
        search.forget(db, session, pos)
    db.execute("delete from session_entries where session = ?", (session,))
    db.execute("delete from sessions where num = ?", (session,))


def sweep(db: Cursor) -> None:
    """Remove the remains of deleted sessions, except for the origin of remaining forks and
    everything before it.

    The last step of every removal: forks may have lost messages from before their origin, so their
    sessions are counted again.
    """
    changed = True
    while changed:
        changed = any(
            [
                _sweep_one(db, session)
                for (session,) in db.execute("select num from sessions where id is null").fetchall()
            ]
        )
    db.execute(
        "update sessions set messages = null where messages is not null and num in (select "
        "session from runs where fork_of is not null)"
    )


def _sweep_one(db: Cursor, session: int) -> bool:
    """Sweep one session. Returns True if anything was removed."""
    rows = db.execute(
        (
            "select runs.num, runs.id, coalesce(pos, 0) from runs left join session_entries on "
            "session_entries.run = runs.num where runs.session = ?"
        ),
        (session,),
    ).fetchall()
    going = {run_id: (num, pos) for num, run_id, pos in rows}
    while needed := [pos for run_id, (_, pos) in going.items() if _is_needed(db, run_id, going)]:
        going = {run_id: (num, pos) for run_id, (num, pos) in going.items() if pos > max(needed)}
    for run_id, (num, _) in going.items():
        remove_run(db, num)
        _remove_below(db, run_id)
    if len(going) == len(rows):
        remove_session(db, session)
        return True
    return bool(going)


def _remove_below(db: Cursor, run_id: str) -> None:
    """Delete the runs that this one started, which are in no session."""
    for num, child in db.execute("select num, id from runs where parent = ?", (run_id,)).fetchall():
        if not _is_needed(db, child, {}):
            remove_run(db, num)
            _remove_below(db, child)


def _is_needed(db: Cursor, run_id: str, going: dict[str, tuple[int, int]]) -> bool:
    return any(
        fork not in going
        for (fork,) in db.execute("select id from runs where fork_of = ?", (run_id,))
    )
