"""Databases of the service with its tables and nothing in them: to copy one takes a tenth of the time
of making it. Entry points: `ready_url`, `ready_in_memory`, `ready_postgres_url`, `PLAIN`.
"""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from tests.service.database.postgres import PostgresServer
from treadle.service.database.database import Database
from treadle.service.database.engines import connected
from treadle.service.database.migrating import newest

PLAIN = "treadle_tests_plain"
"""A role that is no superuser."""


@cache
def _file() -> Path:
    folder = tempfile.mkdtemp(prefix="treadle-ready-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "service.db"
    _make(f"sqlite:///{path}")
    return path


def _make(url: str) -> None:
    engine = connected(url).writing
    newest(engine)
    engine.dispose()


def ready_url(path: Path) -> str:
    """URL of a SQLite database with the newest tables, or of the one that is there already."""
    if not path.exists():
        shutil.copy(_file(), path)
    return f"sqlite:///{path}"


def ready_in_memory() -> Database:
    """An SQLite database in memory with the newest tables, which is not open yet."""
    database = Database.open("sqlite://")
    assert database._engines is not None
    connection = database._engines.writing.raw_connection()
    with closing(sqlite3.connect(_file())) as ready:
        ready.backup(cast("sqlite3.Connection", connection.driver_connection))
    connection.close()
    return database


@pytest.fixture(scope="session")
def postgres_ready(postgres_server: PostgresServer) -> Iterator[Callable[[str], str]]:
    """By role, the name of a database whose tables the role owns: `postgres`, or a plain one."""
    ready: dict[str, str] = {}

    def made(role: str) -> str:
        if role not in ready:
            if role == PLAIN:
                postgres_server.sql(
                    f"CREATE ROLE {role} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE"
                )
            ready[role] = f"t{uuid4().hex}"
            postgres_server.sql(f"CREATE DATABASE {ready[role]} OWNER {role}")
            _make(postgres_server.url(ready[role], user=role))
        return ready[role]

    yield made
    for role, name in ready.items():
        postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")
        if role == PLAIN:
            postgres_server.sql(f"DROP ROLE {role}")


@pytest.fixture
def ready_postgres_url(
    postgres_server: PostgresServer, postgres_ready: Callable[[str], str]
) -> Iterator[Callable[[str], str]]:
    """By role, the URL of a database with the newest tables, gone afterwards."""
    names: list[str] = []

    def url(role: str) -> str:
        names.append(f"t{uuid4().hex}")
        template = postgres_ready(role)
        postgres_server.sql(f"CREATE DATABASE {names[-1]} TEMPLATE {template} OWNER {role}")
        return postgres_server.url(names[-1], user=role)

    yield url
    for name in names:
        postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")
