"""Errors of PostgreSQL and psycopg as messages with the next step; never with a password.

Entry points: `translated`, `unusable`, `place_of`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
from psycopg import conninfo, errors

from treadle.errors import AgentError

_SAID_MAX = 300
_POOL_IS_FULL = ("query_wait_timeout", "server login has been failing", "server_login_retry")
"""Messages of a pgbouncer that accepts connections, and has none to the server for them."""


def place_of(url: str) -> str:
    """A URL without its password and its options: what errors call the database.

    Raises AgentError(invalid) for what is no URL of PostgreSQL.
    """
    try:
        parts = {
            name: str(value)
            for name, value in conninfo.conninfo_to_dict(url).items()
            if value is not None
        }
    except psycopg.ProgrammingError:
        reason = (
            "the URL of the journal is none of PostgreSQL: use "
            "'postgresql://USER@HOST:5432/DATABASE'"
        )
        raise AgentError("invalid", reason) from None  # libpq quotes what it does not understand
    if "@" in url.partition("://")[2].partition("?")[0].partition("/")[2] or re.search(
        r"[^\d,]", parts.get("port", "")
    ):
        raise AgentError(
            "invalid",
            (
                "the URL of the journal is none of PostgreSQL: in its password, `/` is written "
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
    """Return the secrets of a URL, which no message may show."""
    parts = conninfo.conninfo_to_dict(url)
    return tuple(
        str(value) for name in ("password", "sslpassword", "passfile") if (value := parts.get(name))
    )


def unusable(error: psycopg.Error, place: str, *, secrets: tuple[str, ...] = ()) -> AgentError:
    """Why a database cannot be opened as a journal."""
    said = _said(error, secrets)
    lowered = said.lower()
    state = error.sqlstate
    if (
        state == "28P01"
        or "password authentication failed" in lowered
        or "no password supplied" in lowered
    ):
        text = (
            f"the server of {place!r} does not take this user and password: check both in the "
            "URL, or in PGPASSWORD or ~/.pgpass"
        )
    elif (
        state == "28000"
        or "no pg_hba.conf entry" in lowered
        or re.search(r'role ".*" does not exist', lowered)
    ):
        text = (
            f"the server of {place!r} does not let this user in ({said}): check the user, and "
            "what pg_hba.conf allows"
        )
    elif state == "3D000" or re.search(r'database ".*" does not exist', lowered):
        text = (
            f"there is no database {place!r}: make it with `createdb`, or check its name in the URL"
        )
    elif isinstance(error, (errors.InsufficientPrivilege, errors.InvalidSchemaName)):
        text = (
            f"this user may not use or make the tables of a journal in {place!r} ({said}): "
            "`grant create on database` to it, or let its owner open it once"
        )
    elif isinstance(error, errors.ReadOnlySqlTransaction):
        text = (
            f"{place!r} takes no writes (a standby, or read only) and holds no journal yet: give "
            "the URL of the primary server"
        )
    elif refused := re.search(r"unsupported startup parameter: (\S+)", said):
        text = (
            f"the pooler of {place!r} refuses {refused[1]!r}: take it out of the URL, or name it "
            "in its ignore_startup_parameters"
        )
    elif state is None and re.search(r"ssl was required|certificate", lowered):
        text = (
            f"no encrypted connection to {place!r} comes to stand ({said}): turn on `ssl` there, "
            "or see to sslmode and sslrootcert in the URL"
        )
    elif state is None and isinstance(error, psycopg.OperationalError) and not _is_crowded(lowered):
        text = (
            f"no PostgreSQL answers at {place!r} ({said}): see that the server runs there, and "
            "that host and port are right"
        )
    else:
        return AgentError(
            "agent", translated(error, place, "it is not used", secrets=secrets).message
        )
    return AgentError("invalid", text)


def _is_crowded(said: str) -> bool:
    """Return True if the server is there, and has no free connection."""
    return (
        "too many" in said
        or "max_client_conn" in said
        or any(words in said for words in _POOL_IS_FULL)
    )


def translated(
    error: psycopg.Error,
    place: str,
    done: str = "nothing was appended",
    *,
    secrets: tuple[str, ...] = (),
) -> AgentError:
    """`done`: what is certain of the work that failed."""
    said = _said(error, secrets)
    match error:
        case psycopg.OperationalError() if any(words in said for words in _POOL_IS_FULL):
            text = (
                f"the pooler of {place!r} has no connection to its server ({said}): {done}. See "
                "that the server is up and its pool large enough, then go on"
            )
        case errors.DiskFull() | errors.OutOfMemory():
            text = (
                f"the server of {place!r} has no space left ({said}): {done}. Free some space "
                "there, then go on"
            )
        case errors.TooManyConnections() | errors.ConfigurationLimitExceeded():
            text = (
                f"the server of {place!r} takes no more connections: {done}. Raise its "
                "max_connections, put pgbouncer before it, or run fewer processes"
            )
        case psycopg.OperationalError() if "max_client_conn" in said:
            text = (
                f"the pooler of {place!r} takes no more connections: {done}. Raise its "
                "max_client_conn, or run fewer processes"
            )
        case errors.ReadOnlySqlTransaction():
            text = (
                f"{place!r} takes no writes (a standby, or read only): {done}. Give the URL of "
                "the primary server"
            )
        case errors.AdminShutdown() | errors.CrashShutdown() | errors.CannotConnectNow():
            text = (
                f"the server of {place!r} is stopping or starting ({said}): {done}. Wait until "
                "it is up, then go on"
            )
        case errors.QueryCanceled() | errors.LockNotAvailable():
            text = (
                f"the server of {place!r} ended a statement that took too long ({said}): {done}. "
                "See what holds it up, then try again"
            )
        case errors.SerializationFailure() | errors.DeadlockDetected():
            text = (
                f"others changed the same rows of {place!r} at the same moment, again and again "
                f"({said}): {done}. Try again"
            )
        case errors.InsufficientPrivilege():
            text = (
                f"this user may not do that in {place!r} ({said}): {done}. Give it the rights of "
                "the journal's owner"
            )
        case (
            errors.UndefinedTable()
            | errors.InvalidSchemaName()
            | errors.UndefinedColumn()
            | errors.UndefinedFunction()
        ):
            text = (
                f"tables of the journal are missing in {place!r} ({said}): {done}. Restore them, "
                "or use another database"
            )
        case errors.IntegrityError() | psycopg.DataError() | errors.ProgramLimitExceeded():
            text = f"the journal {place!r} refuses it ({said}): {done}"
        case psycopg.OperationalError():
            text = (
                f"the connection to {place!r} failed ({said}): {done}. See that the server is up "
                "and can be reached, then go on"
            )
        case _:
            text = f"the journal {place!r} failed ({said}): {done}"
    return AgentError("agent", text)


def is_lost(error: BaseException, db: psycopg.Connection | None) -> bool:
    """Return True if the connection ended, so that a new one may help; False if the server only
    refused a statement.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if db is None or db.closed or db.broken:
        return True
    return isinstance(
        error,
        (
            errors.AdminShutdown,
            errors.CrashShutdown,
            errors.CannotConnectNow,
            errors.IdleSessionTimeout,
        ),
    )


def _said(error: psycopg.Error, secrets: tuple[str, ...]) -> str:
    told = error.diag.message_primary or " ".join(_lines(str(error))) or type(error).__name__
    for secret in secrets:
        told = told.replace(secret, "***")
    return told[:_SAID_MAX]


def _lines(text: str) -> Iterator[str]:
    """Without repetitions: one line for each address that was tried, and libpq's hints."""
    seen: set[str] = set()
    for line in (line.strip() for line in text.splitlines()):
        if line and line not in seen and not line.startswith("Is the server running"):
            seen.add(line)
            yield line
