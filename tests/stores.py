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
from functools import cache
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
        await _opened.pop(0).aclose()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a database with an empty journal, which others are copied from."""
    return _template(postgres_server)


@cache
def _template(server: PostgresServer) -> str:
    """For all modules that import the fixture."""
    import psycopg

    from treadle.journal.postgres.schema import make_ready

    name = f"t{uuid4().hex}"
    server.sql(f"CREATE DATABASE {name}")
    with psycopg.connect(server.url(name), autocommit=True) as connection:
        make_ready(connection, name)
    return name


@pytest.fixture(params=STORES)
async def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """The name of the store."""
    databases: list[str] = []
    folder = tmp_path_factory.mktemp("store")

    def sqlite() -> str:
        return f"sqlite:///{folder}/{uuid4().hex}.db"

    def postgres() -> str:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        databases.append(f"t{uuid4().hex}")
        server.sql(
            f"CREATE DATABASE {databases[-1]} TEMPLATE {request.getfixturevalue('postgres_template')}"
        )
        return server.url(databases[-1])

    def shards() -> str:
        return sharded(folder / f"{uuid4().hex}.yaml", {"a": postgres(), "b": postgres()})

    def make() -> Journal:
        if request.param == "memory":
            _opened.append(MemoryJournal())
            return _opened[-1]
        url = {"sqlite": sqlite, "postgres": postgres, "shards": shards}[request.param]()
        _opened.append(open_journal(url))
        _urls[id(_opened[-1])] = url
        return _opened[-1]

    if request.param in ("postgres", "shards"):
        request.getfixturevalue("postgres_template")
    _making.append(make)
    yield request.param
    _making.pop()
    while _opened:
        await _opened.pop().aclose()
    _urls.clear()
    for name in databases:
        request.getfixturevalue("postgres_server").sql(f"DROP DATABASE {name} WITH (FORCE)")
