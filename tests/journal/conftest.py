"""The journals that one suite runs over: in memory, SQLite, PostgreSQL and shards. Entry: `Kind`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.service.database.postgres import postgres_server, postgres_urls  # noqa: F401  fixtures
from tests.stores import JournalUrls, journal_urls, reuse_connections, sharded  # noqa: F401  a fixture
from treadle.apps.testing.contracts.kinds import JournalKind as Kind
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.memory.journal import MemoryJournal
from treadle.journal.sqlite import SqliteJournal


async def _memory(folder: Path) -> Journal:
    return MemoryJournal()


async def _sqlite(folder: Path) -> Journal:
    return SqliteJournal.open(folder / "journal.db")


KINDS = {"memory": Kind(_memory, durable=False), "sqlite": Kind(_sqlite, durable=True)}


@pytest.fixture(params=[*KINDS, "postgres", "shards"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    if request.param in KINDS:
        return KINDS[request.param]
    urls: JournalUrls = request.getfixturevalue("journal_urls")
    reuse_connections(monkeypatch)

    async def postgres(folder: Path) -> Journal:
        return open_journal(urls(folder))

    async def shards(folder: Path) -> Journal:
        names = {name: urls((folder, name), shard=True) for name in ("a", "b")}
        return open_journal(sharded(folder / "shards.yaml", names))

    return Kind(postgres if request.param == "postgres" else shards, durable=True)


@pytest.fixture
async def journal(kind: Kind, tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await kind.open(tmp_path)
    yield opened
    await opened.aclose()
