"""Database URLs, and connections to them.

See also: the schema (tables.py, migrating.py), errors (failures.py). Entry point: `connected`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from treadle._internal.write_ahead import use_write_ahead_log
from treadle.errors import AgentError

FORMS = "sqlite:///FILE, sqlite:// (in memory) or postgresql://NAME@HOST/DATABASE[?schema=NAME]"
INSTALL_POSTGRES = "pip install 'treadle[postgres]'"
THREADS: Final = 8
WAIT_S: Final = 5
"""Timeout in seconds for a connection, and for an earlier writer."""
STATEMENT_S: Final = 10
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Engines:
    """Pools of connections, one for each way to begin a transaction."""

    writing: Engine
    """Engine for writing transactions of one user."""
    reading: Engine
    strict: Engine
    """Engine for transactions without an owner, at an isolation level that keeps their reads valid
    until they commit.
    """
    readers: int
    """Number of threads that may read concurrently, or read and write if `writers` is None."""
    writers: int | None
    """Number of threads that may write concurrently."""

    @property
    def is_postgres(self) -> bool:
        return self.writing.dialect.name == "postgresql"


def connected(url: str) -> Engines:
    """Create engines without connecting. Creates the folder of an SQLite file.

    Raises AgentError(invalid) for an invalid URL or a missing library.
    """
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as e:
        raise AgentError("invalid", f"the database URL is invalid: use {FORMS}") from e
    match address.drivername:
        case "sqlite":
            return _sqlite(address)
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return _postgres(address.set(drivername="postgresql+psycopg"))
        case _:
            raise AgentError("invalid", f"this kind of database is not supported: use {FORMS}")


# ---------------------------------------------------------------- SQLite


def _sqlite(address: URL) -> Engines:
    if address.host or address.username or address.query:
        raise AgentError(
            "invalid",
            (
                "an SQLite URL has three slashes before a relative path, four before an absolute "
                "one, and nothing after it"
            ),
        )
    in_memory = address.database in (None, "", ":memory:")
    if not in_memory:
        _make_file(Path(str(address.database)))
    size = 1 if in_memory else THREADS
    connect: dict[str, Any] = {
        "check_same_thread": False,
        "isolation_level": None,
        "timeout": WAIT_S,
    }
    engine = create_engine(
        address,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        pool_timeout=60,
        hide_parameters=True,
        connect_args=connect,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    reading = engine.execution_options(treadle_reads=True)
    # SQLite allows one writer at a time. A queue here serves writers in order; SQLite itself polls
    # with growing delays.
    return Engines(engine, reading, engine, readers=size, writers=None if in_memory else 1)


def _make_file(path: Path) -> None:
    """Create the file with private permissions from the start, because it contains all users' tasks
    and password hashes.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
    except PermissionError:
        if not path.is_file():
            raise AgentError(
                "network",
                (
                    "the database file cannot be created: its folder is not writable: change its "
                    "permissions, or give another --database"
                ),
            ) from None
    except OSError as e:
        raise AgentError(
            "network",
            (
                f"the database file cannot be opened: {e.strerror}: check its folder, or give "
                "another --database"
            ),
        ) from e


def _prepare(connection: Any, _record: object) -> None:
    use_write_ahead_log(connection, wait_s=WAIT_S)
    for pragma in (
        "foreign_keys=ON",
        "synchronous=NORMAL",
        "secure_delete=ON",
        "temp_store=MEMORY",
        "trusted_schema=OFF",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    """Begin a transaction. A writer takes the lock immediately, because taking it after a read can
    fail. A reader takes none.
    """
    connection.exec_driver_sql(
        "BEGIN" if connection.get_execution_options().get("treadle_reads") else "BEGIN IMMEDIATE"
    )


def take_turns(connection: Connection) -> None:
    """Begin a writing transaction in an application's session. Python's driver begins one only with
    the first change, when earlier reads may be outdated.
    """
    if not cast("Any", connection.connection.dbapi_connection).in_transaction:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


# ---------------------------------------------------------------- PostgreSQL


def _postgres(address: URL) -> Engines:
    if find_spec("psycopg") is None:
        raise AgentError("invalid", f"a PostgreSQL database needs psycopg: {INSTALL_POSTGRES}")
    if not address.database:
        raise AgentError("invalid", f"the database URL does not name a database: use {FORMS}")
    schema = _schema_of(address)
    engine = create_engine(
        address.difference_update_query(["schema"]),
        pool_size=THREADS,
        max_overflow=0,
        pool_timeout=2 * STATEMENT_S,
        pool_recycle=1800,
        hide_parameters=True,
        connect_args={"connect_timeout": WAIT_S},
    )
    event.listen(engine, "connect", _limit)
    event.listen(engine, "handle_error", _notice_end)
    if schema is not None:
        # Must be the first listener: SQLAlchemy's own reads the default schema.
        event.listen(engine, "connect", partial(_use_schema, schema), insert=True)
    reading = engine.execution_options(postgresql_readonly=True)
    return Engines(
        engine,
        reading,
        engine.execution_options(isolation_level="SERIALIZABLE"),
        readers=THREADS,
        writers=None,
    )


def _notice_end(context: ExceptionContext) -> None:
    """Replace a connection whose end psycopg has noticed before libpq: the error is not the
    server's.
    """
    error = context.original_exception
    if (
        context.connection is not None
        and isinstance(context.sqlalchemy_exception, OperationalError)
        and getattr(error, "sqlstate", None) is None
    ):
        context.is_disconnect = True


def _schema_of(address: URL) -> str | None:
    """Return the schema for our tables, so that they can share a database with an application's
    own.

    Raises AgentError(invalid).
    """
    schema = address.query.get("schema")
    if schema is not None and (not isinstance(schema, str) or not _SCHEMA.fullmatch(schema)):
        raise AgentError(
            "invalid",
            (
                f"schema={schema!r} in the database URL is not a valid name: use lower-case "
                "letters, digits and _, like ?schema=treadle"
            ),
        )
    return schema


def _use_schema(schema: str, connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        if cursor.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
            cursor.execute(
                f"DO $$ BEGIN CREATE SCHEMA {schema}; EXCEPTION WHEN duplicate_schema OR "
                "unique_violation THEN NULL; END $$"
            )
        cursor.execute(f"SET search_path = {schema}")
    connection.commit()


def _limit(connection: Any, _record: object) -> None:
    """Set timeouts with a statement, because poolers refuse them as connection options."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SET statement_timeout = '{STATEMENT_S}s'; SET idle_in_transaction_session_timeout "
            "= '30s'; SET timezone = 'UTC'"
        )
    connection.commit()
