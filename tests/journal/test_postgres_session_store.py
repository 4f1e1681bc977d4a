"""Sessions in a PostgreSQL journal: what is tested of those in memory, tested here once more."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from tests.journal.test_sessions import *  # noqa: F403  the same suite over another store
from tests.service.database.postgres import postgres_server, postgres_url  # noqa: F401  fixtures
from treadle.journal import open_journal
from treadle.journal.sessions import Sessions


@pytest.fixture
def store(postgres_url: str) -> Iterator[Sessions]:  # noqa: F811  it is the fixture
    journal = open_journal(postgres_url)
    yield journal.sessions
    anyio.run(journal.aclose)
