"""Sessions in the file of a SQLite journal: what is tested of those in memory, tested here once
more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.journal.test_sessions import *  # noqa: F403  the same suite over another store
from treadle.journal.sessions import Sessions
from treadle.journal.sqlite import SqliteJournal


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Sessions]:
    journal = SqliteJournal.open(tmp_path / "journal.db")
    yield journal.sessions
    anyio.run(journal.aclose)
