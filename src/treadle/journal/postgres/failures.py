"""Translation of PostgreSQL's and psycopg's errors into messages with the next step and without
passwords.

Entry points: `translated`, `unusable`, `place_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
from psycopg import conninfo, errors

from treadle.errors import AgentError, out_of_memory

_SAID_MAX = 300
_POOL_IS_FULL = ("query_wait_timeout", "server login has been failing", "server_login_retry")
"""Messages of a pgbouncer that accepts connections but has none to the server."""


def place_of(url: str) -> str:
    """Return the URL without its password and options, for error messages. Raises
    AgentError(invalid) if it is not a URL of PostgreSQL.
    """
    try:
        parts = {
            name: str(value)
            for name, value in conninfo.conninfo_to_dict(url).items()
            if value is not None
        }
    except psycopg.ProgrammingError:
        reason = (
            "this is not a PostgreSQL URL of a journal: use 'postgresql://USER@HOST:5432/DATABASE'"
        )
        raise AgentError("invalid", reason) from None  # libpq quotes text that it cannot parse
    if "@" in url.partition("://")[2].partition("?")[0].partition("/")[2] or re.search(
        r"[^\d,]", parts.get("port", "")
    ):
        raise AgentError(
            "invalid",
            (
                "this is not a PostgreSQL URL of a journal: in its password, `/` is written "
                "%2F, `@` %40, `?` %3F and `#` %23"
            ),
        )
    host = parts.get("host") or parts.get("hostaddr") or ""
    user, port, name = (parts.get(key, "") for key in ("user", "port", "dbname"))
    where = f"{host}:{port}" if port and not host.startswith("/") else host
    if host.startswith("/"):
        return f"postgresql://{user and user + '@'}/{name}?host={host}{port and '&port=' + port}"
    return f"postgresql://{user and user + '@'}{where}/{name}"


def secrets_of(url: str) -> tuple[str, ...]:
    """Return the secrets in a URL, which no message may contain."""
    parts = conninfo.conninfo_to_dict(url)
    return tuple(
        str(value) for name in ("password", "sslpassword", "passfile") if (value := parts.get(name))
    )


class _Refusal(NamedTuple):
    """Reason why a database cannot be opened, detected by any of its three criteria."""

    text: str
    """Message with the next step; `{found}` is the first group of `words`."""
    states: tuple[str, ...] = ()
    """SQLSTATE codes."""
    words: str = ""
    """Pattern of the server's own message; errors of libpq carry no code."""
    kinds: tuple[type[psycopg.Error], ...] = ()


_REFUSALS = (
    _Refusal(
        "the server of {place!r} rejects this user and password: check both in the URL, or "
        "in PGPASSWORD or ~/.pgpass",
        states=("28P01",),
        words="password authentication failed|no password supplied",
    ),
    _Refusal(
        "the server of {place!r} denies this user access ({said}): check the user, and what "
        "pg_hba.conf allows",
        states=("28000",),
        words='no pg_hba.conf entry|role ".*" does not exist',
    ),
    _Refusal(
        "there is no database {place!r}: create it with `createdb`, or check its name in the URL",
        states=("3D000",),
        words='database ".*" does not exist',
    ),
    _Refusal(
        "this user may not use or create the tables of a journal in {place!r} ({said}): "
        "`grant create on database` to it, or let its owner open it once",
        kinds=(errors.InsufficientPrivilege, errors.InvalidSchemaName),
    ),
    _Refusal(
        "{place!r} does not accept writes (a standby, or read-only) and contains no journal yet: give the "
        "URL of the primary server",
        kinds=(errors.ReadOnlySqlTransaction,),
    ),
    _Refusal(
        "the pooler of {place!r} refuses {found!r}: take it out of the URL, or name it in its "
        "ignore_startup_parameters",
        words=r"unsupported startup parameter(?: in options)?: (\S+)",
    ),
)
_NO_TLS = _Refusal(
    "no encrypted connection to {place!r} can be established ({said}): turn on `ssl` there, or check "
    "sslmode and sslrootcert in the URL",
    words="ssl was required|certificate",
)
_NO_SERVER = (
    "no PostgreSQL server responds at {place!r} ({said}): see that the server runs there, and that host "
    "and port are right"
)


def unusable(error: psycopg.Error, place: str, *, secrets: tuple[str, ...] = ()) -> AgentError:
    """Return the error for a database that cannot be opened as a journal; the first match applies."""
    said, state = _said(error, secrets), error.sqlstate
    # without a code, the server has not responded, or libpq has not reached it
    for one in (*_REFUSALS, _NO_TLS) if state is None else _REFUSALS:
        found = re.search(one.words, said, re.IGNORECASE) if one.words else None
        if found or state in one.states or isinstance(error, one.kinds):
            name = found[1] if found and found.re.groups else ""
            return AgentError("invalid", one.text.format(place=place, said=said, found=name))
    if (
        state is None
        and isinstance(error, psycopg.OperationalError)
        and not _is_crowded(said.lower())
    ):
        return AgentError("invalid", _NO_SERVER.format(place=place, said=said))
    return AgentError("agent", translated(error, place, "it is not used", secrets=secrets).message)


