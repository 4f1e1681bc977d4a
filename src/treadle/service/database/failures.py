"""Translation of database errors for callers, and classification of those worth a retry. Entry
points: `told`, `is_conflict`, `is_lost`.

No message contains an address, a password, a statement or a value: those stay in the cause.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from treadle.errors import AgentError

SILENT: Final = (
    "the database does not respond: check that it is running, and that the host, name and "
    "password in its URL are right"
)
REFUSED: Final = (
    (
        re.compile(r"password authentication failed|no password supplied"),
        "the database rejected this name and password: check both in its URL",
    ),
    (
        re.compile(r'database ".*" does not exist'),
        (
            "the server has no such database: create it with `createdb`, or check its name in the "
            "URL"
        ),
    ),
    (
        re.compile(r"SSL was required|certificate"),
        (
            "the connection to the database cannot be encrypted: turn on `ssl` on the server, or "
            "check sslmode in the URL"
        ),
    ),
)
"""Messages of libpq for a refused connection, which has no error code."""
SQLITE: Final = {
    "SQLITE_BUSY": "the database is locked by another process: stop that process, or try again",
    "SQLITE_LOCKED": "the database is locked by another process: stop that process, or try again",
    "SQLITE_FULL": "the database's disk is full: free some space, then try again",
    "SQLITE_READONLY": "the database cannot be written: its file or folder is read-only",
    "SQLITE_CANTOPEN": "the database file cannot be opened: check that its folder exists and is "
    "writable",
    "SQLITE_IOERR": "the database's disk failed to read or write",
    "SQLITE_NOTADB": "the database file is not an SQLite database: give another path, or move the "
    "file away",
    "SQLITE_CORRUPT": "the database file is damaged: restore it from a backup",
    "SQLITE_TOOBIG": "a value is too large for the database",
}
"""Messages by the first two words of SQLite's error code."""
POSTGRES: Final = {
    "53100": "the database's disk is full: free some space, then try again",
    "25006": "the database is read-only: check whether it is a replica",
    "57014": "the database canceled a statement that took too long: try again",
    "55P03": "the database is locked by another process: stop that process, or try again",
    "25P03": "the database ended an idle transaction: try again",
}
CONFLICTS: Final = frozenset({"40001", "40P01"})


def told(error: DBAPIError | PoolTimeout) -> AgentError | None:
    """Translate an error. Return None for an error that the caller handles, such as a duplicate
    row, and for a bug in our statements.
    """
    if isinstance(error, PoolTimeout):
        return AgentError("network", "the database is busy: all connections are in use; try again")
    if isinstance(error, IntegrityError):
        return None
    if isinstance(error, DataError):
        return AgentError("invalid", "the database rejected a value as invalid")
    if (text := SQLITE.get(_sqlite_code(error)) or POSTGRES.get(_sqlstate(error))) is not None:
        return AgentError("network", text)
    if is_conflict(error):
        return AgentError("network", "other transactions kept changing the same rows: try again")
    if _sqlstate(error) == "42501" and "row-level security" not in str(error.orig):
        return AgentError(
            "invalid",
            (
                "the database denied access: the role lacks privileges on our tables; grant them, "
                "or connect as the owner of the tables"
            ),
        )
    if is_lost(error) or (
        isinstance(error, OperationalError | InterfaceError) and not _is_ours(error)
    ):
        return AgentError("network", _why_silent(error))
    return None


def _why_silent(error: DBAPIError) -> str:
    said = "" if _sqlstate(error) else str(error.orig)
    return next((text for pattern, text in REFUSED if pattern.search(said)), SILENT)


def is_conflict(error: DBAPIError) -> bool:
    """Return True if a concurrent transaction conflicted, so that a retry may succeed."""
    return _sqlstate(error) in CONFLICTS


def is_lost(error: DBAPIError) -> bool:
    return error.connection_invalidated or (
        _sqlstate(error)[:2] in ("57", "08") and _sqlstate(error) != "57014"
    )


def _is_ours(error: DBAPIError) -> bool:
    """Return True for a bug in a statement, which SQLite also reports as "operational"."""
    return _sqlite_code(error) == "SQLITE_ERROR"


def _sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _sqlite_code(error: DBAPIError) -> str:
    name = str(getattr(error.orig, "sqlite_errorname", None) or "")
    return "_".join(name.split("_")[:2])
