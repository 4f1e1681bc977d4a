"""Translation of database errors for callers, and which ones are worth a retry. Entry points:
`told`, `is_conflict`, `is_lost`.

No message contains an address, a password, a statement or a value: those stay in the cause.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from treadle.errors import AgentError

SILENT: Final = (
    "the database does not answer: see that it runs, and that its address, name and password are "
    "right"
)
REFUSED: Final = (
    (
        re.compile(r"password authentication failed|no password supplied"),
        "the database does not take this name and password: check both in its address",
    ),
    (
        re.compile(r'database ".*" does not exist'),
        (
            "the server has no such database: create it with `createdb`, or check its name in the "
            "address"
        ),
    ),
    (
        re.compile(r"SSL was required|certificate"),
        (
            "the connection to the database cannot be encrypted: turn on `ssl` there, or mind "
            "sslmode in its address"
        ),
    ),
)
"""Messages of libpq for a refused connection, which has no error code."""
SQLITE: Final = {
    "SQLITE_BUSY": "the database is locked by another process: end that one, or try again",
    "SQLITE_LOCKED": "the database is locked by another process: end that one, or try again",
    "SQLITE_FULL": "the database's disk is full: make room, and try again",
    "SQLITE_READONLY": "the database cannot be written: its file or folder is read-only",
    "SQLITE_CANTOPEN": "the database's file cannot be opened: see that its folder is there and ours to write in",  # noqa: E501
    "SQLITE_IOERR": "the database's disk failed to read or write",
    "SQLITE_NOTADB": "the database's file is no SQLite database: give another path, or move it away",  # noqa: E501
    "SQLITE_CORRUPT": "the database's file is damaged: put back a copy of it",
    "SQLITE_TOOBIG": "a value is too large for the database",
}
"""Messages by the first two words of SQLite's error code."""
POSTGRES: Final = {
    "53100": "the database's disk is full: make room, and try again",
    "25006": "the database can only be read at the moment: see whether it is a replica",
    "57014": "the database took too long for one statement, and was stopped: try again",
    "55P03": "the database is locked by another process: end that one, or try again",
    "25P03": "the database ended a transaction that did nothing for too long: try again",
}
CONFLICTS: Final = frozenset({"40001", "40P01"})


def told(error: DBAPIError | PoolTimeout) -> AgentError | None:
    """Translate an error. Return None for errors that the caller handles (a duplicate row) and for
    mistakes in our statements.
    """
    if isinstance(error, PoolTimeout):
        return AgentError(
            "network", "the database is too busy: all connections to it are in use; try again"
        )
    if isinstance(error, IntegrityError):
        return None
    if isinstance(error, DataError):
        return AgentError("invalid", "the database does not take such a value")
    if (text := SQLITE.get(_sqlite_code(error)) or POSTGRES.get(_sqlstate(error))) is not None:
        return AgentError("network", text)
    if is_conflict(error):
        return AgentError(
            "network", "the database had others change the same rows each time: try again"
        )
    if _sqlstate(error) == "42501" and "row-level security" not in str(error.orig):
        return AgentError(
            "invalid",
            (
                "the database does not let us: its role lacks rights on our tables; grant them, or "
                "connect as their owner"
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
    """True if another transaction was in the way, so that a retry may succeed."""
    return _sqlstate(error) in CONFLICTS


def is_lost(error: DBAPIError) -> bool:
    return error.connection_invalidated or (
        _sqlstate(error)[:2] in ("57", "08") and _sqlstate(error) != "57014"
    )


def _is_ours(error: DBAPIError) -> bool:
    """True for a mistake in a statement, which SQLite also reports as "operational"."""
    return _sqlite_code(error) == "SQLITE_ERROR"


def _sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def _sqlite_code(error: DBAPIError) -> str:
    name = str(getattr(error.orig, "sqlite_errorname", None) or "")
    return "_".join(name.split("_")[:2])
