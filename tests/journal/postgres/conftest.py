"""Fixtures: a database with an empty journal, the journal, and a look into it past the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest

from tests.service.database.postgres import plain_postgres_url, postgres_server, postgres_urls
from tests.stores import JournalUrls, journal_urls
from treadle.journal import open_journal
from treadle.journal.journal import Journal

__all__ = [
    "journal",
    "journal_urls",
    "look",
    "plain_postgres_url",
    "postgres_server",
    "postgres_url",
    "postgres_urls",
]

Look: TypeAlias = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def postgres_url(journal_urls: JournalUrls) -> str:
    return journal_urls("journal")


@pytest.fixture
async def journal(postgres_url: str) -> AsyncIterator[Journal]:
    opened = open_journal(postgres_url)
    yield opened
    await opened.aclose()


@pytest.fixture
def look(postgres_url: str) -> Look:
    """Runs a statement, `%s` for each value, and commits it."""
    import psycopg

    def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgres_url, autocommit=True) as db:
            found = db.execute(statement.encode(), values)
            return found.fetchall() if found.description else []

    return run
