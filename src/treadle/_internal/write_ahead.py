"""Write-ahead logging of an SQLite file by Python's own driver. Entry: `use_write_ahead_log`."""

from __future__ import annotations

import sqlite3
import time

_AGAIN_S = 0.005


def use_write_ahead_log(connection: sqlite3.Connection, *, wait_s: float) -> None:
    """Switch a database to WAL.

    This needs exclusive access for a moment, for which SQLite does not wait where another process
    is about to write, for example because it switches the same new file.

    Raises sqlite3.OperationalError if it is still locked after `wait_s` seconds.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as e:
            is_busy = e.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_S)
