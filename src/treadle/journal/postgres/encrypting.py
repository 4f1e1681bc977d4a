"""Keys of a journal in PostgreSQL, and its encryption. Entry points: `opened_seal`, `encrypt`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString, TypeVar

import psycopg

from treadle.errors import AgentError
from treadle.journal.postgres.connections import PostgresServer
from treadle.journal.postgres.database import cursor_of
from treadle.journal.postgres.failures import unusable
from treadle.journal.postgres.schema import MIGRATING, make_ready
from treadle.journal.tables.database import Work
from treadle.journal.tables.encrypting import Encrypted, encrypt_all, is_sealed, seal_of
from treadle.journal.tables.sealing import Seal

T = TypeVar("T")

_TABLES: Final[LiteralString] = (
    "treadle.runs, treadle.entries, treadle.blobs, treadle.sessions, treadle.session_entries, "
    "treadle.said"
)


def opened_seal(db: psycopg.Connection, place: str, keys: Sequence[bytes]) -> Seal | None:
    """Return the keys of the journal, as `seal_of`. One query without keys."""
    try:
        if keys:
            return _transact(db, lambda cursor: seal_of(cursor, keys, place))
        if db.execute("select 1 from treadle.seal_keys limit 1").fetchone() is not None:
            raise is_sealed(place)
        return None
    except psycopg.Error as e:
        raise unusable(e, place) from e


def encrypt(url: str, keys: Sequence[bytes]) -> Encrypted:
    """Encrypt everything in the database with the first key, and remove what was there before.
    Blocks.

    A journal in plain text is converted in one transaction, and no process may use it. An encrypted
    one gets its new key in many, while others use it. Raises AgentError: busy if a process uses a
    journal in plain text, invalid as `encrypt_all`.
    """
    server = PostgresServer(url)
    try:
        with server.connect() as db:
            make_ready(db, server.place)
            if db.execute("select 1 from treadle.seal_keys limit 1").fetchone() is None:
                _refuse_others(db, server.place)
            done = encrypt_all(keys, server.place, lambda work: _transact(db, work))
            db.execute(f"vacuum full {_TABLES}" if done.was_plain else f"vacuum {_TABLES}")
            return done
    except psycopg.Error as e:
        raise server.unusable(e) from e


def _refuse_others(db: psycopg.Connection, place: str) -> None:
    living = db.execute(
        "select pid, host from treadle.workers where lease_until_us > treadle.now_us() limit 1"
    ).fetchone()
    if living is not None:
        raise AgentError(
            "busy",
            f"process {living[0]} on {living[1]} uses the journal {place!r}: end it, then try again",
        )


def _transact(db: psycopg.Connection, work: Work[T]) -> T:
    with db.transaction():
        db.execute("select pg_advisory_xact_lock(%s)", (MIGRATING,))
        # keys that a crash of the server takes back would leave texts that nobody can read
        db.execute(
            "set local search_path = treadle, pg_catalog; select set_config('synchronous_commit', "
            "'on', true) where current_setting('synchronous_commit') = 'off'"
        )
        return work(cursor_of(db))
