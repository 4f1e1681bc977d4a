"""psycopg cursor for the tables, and the parts that are specific to PostgreSQL. connections.py
opens connections. Entry points: `cursor_of`, `call_of`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors

from treadle.journal.postgres.words import VectorWords
from treadle.journal.session_names import NEW_SESSION
from treadle.journal.tables.database import Cursor, Dialect
from treadle.journal.tables.sealing import Seal

_ROWS_FIRST, _ROWS_MOST = 16, 512
"""Number of rows of a stream fetched at a time."""
_CALL_BYTES = 2000
"""Maximum length in bytes of an indexed call id; longer ones are only in the entry. An index row is
limited to 2,700 bytes.
"""
_numbers = count()
"""Numbers for cursor names, so that streams of one transaction have different ones."""


def try_hold(db: Cursor, what: str) -> bool:
    """Acquire a lock as `Dialect.hold` does, without waiting. False if another transaction holds
    it.
    """
    return db.execute(
        "select pg_try_advisory_xact_lock(hashtextextended(?, 0))", (_held(what),)
    ).get


def _held(what: str) -> str:
    return f"treadle {what!r}"


_LOCK_ALL = "lock table runs, entries, blobs, cuts, sessions, session_entries, said in access exclusive mode"
_SEALED = {
    "said": "false",
    "entries": "treadle.is_sealed(body)",
    "blobs": "treadle.is_sealed(body)",
    "session_entries": "treadle.is_sealed(body)",
    "runs": "treadle.is_sealed(summary) and left(parked, 7) = 'sealed:'",
    "sessions": f"title = '{NEW_SESSION}' or left(title, 7) = 'sealed:'",
}
"""Condition on the rows of an encrypted journal, by table."""
_ONLY_SEALED = (
    "delete from said",
    """create function treadle.is_sealed(value bytea) returns boolean language sql immutable
    parallel safe as $$ select substr(value, 1, 1) = '\\x01'::bytea $$""",
    *[
        f"alter table {table} add constraint {table}_sealed check ({condition})"
        for table, condition in _SEALED.items()
    ],
    # older versions refuse to open it
    "update versions set readable_by = version where version = (select max(version) from versions)",
)


class _Postgres:
    words = VectorWords()
    refused = errors.UniqueViolation
    together = 32
    lock_all = _LOCK_ALL
    only_sealed = _ONLY_SEALED
    now = "treadle.now_us()"
    skip_locked = " for update skip locked"
    next_change = "nextval('session_changes')"
    run_columns: Mapping[str, str] = {"timeline": "treadle.timeline()"}

    def now_us(self, db: Cursor) -> int:
        return db.execute(f"select {self.now}").get

    def call(self, call: str | bytes) -> object:
        return call_of(call)

    def hold(self, db: Cursor, what: str, *, shared: bool = False) -> None:
        lock = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        db.execute(f"select {lock}(hashtextextended(?, 0))", (_held(what),))


POSTGRES: Dialect = _Postgres()


def call_of(call: str | bytes | None) -> bytes | None:
    """Return a call's id as the index stores it. PostgreSQL's text cannot contain NUL, which models
    do put into ids; the index cannot contain long ids, in which gateways transport reasoning.
    """
    key = call.encode() if isinstance(call, str) else call
    return (
        key if key is None or len(key) <= _CALL_BYTES else b"sha256:" + hashlib.sha256(key).digest()
    )


class _Cursor:
    """Cursor that reads the rows of a statement immediately, and those of a stream on demand."""

    __slots__ = ("_cursor", "_db", "seal")

    dialect = POSTGRES

    def __init__(self, db: psycopg.Connection[tuple[Any, ...]], seal: Seal | None) -> None:
        self._db = db
        self.seal = seal
        self._cursor = db.cursor(binary=True)

    @property
    def get(self) -> Any:
        row = self._cursor.fetchone()
        return None if row is None else row[0]

    @property
    def changed(self) -> int:
        return self._cursor.rowcount

    def execute(self, statements: str, bindings: Sequence[object] | None = None, /) -> _Cursor:
        self._cursor.execute(_translated(statements), bindings)
        return self

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> _Cursor:
        self._cursor.executemany(_translated(statements), bindings)
        return self

    def stream(
        self, statement: str, bindings: Sequence[object] = (), /
    ) -> Iterator[tuple[Any, ...]]:
        """Stream rows. The end of the transaction closes the stream."""
        name = f"stream_{next(_numbers)}"
        rows, some = self._db.cursor(binary=True), _ROWS_FIRST
        rows.execute(_translated(f"declare {name} no scroll cursor for {statement}"), bindings)
        while found := rows.execute(f"fetch forward {some} from {name}".encode()).fetchall():
            yield from found
            if len(found) < some:
                return
            some = min(some * 2, _ROWS_MOST)

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._cursor.fetchone()

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._cursor)


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    """Replace the parameter markers with psycopg's. No statement contains a question mark inside a
    string.
    """
    return statement.replace("%", "%%").replace("?", "%s").encode()


def cursor_of(db: psycopg.Connection[tuple[Any, ...]], seal: Seal | None = None) -> Cursor:
    return _Cursor(db, seal)


if TYPE_CHECKING:
    _: type[Dialect] = _Postgres
