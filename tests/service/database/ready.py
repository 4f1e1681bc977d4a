"""Databases of the service with its tables and nothing in them, or furnished with rows of two people,
and empty journals: to copy one takes a tenth of the time of making it. Entry points: `ready_url`,
`ready_in_memory`, `ready_journal`, `ready_postgres_url`, `PLAIN`.
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Protocol, cast
from uuid import uuid4

import anyio
import pytest

from tests.service.database.people import furnished
from tests.service.database.postgres import PostgresServer
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.sqlite.schema import connect, make_ready
from treadle.service.database.database import Database
from treadle.service.database.engines import connected
from treadle.service.database.migrating import newest

PLAIN = "treadle_tests_plain"
"""A role that is no superuser."""


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="treadle-ready-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _file(*, with_people: bool = False) -> Path:
    if with_people:
        path = _folder() / "furnished.db"
        shutil.copy(_file(), path)
        _furnish(f"sqlite:///{path}")
        return path
    path = _folder() / "service.db"
    _make(f"sqlite:///{path}")
    return path


@cache
def _journal() -> Path:
    path = _folder() / "journal.db"
    path.touch(mode=0o600)
    connection = connect(path, busy_timeout_s=0)
    make_ready(connection, path, busy_timeout_s=0)
    connection.close()
    return path


def _make(url: str) -> None:
    engine = connected(url).writing
    newest(engine)
    engine.dispose()


def _furnish(url: str) -> None:
    async def furnish() -> None:
        async with Database.open(url) as database:
            await furnished(database)

    with ThreadPoolExecutor(1) as thread:  # has no event loop yet, as that of a test has
        thread.submit(anyio.run, furnish).result()


def ready_url(path: Path, *, with_people: bool = False) -> str:
    """URL of a SQLite database with the newest tables, or of the one that is there already."""
    if not path.exists():
        shutil.copy(_file(with_people=with_people), path)
    return f"sqlite:///{path}"


def ready_journal(folder: Path) -> Journal:
    """The journal `journal.db` of the folder, empty unless it is there already."""
    path = folder / "journal.db"
    if not path.exists():
        shutil.copy(_journal(), path)
    return open_journal(f"sqlite:///{path}")


def ready_in_memory(*, with_people: bool = False) -> Database:
    """An SQLite database in memory with the newest tables, which is not open yet."""
    database = Database.open("sqlite://")
    assert database._engines is not None
    connection = database._engines.writing.raw_connection()
    with closing(sqlite3.connect(_file(with_people=with_people))) as ready:
        ready.backup(cast("sqlite3.Connection", connection.driver_connection))
    connection.close()
    return database


class MakesUrl(Protocol):
    def __call__(self, role: str, *, with_people: bool = False) -> str: ...


@pytest.fixture(scope="session")
def postgres_ready(postgres_server: PostgresServer) -> Iterator[MakesUrl]:
    """By role, the name of a database whose tables the role owns: `postgres`, or a plain one."""
    ready: dict[tuple[str, bool], str] = {}

    def made(role: str, *, with_people: bool = False) -> str:
        if (found := ready.get((role, with_people))) is not None:
            return found
        empty = made(role) if with_people else None
        if role == PLAIN and empty is None:
            postgres_server.sql(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE")
        name = ready[role, with_people] = f"t{uuid4().hex}"
        template = f"TEMPLATE {empty}" if empty is not None else ""
        postgres_server.sql(f"CREATE DATABASE {name} {template} OWNER {role}")
        (_make if empty is None else _furnish)(postgres_server.url(name, user=role))
        return name

    yield made
    for name in ready.values():
        postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")
    if (PLAIN, False) in ready:
        postgres_server.sql(f"DROP ROLE {PLAIN}")


@pytest.fixture
def ready_postgres_url(
    postgres_server: PostgresServer, postgres_ready: MakesUrl
) -> Iterator[MakesUrl]:
    """By role, the URL of a database with the newest tables, gone afterwards."""
    names: list[str] = []

    def url(role: str, *, with_people: bool = False) -> str:
        names.append(f"t{uuid4().hex}")
        template = postgres_ready(role, with_people=with_people)
        postgres_server.sql(f"CREATE DATABASE {names[-1]} TEMPLATE {template} OWNER {role}")
        return postgres_server.url(names[-1], user=role)

    yield url
    for name in names:
        postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")
