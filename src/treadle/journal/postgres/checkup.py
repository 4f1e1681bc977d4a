"""Checks of a journal's server for `treadle doctor`. Entry point: `checked`.

Changes nothing, except for a commit without visible effect.
"""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime
from typing import Final, LiteralString, NamedTuple

import psycopg

from treadle.journal.postgres.connections import PostgresServer, is_pooled
from treadle.journal.postgres.schema import VERSION

_COMMITS: Final = 5
_COMMIT: Final[LiteralString] = "select pg_logical_emit_message(true, 'treadle', 'doctor')"
"""Statement that writes only to the server's log, and is committed as an append is."""

_MAY_WRITE: Final[LiteralString] = """
select count(*) from pg_class where relnamespace = 'treadle'::regnamespace and relkind = 'r' and relname not in ('versions', 'notify_key', 'seal_keys')
and not (has_table_privilege(oid, 'insert') and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
"""
"""Query for the number of tables that this user cannot change."""
_MAY_NOTIFY: Final[LiteralString] = """
select count(*) from pg_class where oid = to_regclass('treadle.notify_key') and has_table_privilege(oid, 'select')
"""
_ALL_CONNECT: Final[LiteralString] = (
    "select has_database_privilege('public', current_database(), 'connect')::int"
)


class Checkup(NamedTuple):
    place: str
    """Address of the server, without a password."""
    server: str
    """Version of the server."""
    tables: int
    """Version of the tables; 0: there are none yet."""
    known: int
    """Version of the tables that this Treadle creates."""
    commit_ms: float | None
    """Median time of a commit; None if this user cannot write."""
    round_trip_ms: float
    is_pooled: bool
    """True if a pooler such as pgbouncer is in between: notifications do not arrive, so processes
    poll.
    """
    clock_s: float
    """Seconds by which the server's clock is ahead of this machine's."""
    may_write: bool
    """True if this user can change the tables, or if there are none."""
    may_notify: bool
    """True if this user can read the key of notifications, or if there are no tables."""
    all_connect: bool
    """True if every role of the server may connect to the database, PostgreSQL's default."""


def checked(url: str) -> Checkup:
    """Check the server. Blocks. Raises AgentError(invalid) if no server answers or it refuses the
    user.
    """
    server = PostgresServer(url)
    try:
        with server.connect() as db, server.silence.over(db):
            tables = 0
            if db.execute("select to_regclass('treadle.versions')").fetchone() != (None,):
                tables = _number(db, "select coalesce(max(version), 0) from treadle.versions")
            ahead, trip_s = _clock(db)
            may_write = tables == 0 or _number(db, _MAY_WRITE) == 0
            return Checkup(
                server.place,
                _version(db),
                tables,
                VERSION,
                _commit_ms(db),
                trip_s * 1000,
                is_pooled(db),
                ahead,
                may_write,
                tables == 0 or _number(db, _MAY_NOTIFY) == 1,
                _number(db, _ALL_CONNECT) == 1,
            )
    except psycopg.Error as e:
        raise server.unusable(e) from e


def _version(db: psycopg.Connection) -> str:
    number = db.info.server_version
    return f"{number // 10000}.{number % 10000}"


def _number(db: psycopg.Connection, statement: LiteralString) -> int:
    row = db.execute(statement, prepare=False).fetchone()
    return 0 if row is None else int(row[0])


def _clock(db: psycopg.Connection) -> tuple[float, float]:
    """Return the clock difference (positive if the server is ahead) and the duration of the query,
    in seconds.
    """
    began = time.perf_counter()
    row = db.execute(
        "select extract(epoch from clock_timestamp())::float8", prepare=False
    ).fetchone()
    took = time.perf_counter() - began
    assert row is not None, "it has one row"
    return float(row[0]) - (datetime.now(UTC).timestamp() - took / 2), took


def _commit_ms(db: psycopg.Connection) -> float | None:
    took: list[float] = []
    try:
        for _ in range(_COMMITS):
            began = time.perf_counter()
            db.execute(_COMMIT, prepare=False)
            took.append(time.perf_counter() - began)
    except psycopg.errors.InsufficientPrivilege:
        return None
    return statistics.median(took) * 1000
