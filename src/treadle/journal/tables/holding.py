"""Locks on the tables against concurrent writers, always taken in this order. They do nothing with
a single writer.

Entry points: `hold_runs`, `hold_session`, `hold_index`.
"""

from __future__ import annotations

from typing import Final

from treadle.journal.tables.database import Cursor

INDEX: Final = "search"


def hold_runs(db: Cursor, *, shared: bool = False) -> None:
    """Hold all runs, to remove runs or sessions. `shared`: to add to data that was read, which is
    not removed until the transaction is over.
    """
    db.dialect.hold(db, "runs", shared=shared)


def hold_session(db: Cursor, session_id: str) -> None:
    """Hold a session before reading it: no other transaction creates it, begins a run in it, or
    adds to it.
    """
    db.dialect.hold(db, f"session:{session_id}")


def hold_index(db: Cursor) -> None:
    """Hold the full-text index against other additions."""
    db.dialect.hold(db, INDEX)
