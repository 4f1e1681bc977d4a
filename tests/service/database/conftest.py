"""Fixtures: what holds on SQLite holds on PostgreSQL, for a superuser and for a plain role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from tests.service.database.postgres import plain_postgres_url, postgres_server, postgres_url
from treadle.service.database.database import Database

__all__ = ["database", "database_url", "plain_postgres_url", "postgres_server", "postgres_url"]


@pytest.fixture(params=["memory", "sqlite", "postgres", "plain_postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
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


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database.open(database_url) as database:
        yield database
