"""Checks of a journal's server for `treadle doctor`. Entry point: `checked`.

Nothing changes except for one commit that leaves nothing.
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
"""Written to the log of the server and nowhere else, and committed as an append is."""

_MAY_WRITE: Final[LiteralString] = """
select count(*) from pg_class where relnamespace = 'treadle'::regnamespace and relkind = 'r' and relname <> 'versions'
and not (has_table_privilege(oid, 'insert') and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete'))
"""
"""Number of tables that this user cannot change."""


class Checkup(NamedTuple):
    place: str
    """Without a password."""
    server: str
    """Its version."""
    tables: int
    """Their version; 0: there are none yet."""
    known: int
    """The version that this Treadle makes."""
    commit_ms: float | None
    """Median time of a commit; None if this user cannot write."""
    round_trip_ms: float
    is_pooled: bool
    """Something like pgbouncer stands between: nothing is heard of others, and processes poll."""
    clock_s: float
    """Seconds by which the server's clock is ahead of this machine's."""
    may_write: bool
    """True if there are tables and this user can change them."""


def checked(url: str) -> Checkup:
    """Blocks. Raises AgentError(invalid) where no server answers, or does not let one in."""
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
    """Return how far its clock is ahead, and the time of the query."""
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