def _is_crowded(said: str) -> bool:
    """Return True if the server is reachable but has no free connection."""
    return (
        "too many" in said
        or "max_client_conn" in said
        or any(words in said for words in _POOL_IS_FULL)
    )


class _Failure(NamedTuple):
    """Reason why an operation of an open journal failed."""

    kinds: tuple[type[BaseException], ...]
    text: str
    words: tuple[str, ...] = ()
    """Parts of the server's own message, one of which must occur; empty: any message."""


_FAILURES = (
    _Failure(
        (psycopg.OperationalError,),
        "the pooler of {place!r} has no connection to its server ({said}): {done}. See that the "
        "server is up and its pool large enough, then resume",
        words=_POOL_IS_FULL,
    ),
    _Failure(
        (errors.DiskFull, errors.OutOfMemory),
        "the server of {place!r} has no space left ({said}): {done}. Free some space there, then "
        "go on",
    ),
    _Failure(
        (errors.TooManyConnections, errors.ConfigurationLimitExceeded),
        "the server of {place!r} accepts no more connections: {done}. Raise its max_connections, put "
        "pgbouncer before it, or run fewer processes",
    ),
    _Failure(
        (psycopg.OperationalError,),
        "the pooler of {place!r} accepts no more connections: {done}. Raise its max_client_conn, or "
        "run fewer processes",
        words=("max_client_conn",),
    ),
    _Failure(
        (errors.ReadOnlySqlTransaction,),
        "{place!r} does not accept writes (a standby, or read-only): {done}. Give the URL of the primary "
        "server",
    ),
    _Failure(
        (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow),
        "the server of {place!r} is stopping or starting ({said}): {done}. Wait until it is up, "
        "then resume",
    ),
    _Failure(
        (errors.QueryCanceled, errors.LockNotAvailable),
        "the server of {place!r} ended a statement that took too long ({said}): {done}. See what "
        "holds it up, then try again",
    ),
    _Failure(
        (errors.SerializationFailure, errors.DeadlockDetected),
        "others changed the same rows of {place!r} at the same moment, again and again ({said}): "
        "{done}. Try again",
    ),
    _Failure(
        (errors.InsufficientPrivilege,),
        "this user lacks a privilege in {place!r} ({said}): {done}. Give it the rights of the "
        "journal's owner",
    ),
    _Failure(
        (
            errors.UndefinedTable,
            errors.InvalidSchemaName,
            errors.UndefinedColumn,
            errors.UndefinedFunction,
        ),
        "tables of the journal are missing in {place!r} ({said}): {done}. Restore them, or use "
        "another database",
    ),
    _Failure(
        (errors.IntegrityError, psycopg.DataError, errors.ProgramLimitExceeded),
        "the journal {place!r} rejected the operation ({said}): {done}",
    ),
    _Failure(
        (psycopg.OperationalError,),
        "the connection to {place!r} failed ({said}): {done}. Check that the server is up and can "
        "be reached, then resume",
    ),
    _Failure((BaseException,), "the journal {place!r} failed ({said}): {done}"),
)
"""Reasons in order; the first match applies."""


def translated(
    error: BaseException,
    place: str,
    done: str = "nothing was appended",
    *,
    secrets: tuple[str, ...] = (),
) -> AgentError:
    """Return the error with its next step. `done`: the known state of the failed operation."""
    if isinstance(error, MemoryError):
        return out_of_memory(f"the journal {place!r} failed, {done}")
    said = _said(error, secrets)
    text = next(
        one.text
        for one in _FAILURES
        if isinstance(error, one.kinds)
        and (not one.words or any(words in said for words in one.words))
    )
    return AgentError("agent", text.format(place=place, said=said, done=done))


def is_lost(error: BaseException, db: psycopg.Connection | None) -> bool:
    """Return True if the connection ended, so that a new one may help; False if the server only
    refused a statement.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if db is None or db.closed or db.broken:
        return True
    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        return True  # not from the server: psycopg has noticed the end before libpq
    return isinstance(
        error,
        (
            errors.AdminShutdown,
            errors.CrashShutdown,
            errors.CannotConnectNow,
            errors.IdleSessionTimeout,
        ),
    )


def _said(error: BaseException, secrets: tuple[str, ...]) -> str:
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    told = primary or " ".join(_lines(str(error))) or type(error).__name__
    for secret in secrets:
        told = told.replace(secret, "***")
    return told[:_SAID_MAX]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without repetitions, because psycopg has one for each address it tried, and
    libpq adds hints.
    """
    seen: set[str] = set()
    for line in (line.strip() for line in text.splitlines()):
        if line and line not in seen and not line.startswith("Is the server running"):
            seen.add(line)
            yield line
