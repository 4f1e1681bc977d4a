"""Locks on the tables against concurrent writers, always acquired in this order. They do nothing
with a single writer.

Entry points: `hold_runs`, `hold_session`, `hold_index`.
"""

from __future__ import annotations

from typing import Final

from treadle.journal.tables.database import Cursor

INDEX: Final = "search"


def hold_runs(db: Cursor, *, shared: bool = False) -> None:
    """Lock all runs, in order to remove runs or sessions. `shared`: in order to add to data that
    was read, which then cannot be removed until the transaction ends.
    """
    db.dialect.hold(db, "runs", shared=shared)


def hold_session(db: Cursor, session_id: str) -> None:
    """Lock a session before reading it, so that no other transaction creates it, begins a run in
    it, or adds to it.
    """
    db.dialect.hold(db, f"session:{session_id}")


def hold_index(db: Cursor) -> None:
    """Lock the full-text index against other additions."""
    db.dialect.hold(db, INDEX)
