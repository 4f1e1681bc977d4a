"""A journal in a file of its own, and a look into that file past the journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from treadle.journal.sqlite import SqliteJournal

Look = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
async def journal(path: Path) -> AsyncIterator[SqliteJournal]:
    opened = SqliteJournal.open(path, busy_timeout_s=5)
    yield opened
    await opened.aclose()


@pytest.fixture
def look(path: Path) -> Iterator[Look]:
    """Runs SQL on the file, as anybody could."""
    opened: list[apsw.Connection] = []

    def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if not opened:
            opened.append(apsw.Connection(str(path)))
        return opened[0].execute(sql, values).fetchall()

    yield run
    for db in opened:
        db.close()
