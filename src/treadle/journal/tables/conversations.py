"""Rows of a session, as its runs create and change them: which run may begin, how many messages
count, when the session last changed.

sessions.py handles users' operations on sessions, view.py computes the view. Entry: `joined`,
`ran`, `holder`.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.run_info import Holder
from treadle.journal.session_names import NEW_SESSION, check_session_id, fork_title, title_of
from treadle.journal.sessions import NO_MARK, SessionChanged, ViewMark
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.liveness import Alive
from treadle.journal.tables.rows import bodies, key_of, micros, place_of, read_stored, showable
from treadle.types import Time


class SessionPosition(NamedTuple):
    """Position of a run in its session."""

    num: int
    pos: int
    """Position of its entry."""
    talks: bool
    """False for a run that is part of another one, and adds nothing to the session itself."""


def joined(
    db: Cursor, started: RunStarted, alive: Alive | None, found: ViewMark | None
) -> SessionPosition | None:
    """Return the place of a new run in its session, which is created if missing; None if it has no
    session.

    Raises AgentError(busy) if another run of it is not finished, unless `alive` is None;
    SessionChanged if its mark is no longer `found`; AgentError(invalid) for an invalid session id.
    """
    if started.session_id is None:
        return None
    num = number_of(db, started.session_id)
    talks = started.parent_run_id is None
    if num is None and found not in (None, NO_MARK):
        raise SessionChanged(started.session_id)
    if num is None:
        check_session_id(started.session_id)
        title = NEW_SESSION if alive is None else _forked_title(db, started)
        num, found = add_session(db, started.session_id, title, started.at), None
    elif talks and alive is not None:
        _refuse_second(db, num, alive)
    if talks:
        touch(db, num, started.at, found)
        if db.changed != 1:
            raise SessionChanged(started.session_id)
        name(db, num, started.session_id, title_of(started.input.text))
    return SessionPosition(num, next_pos(db, num), talks)


def _forked_title(db: Cursor, started: RunStarted) -> str:
    """Return the title of the session that a run creates: for a fork, that of its origin's."""
    origin = (
        None
        if started.fork is None
        else db.execute(
            "select sessions.id, title from runs join sessions on sessions.num = runs.session "
            "where runs.id = ? and sessions.id is not null",
            (key_of(started.fork.run_id),),
        ).fetchone()
    )
    return NEW_SESSION if origin is None else fork_title(shown_title(db, *origin))


def ran(db: Cursor, run: int, at: Time, *, said: int | None) -> None:
    """Record that a run has ended, with its number of messages if known."""
    row = db.execute("select session from session_entries where run = ?", (run,)).fetchone()
    if row is not None:
        db.execute("update sessions set messages = messages + ? where num = ?", (said, row[0]))
        touch(db, row[0], at)


def recount(db: Cursor, run: int, at: Time) -> None:
    """Record further messages of a run, possibly after its end."""
    row = db.execute("select session from session_entries where run = ?", (run,)).fetchone()
    if row is not None:
        db.execute("update sessions set messages = null where num = ?", row)
        touch(db, row[0], at)


def number_of(db: Cursor, session_id: str) -> int | None:
    row = db.execute("select num from sessions where id = ?", (key_of(session_id),)).fetchone()
    return None if row is None else cast("int", row[0])


def add_session(db: Cursor, session_id: str, title: str, at: Time) -> int:
    time_us = micros(at)
    statement = (
        "insert into sessions(id, title, created_at_us, updated_at_us, changed, messages) "
        f"values(?, ?, ?, ?, {db.dialect.next_change}, 0) returning num"
    )
    values = (session_id, stored_title(db, session_id, title), time_us, time_us)
    return cast("int", db.execute(statement, values).get)


def stored_title(db: Cursor, session_id: str, title: str) -> str:
    """Return a title as the session's row stores it. That of an unnamed session stays readable."""
    text = showable(title)
    if db.seal is None or text == NEW_SESSION:
        return text
    return db.seal.sealed_text(title_place(session_id), text)


def shown_title(db: Cursor, session_id: str, stored: str) -> str:
    """Return the title that a session's row stores."""
    if db.seal is None or stored == NEW_SESSION:
        return stored
    return db.seal.opened_text(title_place(session_id), stored)


def title_place(session_id: str) -> str:
    return f"title of session {session_id}"


def name(db: Cursor, num: int, session_id: str, title: str) -> None:
    """Name the session, unless it already has a name."""
    db.execute(
        "update sessions set title = ? where num = ? and title = ?",
        (
            showable(title) if db.seal is None else stored_title(db, session_id, title),
            num,
            NEW_SESSION,
        ),
    )


def rename(db: Cursor, num: int, session_id: str, title: str, at: Time) -> None:
    stored = stored_title(db, session_id, title)
    db.execute("update sessions set title = ? where num = ?", (stored, num))
    touch(db, num, at)


def touch(db: Cursor, num: int, at: Time, found: ViewMark | None = None) -> None:
    """Mark the session as the most recently changed. A counter, because clocks are too coarse.

    If its mark is not `found`, `db.changed` is 0.
    """
    statement = (
        f"update sessions set updated_at_us = ?, changed = {db.dialect.next_change} where num = ?"
    )
    if found is None:
        db.execute(statement, (micros(at), num))
    else:  # a single statement, which waits for a writer of the row and then compares again
        db.execute(statement + " and changed = ? and removed = ?", (micros(at), num, *found))


def mark_of(db: Cursor, num: int) -> ViewMark:
    row = db.execute("select changed, removed from sessions where num = ?", (num,)).fetchone()
    return NO_MARK if row is None else ViewMark(*row)


def next_pos(db: Cursor, num: int) -> int:
    return cast(
        "int",
        db.execute(
            "select coalesce(max(pos), 0) + 1 from session_entries where session = ?", (num,)
        ).get,
    )


def _refuse_second(db: Cursor, num: int, alive: Alive) -> None:
    row = _open_run(db, num)
    if row is None:
        return
    _, run_id, owner, _ = row
    if (process := alive(db, owner)) is not None:
        now_what = f"wait for its end, or stop it with `treadle runs kill {run_id}`"
        raise AgentError(
            "busy",
            (
                f"run {run_id} of this session is running already, in process {process.named}: "
                f"{now_what}"
            ),
        )
    ways = f"`treadle runs resume {run_id}` continues it, `treadle runs kill {run_id}` closes it"
    raise AgentError("busy", f"run {run_id} of this session is not finished: {ways}")


def holder(db: Cursor, session_id: str, alive: Alive) -> Holder | None:
    """Return the driver of the session's open run; None if there is none."""
    session = number_of(db, session_id)
    row = None if session is None else _open_run(db, session)
    if row is None:
        return None
    num, run_id, owner, schema = row
    if (process := alive(db, owner)) is None:
        return None
    resumed = (
        "select max(place & 4294967295) from entries where place > ? and place <= ? and type = "
        "'run.resumed'"
    )
    seq = db.execute(resumed, (place_of(num, 0), place_of(num, 0xFFFFFFFF))).get or 1
    ((_, data),) = bodies(db, num, after=seq - 1, to=seq)
    return Holder(
        run_id=run_id, pid=process.pid, host=process.host, since=read_stored(data, schema).at
    )


def _open_run(db: Cursor, session: int) -> tuple[int, str, str | None, int] | None:
    """Return number, id, worker and schema of the session's only unfinished run."""
    row = db.execute(
        (
            "select num, id, owner, schema from runs where session = ? and finished is null and "
            "parent is null"
        ),
        (session,),
    ).fetchone()
    return cast("tuple[int, str, str | None, int] | None", row)
