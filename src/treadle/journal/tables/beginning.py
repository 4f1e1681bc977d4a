"""Creation of a run in the tables, with its place in its session, checked against concurrent ones.

Entry points: `make_run`, `NewRun`.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from treadle.errors import AgentError
from treadle.journal.entries import RunStarted
from treadle.journal.importing import NEW, Standing
from treadle.journal.queue import QueuePlace
from treadle.journal.sessions import ViewMark
from treadle.journal.tables.conversations import SessionPosition, joined
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.holding import hold_runs, hold_session
from treadle.journal.tables.listing import stored_summary, summary_of, tags_column
from treadle.journal.tables.liveness import Alive
from treadle.journal.tables.queue_place import place_columns
from treadle.journal.tables.rows import find, key_of, micros, showable


class NewRun(NamedTuple):
    """A run to insert."""

    started: RunStarted
    owner: str | None = None
    """Id of its driver."""
    head: int = 1
    """Sequence number of its last entry."""
    place: QueuePlace | None = None
    """Place in a queue."""
    standing: Standing = NEW
    """State of an imported run."""


def make_run(db: Cursor, run: NewRun, alive: Alive | None, *, found: ViewMark | None = None) -> int:
    """Insert the row of a run, and its session if it is missing, and return the run's number. The
    caller inserts its entries up to `head`.

    Raises AgentError(busy) if the id is taken, or if another run of the session is not finished
    (unless `alive` is None); SessionChanged if the session's mark is not `found`;
    AgentError(invalid) if the run that it was forked from no longer exists.
    """
    started, place, standing = run.started, run.place, run.standing
    hold_runs(db, shared=True)
    if started.session_id is not None:
        hold_session(db, started.session_id)
    if started.fork is not None:
        find(db, started.fork.run_id)  # the run may have been pruned since it was read
    columns: dict[str, object] = {
        "owner": run.owner,
        "fence": standing.fence,
        "head": run.head,
        "waiting": int(standing.waiting),
        "updated_at_us": micros(standing.updated_at or started.at),
    }
    if place is not None:
        columns |= zip(("queue", "priority", "tenant"), place_columns(place), strict=True)
        columns["ready_at_us"] = None if place.ready_at is None else micros(place.ready_at)
    return _add(db, started, joined(db, started, alive, found), columns)


def _add(
    db: Cursor,
    started: RunStarted,
    conversation: SessionPosition | None,
    columns: dict[str, object],
) -> int:
    """Insert the row of a run. `columns`: those whose initial values differ. A `ready_at_us` of
    None means now.
    """
    summary = summary_of(started, started, started)
    is_indexed = conversation is None or not conversation.talks or db.seal is not None
    columns |= {
        "id": started.run_id,
        "session": None if conversation is None else conversation.num,
        "parent": None if started.parent_run_id is None else key_of(started.parent_run_id),
        "fork_of": started.fork.run_id if started.fork else None,
        "schema": started.schema,
        "indexed": int(is_indexed),
        "started_at_us": micros(started.at),
        "summary": summary if db.seal is None else stored_summary(db, started.run_id, summary),
        "agent": showable(started.agent),
        "user_id": None if started.user_id is None else showable(started.user_id),
        "tags": tags_column(started.tags),
    }
    marks = [f"coalesce(?, {db.dialect.now})" if name == "ready_at_us" else "?" for name in columns]
    own = db.dialect.run_columns
    names, marks = [*columns, *own], [*marks, *own.values()]
    try:
        added = db.execute(
            f"insert into runs({', '.join(names)}) values({', '.join(marks)}) returning num",
            (*columns.values(),),
        )
        num = cast("int", added.get)
    except db.dialect.refused as e:
        raise AgentError(
            "busy", f"run {started.run_id} already exists: use another id, or `ensure`"
        ) from e
    if conversation is not None and conversation.talks:
        db.execute(
            "insert into session_entries(session, pos, kind, run) values(?, ?, 'run', ?)",
            (conversation.num, conversation.pos, num),
        )
    return num
