"""Databases of the service with its tables and nothing in them: to copy one takes a tenth of the time
of making it. Entry points: `ready_url`, `ready_postgres_url`.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from tests.service.database.postgres import PostgresServer
from treadle.service.database.engines import connected
from treadle.service.database.migrating import newest


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


@pytest.fixture(scope="session")
def postgres_ready(postgres_server: PostgresServer) -> Iterator[str]:
    name = f"t{uuid4().hex}"
    postgres_server.sql(f"CREATE DATABASE {name}")
    _make(postgres_server.url(name))
    yield name
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def ready_postgres_url(postgres_server: PostgresServer, postgres_ready: str) -> Iterator[str]:
    """The same on PostgreSQL, as a superuser sees it; gone afterwards."""
    name = f"t{uuid4().hex}"
    postgres_server.sql(f"CREATE DATABASE {name} TEMPLATE {postgres_ready}")
    yield postgres_server.url(name)
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")
