"""The stores that the tests of recovery run over: memory, SQLite, PostgreSQL and two shards, one
after the other. Entry: `store`, `new_journal`,
`open_again`.

    from tests.stores import postgres_server, postgres_template, store  # noqa: F401  fixtures

    pytestmark = pytest.mark.usefixtures("store")

Every `open_runtime()` of such a module, and every `new_journal()`, has a journal of that store.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

import pytest

from tests.reused_connections import ReusedConnections
from tests.service.database.postgres import PostgresServer, postgres_server
from treadle.errors import AgentError
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.sqlite import schema

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
    "reuse_connections",
    "sharded",
    "store",
]

STORES = ("memory", "sqlite", "postgres", "shards")
OTHERS = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND pid <> ALL(%s) AND backend_type = 'client backend'"
)
"""Those who are connected to a database, without the connections that are kept for a test."""
LOOKS_MAX = 5
"""How often a database is looked at, before one to which somebody stays connected is dropped."""
OPEN_MOST = 8
"""Journals of a test: a server takes so many clients, and no more."""
_making: list[Callable[[], Journal]] = []
"""That of the test that runs."""
_opened: list[Journal] = []
_urls: dict[int, str] = {}
"""By the identity of a journal on disk."""
_reused = ReusedConnections()
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


def reuse_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let journals of this process use connections of earlier tests, until the test is over."""
    monkeypatch.setattr("psycopg.connect", _reused.connect)


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
            sequences = _rows(
                connection,
                "SELECT concat('treadle.', sequencename), start_value FROM pg_sequences"
                " WHERE schemaname = 'treadle'",
            )
            # restarting a sequence would give it a new file, and search the server's buffers
            self._emptying = "WITH {} SELECT {}".format(
                ", ".join(
                    f"t{number} AS (DELETE FROM {name})"
                    for number, name in enumerate(tables)
                    if name not in self._lasting
                ),
                ", ".join(f"setval('{name}', {start}, false)" for name, start in sequences),
            )
            self._made = self._looks(connection)

    def take(self) -> str:
        """Return the name of an empty one. Those of earlier tests are looked at only now, when the
        server has noticed the end of their connections.
        """
        for name in [*self._given_back]:
            self._given_back[name] -= 1
            is_used = self._is_used(name)
            if is_used and self._given_back[name] > 0:
                continue
            del self._given_back[name]
            if not is_used and self._is_emptied(name):
                return name
            if name in self._connections:
                self._connections.pop(name).close()
            self._server.sql(f"DROP DATABASE {name} WITH (FORCE)")
        name = f"t{uuid4().hex}"
        self._server.sql(f"CREATE DATABASE {name} TEMPLATE {self.template}")
        return name

    def give_back(self, name: str) -> None:
        self._given_back[name] = LOOKS_MAX

    def _is_used(self, name: str) -> bool:
        """Somebody else is connected to it."""
        import psycopg

        try:
            others = self._connection(name).execute(OTHERS.encode(), (_reused.processes(),))
            return others.fetchone() is not None
        except psycopg.OperationalError:  # a test has ended all connections
            self._connections.pop(name).close()
            return True

    def _is_emptied(self, name: str) -> bool:
        """Empty it, unless a test has left other tables."""
        connection = self._connection(name)
        if self._looks(connection) != self._made:
            return False
        connection.execute(self._emptying.encode(), prepare=True)
        return True

    def _connection(self, name: str) -> psycopg.Connection:
        if name not in self._connections:
            self._connections[name] = self._connected(name)
            self._connections[name].execute("SET session_replication_role = replica")
        return self._connections[name]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _connected(self, database: str) -> psycopg.Connection:
        import psycopg

        return psycopg.Connection.connect(self._server.url(database), autocommit=True)

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
        config.add_cleanup(_reused.close)
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


_files: list[Path] = []
"""The one that others are copied from."""


def _empty_file(folders: pytest.TempPathFactory, path: Path) -> str:
    """The URL of an empty journal in SQLite. Making its tables costs six times as much as copying
    them.
    """
    if not _files:
        _files.append(folders.mktemp("empty") / "journal.db")
        _files[0].touch()
        connection = schema.connect(_files[0], busy_timeout_s=5)
        schema.make_ready(connection, _files[0], busy_timeout_s=5)
        connection.close()
    shutil.copyfile(_files[0], path)
    path.chmod(0o600)
    return f"sqlite:///{path}"


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[str]:
    """The name of the store."""
    taken: list[tuple[Emptied, str]] = []
    emptied: Emptied | None = None
    if request.param in ("postgres", "shards"):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        emptied = _emptied_for(request.param, server, request.config)
        reuse_connections(monkeypatch)

    def database() -> str:
        assert emptied is not None
        taken.append((emptied, emptied.take()))
        return server.url(taken[-1][1])

    def url() -> str:
        if request.param == "postgres":
            return database()
        folder = Path(tempfile.mkdtemp(dir=tmp_path_factory.getbasetemp()))
        if request.param == "sqlite":
            return _empty_file(tmp_path_factory, folder / "journal.db")
        return sharded(folder / "shards.yaml", {"a": database(), "b": database()})

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
