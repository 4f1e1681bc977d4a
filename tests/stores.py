"""The stores that the tests of recovery run over: memory, SQLite, PostgreSQL and two shards, one
after the other. Entry: `store`, `new_journal`,
`open_again`.

    from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures

    pytestmark = pytest.mark.usefixtures("store")

Every `open_runtime()` of such a module, and every `new_journal()`, has a journal of that store.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from tests.service.database.postgres import PostgresServer, postgres_server
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal

__all__ = [
    "new_journal",
    "open_again",
    "postgres_server",
    "postgres_template",
    "sharded",
    "store",
]

STORES = ("memory", "sqlite", "postgres", "shards")
OPEN_MOST = 8
"""Journals of a test: a server takes so many clients, and no more."""
_making: list[Callable[[], Journal]] = []
"""That of the test that runs."""
_opened: list[Journal] = []
_urls: dict[int, str] = {}
"""By the identity of a journal on disk."""
_databases: dict[str, list[str]] = {}
"""PostgreSQL's, by the URL of the journal in them."""


def new_journal() -> Journal:
    """An empty journal of the store that the test runs over; in memory where it names none.

    Closed when the test is over.
    """
    return _making[-1]() if _making else MemoryJournal()


def open_again(journal: Journal) -> Journal:
    """Open what `new_journal` made a second time, as another process would; in memory, itself."""
    if id(journal) not in _urls:
        return journal
    _opened.append(open_journal(_urls[id(journal)]))
    _urls[id(_opened[-1])] = _urls[id(journal)]
    return _opened[-1]


def sharded(
    file: Path, urls: Mapping[str, str], *, version: int = 1, draining: Collection[str] = ()
) -> str:
    """The URL of a journal over these databases, whose list is written there."""
    lines = [f"version: {version}", "shards:"]
    lines += [f"  {name}: {json.dumps(url)}" for name, url in urls.items()]
    file.write_text("\n".join([*lines, f"draining: [{', '.join(draining)}]", ""]))
    file.chmod(0o600)
    return f"postgresql+shards:///{file}"


async def close_old_journals() -> None:
    """For a test that opens one after the other: all but the newest."""
    while _making and len(_opened) > OPEN_MOST:
        await _close(_opened.pop(0))


async def _close(journal: Journal) -> None:
    await journal.aclose()
    url = _urls.pop(id(journal), "")
    if url not in _urls.values():
        for name in _databases.pop(url, ()):
            _emptied[-1].give_back(name)


class Emptied:
    """Databases with an empty journal in them, made once and used for many tests: emptying one
    costs the server a sixth of making one and dropping it.
    """

    def __init__(self, server: PostgresServer) -> None:
        import psycopg

        from treadle.journal.postgres.schema import make_ready

        self._server, self._free, self.template = server, list[str](), f"t{uuid4().hex}"
        server.sql(f"CREATE DATABASE {self.template}")
        with psycopg.connect(server.url(self.template), autocommit=True) as connection:
            make_ready(connection, self.template)
        tables = self._names("tablename", "pg_tables")
        self._lasting = [
            name for name in tables if server.sql(f"SELECT 1 FROM {name} LIMIT 1", self.template)
        ]
        self._emptying = ";".join(
            (
                "SET session_replication_role = replica",
                *(f"DELETE FROM {name}" for name in tables if name not in self._lasting),
                *(
                    f"ALTER SEQUENCE {name} RESTART"
                    for name in self._names("sequencename", "pg_sequences")
                ),
            )
        )
        self._made = self._looks(self.template)

    def take(self) -> str:
        if self._free:
            return self._free.pop()
        name = f"t{uuid4().hex}"
        self._server.sql(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        return name

    def give_back(self, name: str) -> None:
        """Empty it for the next test; drop it if a test has left a connection or other tables."""
        ended = f"SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '{name}'"
        if self._server.sql(ended) == [(True,)] and self._looks(name) == self._made:
            self._server.sql(self._emptying, name)
            self._free.append(name)
        else:
            self._server.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def _names(self, column: str, source: str) -> list[str]:
        query = f"SELECT 'treadle.' || {column} FROM {source} WHERE schemaname = 'treadle'"
        return [str(row[0]) for row in self._server.sql(query, self.template)]

    def _looks(self, database: str) -> list[tuple[object, ...]]:
        """The definitions, and the rows that each journal has from the beginning."""
        parts = [
            "SELECT relname::text || relkind::text || relnatts FROM pg_class"
            " WHERE relnamespace = 'treadle'::regnamespace",
            "SELECT proname::text || prosrc FROM pg_proc WHERE pronamespace = 'treadle'::regnamespace",
            *(f"SELECT row::text FROM {name} row" for name in self._lasting),
        ]
        return sorted(self._server.sql(" UNION ALL ".join(parts), database))


_emptied: list[Emptied] = []


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a database with an empty journal, which others are copied from."""
    if not _emptied:
        _emptied.append(Emptied(postgres_server))
    return _emptied[-1].template


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """The name of the store."""
    folder = tmp_path_factory.mktemp("store")

    def sqlite(names: list[str]) -> str:
        return f"sqlite:///{folder}/{uuid4().hex}.db"

    def postgres(names: list[str]) -> str:
        names.append(_emptied[-1].take())
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return server.url(names[-1])

    def shards(names: list[str]) -> str:
        return sharded(folder / f"{uuid4().hex}.yaml", {"a": postgres(names), "b": postgres(names)})

    def make() -> Journal:
        if request.param == "memory":
            _opened.append(MemoryJournal())
            return _opened[-1]
        names: list[str] = []
        url = {"sqlite": sqlite, "postgres": postgres, "shards": shards}[request.param](names)
        _databases[url] = names
        _opened.append(open_journal(url))
        _urls[id(_opened[-1])] = url
        return _opened[-1]

    if request.param in ("postgres", "shards"):
        request.getfixturevalue("postgres_template")
    _making.append(make)
    yield request.param
    _making.pop()
    while _opened:
        await _close(_opened.pop())
