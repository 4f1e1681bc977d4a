"""What of the tables is held against others that write at the same time, always in this order.
Where one writes at a time it is nothing.

Entry: `hold_runs`, `hold_session`, `hold_index`.
"""

from __future__ import annotations

from typing import Final

from treadle.journal.tables.database import Cursor

INDEX: Final = "search"


def hold_runs(db: Cursor, *, shared: bool = False) -> None:
    """By whoever takes runs or sessions away. `shared`, by those who add something beside what they
    read: none of that is taken away until the transaction is over.
    """
    db.dialect.hold(db, "runs", shared=shared)


def hold_session(db: Cursor, session_id: str) -> None:
    """Nobody else makes it, begins a run in it, or adds to it. Before anything is read of it."""
    db.dialect.hold(db, f"session:{session_id}")


def hold_index(db: Cursor) -> None:
    """Nobody else adds to the full-text index."""
    db.dialect.hold(db, INDEX)
