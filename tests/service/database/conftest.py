"""Fixtures: what holds on SQLite holds on PostgreSQL, for a superuser and for a plain role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from tests.service.database.postgres import plain_postgres_url, postgres_server, postgres_url
from tests.service.database.ready import (
    PLAIN,
    postgres_ready,
    ready_in_memory,
    ready_postgres_url,
    ready_url,
)
from treadle.service.database.database import Database

__all__ = [
    "database",
    "database_url",
    "furnished_database",
    "plain_postgres_url",
    "postgres_ready",
    "postgres_server",
    "postgres_url",
    "ready_postgres_url",
]


KINDS = ["memory", "sqlite", "postgres", "plain_postgres"]


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "memory":
        return "sqlite://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rows.db'}"
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An application's own database in memory. It is disposed of, since from Python 3.13 on a
    connection that is collected while open is a warning.
    """
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()


@pytest.fixture(params=KINDS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """One with its tables, which the user owns."""
    async with _made(request, tmp_path, with_people=False) as database:
        yield database


@pytest.fixture(params=KINDS)
async def furnished_database(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Database]:
    """The same after `furnished`."""
    async with _made(request, tmp_path, with_people=True) as database:
        yield database


def _made(request: pytest.FixtureRequest, tmp_path: Path, *, with_people: bool) -> Database:
    if request.param == "memory":
        return ready_in_memory(with_people=with_people)
    if request.param == "sqlite":
        return Database.open(ready_url(tmp_path / "rows.db", with_people=with_people))
    role = "postgres" if request.param == "postgres" else PLAIN
    url = request.getfixturevalue("ready_postgres_url")
    return Database.open(url(role, with_people=with_people))
