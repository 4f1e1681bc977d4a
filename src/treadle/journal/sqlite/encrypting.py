"""Opening of a journal file with its keys, and its encryption. Entry points: `opened`, `encrypt`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw

from treadle.errors import AgentError
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.guard import Guard
from treadle.journal.sqlite.schema import connect, make_ready, unusable
from treadle.journal.tables.encrypting import Encrypted, encrypt_all, seal_of
from treadle.journal.tables.sealing import Seal

_WAIT_S = 15.0


def opened(
    path: Path, keys: Sequence[bytes], *, busy_timeout_s: float
) -> tuple[apsw.Connection, Seal | None]:
    """Open a connection to the journal, with all its tables, and return it with its keys. Raises
    AgentError.
    """
    try:
        connection = connect(path, busy_timeout_s=busy_timeout_s)
    except apsw.Error as e:
        raise unusable(e, path) from e
    try:
        make_ready(connection, path, busy_timeout_s=busy_timeout_s)
        db = cursor_of(connection)
        if not keys:
            return connection, seal_of(db, (), str(path))
        db.execute("begin immediate")
        seal = seal_of(db, keys, str(path))
        db.execute("commit")
        return connection, seal
    except BaseException as e:
        connection.close()
        if isinstance(e, apsw.Error):
            raise unusable(e, path) from e
        raise


def encrypt(path: Path, keys: Sequence[bytes]) -> Encrypted:
    """Encrypt everything in the file with the first key, in one transaction, and overwrite what was
    there before. Blocks.

    Raises AgentError: busy if the file is open elsewhere, invalid as `encrypt_all`.
    """
    guard = Guard.enter(path, wait_s=_WAIT_S)
    try:
        db = connect(path, busy_timeout_s=_WAIT_S)
        make_ready(db, path, busy_timeout_s=_WAIT_S)
    except BaseException as e:
        guard.give_up()
        if isinstance(e, apsw.Error):
            raise unusable(e, path) from e
        raise
    guard.share()
    try:
        if not guard.is_alone():
            raise AgentError(
                "busy",
                f"another process has the journal {str(path)!r} open: end it, then try again",
            )
        cursor = cursor_of(db)
        cursor.execute("begin immediate")
        done = encrypt_all(keys, str(path), lambda work: work(cursor))
        # what was plain text is in free pages and in the log
        cursor.execute("commit; vacuum").fetchall()
        cursor.execute("pragma wal_checkpoint(truncate)").fetchall()
        return done
    except apsw.Error as e:
        raise unusable(e, path) from e
    finally:
        db.close()
        guard.leave()
