"""The stores that the tests of recovery run over: memory, SQLite, PostgreSQL and two shards, one
after the other. Entry: `store`, `new_journal`,
`open_again`.

    from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures

    pytestmark = pytest.mark.usefixtures("store")

Every `open_runtime()` of such a module, and every `new_journal()`, has a journal of that store.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import pytest

from tests.service.database.postgres import PostgresServer, postgres_server
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "JournalUrls",
    "emptied_journal",
    "journal_urls",
    "new_journal",
    "open_again",
    "postgres_server",
    "postgres_template",
    "sharded",
    "store",
]

STORES = ("memory", "sqlite", "postgres", "shards")
OTHERS = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)
"""Those who are connected to a database."""
LOOKS_MAX = 5
"""How often a database is looked at, before one to which somebody stays connected is dropped."""
OPEN_MOST = 8
"""Journals of a test: a server takes so many clients, and no more."""
_making: list[Callable[[], Journal]] = []
"""That of the test that runs."""
_opened: list[Journal] = []
_urls: dict[int, str] = {}
"""By the identity of a journal on disk."""
_databases: dict[str, list[tuple[Emptied, str]]] = {}
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


async def emptied_journal() -> Journal:
    """The newest journal of the test, without its runs, if all of them are finished; otherwise a
    new one. Over PostgreSQL, opening one costs as much as ten runs.
    """
    if _opened:
        with suppress(AgentError):  # one is not finished, or the test has closed the journal
            run_ids = [info.run_id for info in await _opened[-1].runs()]
            if (await _opened[-1].remove(run_ids)).runs == (*run_ids,):
                return _opened[-1]
    await close_old_journals()
    return new_journal()


async def close_old_journals() -> None:
    """For a test that opens one after the other: all but the newest."""
    while _making and len(_opened) > OPEN_MOST:
        await _close(_opened.pop(0))


async def _close(journal: Journal) -> None:
    await journal.aclose()
    url = _urls.pop(id(journal), "")
    if url not in _urls.values():
        for emptied, name in _databases.pop(url, ()):
            emptied.give_back(name)


class Emptied:
    """Databases with an empty journal in them, made once and used for many tests: emptying one
    costs the server a fiftieth of making one and dropping it.
    """

    def __init__(self, server: PostgresServer, *, shard: bool = False) -> None:
        """`shard`: they also have the tables of a shard, and belong to no journal."""
        from treadle.journal.postgres.schema import make_ready
        from treadle.journal.shards.placement import Generation
        from treadle.journal.shards.tables import ShardRecord, write_record

        self._server, self.template = server, f"t{uuid4().hex}"
        self._given_back: dict[str, int] = {}
        """Names, with the number of looks that are left."""
        self._connections: dict[str, psycopg.Connection] = {}
        """To databases that were emptied: a new one costs the server more than emptying."""
        server.sql(f"CREATE DATABASE {self.template}")
        with self._connected(self.template) as connection:
            make_ready(connection, self.template)
            if shard:
                nobody = (Generation(version=0, names=()),)
                write_record(connection, ShardRecord(name="", journal="", generations=nobody))
                connection.execute("DELETE FROM treadle.shard")
            tables = _names(connection, "tablename", "pg_tables")
            self._lasting = [
                name for name in tables if _rows(connection, f"SELECT 1 FROM {name} LIMIT 1")
            ]
            self._emptying = ";".join(
                (
                    "SET session_replication_role = replica",
                    *(f"DELETE FROM {name}" for name in tables if name not in self._lasting),
                    *(
                        f"ALTER SEQUENCE {name} RESTART"
                        for name in _names(connection, "sequencename", "pg_sequences")
                    ),
                )
            )
            self._made = self._looks(connection)

    def take(self) -> str:
        """Return the name of an empty one. Those of earlier tests are looked at only now, when the
        server has noticed the end of their connections.
        """
        for name in [*self._given_back]:
            if not self._is_left(name):
                continue
            del self._given_back[name]
            if self._is_emptied(name):
                return name
            self._server.sql(f"DROP DATABASE {name} WITH (FORCE)")
        name = f"t{uuid4().hex}"
        self._server.sql(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        return name

    def give_back(self, name: str) -> None:
        self._given_back[name] = LOOKS_MAX

    def _is_left(self, name: str) -> bool:
        """Whether nobody else is connected to it, or somebody has been for too long."""
        import psycopg

        self._given_back[name] -= 1
        try:
            return not _rows(self._connection(name), OTHERS) or self._given_back[name] <= 0
        except psycopg.OperationalError:  # a test has ended all connections
            self._connections.pop(name).close()
            return False

    def _is_emptied(self, name: str) -> bool:
        """Empty it, unless a test has left a connection or other tables."""
        connection = self._connection(name)
        if not _rows(connection, OTHERS) and self._looks(connection) == self._made:
            connection.execute(self._emptying.encode())
            return True
        self._connections.pop(name).close()
        return False

    def _connection(self, name: str) -> psycopg.Connection:
        if name not in self._connections:
            self._connections[name] = self._connected(name)
        return self._connections[name]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _connected(self, database: str) -> psycopg.Connection:
        import psycopg

        return psycopg.connect(self._server.url(database), autocommit=True)

    def _looks(self, connection: psycopg.Connection) -> list[tuple[object, ...]]:
        """The definitions (the system's own have smaller numbers), and the rows that each journal
        has from the beginning.
        """
        parts = [
            "SELECT concat(relname, relkind, relnatts, relacl) FROM pg_class WHERE oid >= 16384",
            "SELECT concat(tgrelid::regclass, tgname, tgenabled) FROM pg_trigger",
            "SELECT concat(datacl, setconfig) FROM pg_database"
            " LEFT JOIN pg_db_role_setting ON setdatabase = pg_database.oid"
            " WHERE datname = current_database()",
            "SELECT proname::text || prosrc FROM pg_proc WHERE oid >= 16384",
            *(f"SELECT row::text FROM {name} row" for name in self._lasting),
        ]
        return sorted(_rows(connection, " UNION ALL ".join(parts)))


def _names(connection: psycopg.Connection, column: str, source: str) -> list[str]:
    query = f"SELECT 'treadle.' || {column} FROM {source} WHERE schemaname = 'treadle'"
    return [str(row[0]) for row in _rows(connection, query)]


def _rows(connection: psycopg.Connection, statement: str) -> list[tuple[object, ...]]:
    return connection.execute(statement.encode()).fetchall()


_emptied: dict[str, Emptied] = {}
"""By the name of the store."""


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer, pytestconfig: pytest.Config) -> str:
    """The name of a database with an empty journal, which others are copied from."""
    return _emptied_for("postgres", postgres_server, pytestconfig).template


def _emptied_for(store: str, server: PostgresServer, config: pytest.Config) -> Emptied:
    if store not in _emptied:
        _emptied[store] = Emptied(server, shard=store == "shards")
        config.add_cleanup(_emptied[store].close)
    return _emptied[store]


JournalUrls: TypeAlias = Callable[..., str]
"""Of a name: the URL of its journal; `shard=True` for a database that will be a shard."""


@pytest.fixture
def journal_urls(
    postgres_server: PostgresServer, pytestconfig: pytest.Config
) -> Iterator[JournalUrls]:
    """A database with an empty journal for each name that is asked for, always the same one."""
    taken: dict[object, tuple[Emptied, str]] = {}

    def url(what: object, *, shard: bool = False) -> str:
        if what not in taken:
            store = "shards" if shard else "postgres"
            emptied = _emptied_for(store, postgres_server, pytestconfig)
            taken[what] = emptied, emptied.take()
        return postgres_server.url(taken[what][1])

    yield url
    for emptied, name in taken.values():
        emptied.give_back(name)


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """The name of the store."""
    folder = tmp_path_factory.mktemp("store")

    taken: list[tuple[Emptied, str]] = []
    emptied: Emptied | None = None
    if request.param in ("postgres", "shards"):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        emptied = _emptied_for(request.param, server, request.config)

    def database() -> str:
        assert emptied is not None
        taken.append((emptied, emptied.take()))
        return server.url(taken[-1][1])

    def url() -> str:
        if request.param == "sqlite":
            return f"sqlite:///{folder}/{uuid4().hex}.db"
        if request.param == "postgres":
            return database()
        return sharded(folder / f"{uuid4().hex}.yaml", {"a": database(), "b": database()})

    def make() -> Journal:
        if request.param == "memory":
            _opened.append(MemoryJournal())
            return _opened[-1]
        taken.clear()
        made = url()
        _databases[made] = [*taken]
        _opened.append(open_journal(made))
        _urls[id(_opened[-1])] = made
        return _opened[-1]

    _making.append(make)
    yield request.param
    _making.pop()
    while _opened:
        await _close(_opened.pop())
