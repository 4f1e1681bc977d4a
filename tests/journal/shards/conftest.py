"""Journals over several databases. Entry: `Shards`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.crash.postgres import ChaosServer, needed
from tests.service.database.postgres import postgres_server, postgres_urls  # noqa: F401  fixtures
from tests.stores import sharded
from treadle.journal import open_journal
from treadle.journal.journal import Journal
from treadle.journal.shards import ShardedJournal
from treadle.journal.shards.placement import Generation, homes


class Shards:
    """A list of shards in a file, and the journals that are opened with it."""

    def __init__(self, file: Path, url_of: Callable[[str], str]) -> None:
        self.file, self.url_of = file, url_of
        self.opened: list[Journal] = []

    def write(self, *names: str, version: int = 1, draining: Sequence[str] = ()) -> str:
        return sharded(
            self.file,
            {name: self.url_of(name) for name in names},
            version=version,
            draining=draining,
        )

    def open(self, *names: str, version: int = 1, draining: Sequence[str] = ()) -> ShardedJournal:
        """Open the list with these shards; none: the file as it is."""
        if names:
            self.write(*names, version=version, draining=draining)
        journal = open_journal(f"postgresql+shards:///{self.file}", lease_s=2)
        assert isinstance(journal, ShardedJournal)
        self.opened.append(journal)
        return journal

    def alone(self, name: str) -> Journal:
        """Open one database as a journal of its own."""
        self.opened.append(open_journal(self.url_of(name), lease_s=2))
        return self.opened[-1]


def ids_in(shard: str, names: Iterable[str], *, prefix: str = "run") -> Iterator[str]:
    """Ids that belong in a shard."""
    generation = Generation(version=1, names=(*sorted(names),))
    number = 0
    while True:
        number += 1
        if homes([generation], f"{prefix}_{number}") == [shard]:
            yield f"{prefix}_{number}"


def one_in(shard: str, names: Iterable[str] = "ab", *, prefix: str = "run") -> str:
    return next(ids_in(shard, names, prefix=prefix))


@pytest.fixture
async def shards(
    postgres_urls: Callable[[object], str],  # noqa: F811  the fixture
    tmp_path: Path,
) -> AsyncIterator[Shards]:
    """Over databases of one server."""
    made = Shards(tmp_path / "shards.yaml", postgres_urls)
    yield made
    for journal in made.opened:
        await journal.aclose()


@pytest.fixture(scope="session")
def two_servers() -> Iterator[dict[str, ChaosServer]]:
    needed()
    quick = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    quick["wal_writer_delay"] = "'10s'"  # a stop loses what was not committed for good
    with ChaosServer(**quick) as one, ChaosServer(**quick) as other:
        yield {"a": one, "b": other}


@pytest.fixture
async def apart(two_servers: dict[str, ChaosServer], tmp_path: Path) -> AsyncIterator[Shards]:
    """Over two servers, which a test may stop."""
    urls = {
        name: server.journal().replace("postgres@", "postgres:hidden@")
        for name, server in two_servers.items()
    }
    made = Shards(tmp_path / "shards.yaml", urls.__getitem__)
    yield made
    for server in two_servers.values():
        if not server.runs():
            server.start()
    for journal in made.opened:
        await journal.aclose()
