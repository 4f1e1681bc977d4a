"""Several servers of one journal, which are harmed one at a time. Entry: `ShardServers`."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.crash.postgres import ChaosServer, unsynced
from tests.crash.proxy import Proxy
from tests.stores import sharded

AWAY_S = 6.0
"""A server that is killed is away for so long at most: longer than it takes to be found missing."""


class ShardServers:
    """A context, like `ChaosServer`. What is done to it is done to one of them, or to all."""

    def __init__(self, folder: Path, count: int, *, synced: bool, seed: int) -> None:
        self._folder, self._count, self._synced = folder, count, synced
        self._chance = random.Random(seed)
        self._urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._servers = {
                f"s{number}": stack.enter_context(
                    ChaosServer(proxied=True) if self._synced else unsynced()
                )
                for number in range(self._count)
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def lines(self) -> list[Proxy]:
        return [line for server in self._servers.values() for line in server.lines]

    def journal(self) -> str:
        self._urls = {name: server.journal() for name, server in self._servers.items()}
        return sharded(self._folder / "shards.yaml", self._urls)

    def past_the_proxy(self, url: str) -> str:
        direct = {
            name: server.past_the_proxy(self._urls[name]) for name, server in self._servers.items()
        }
        return sharded(self._folder / "direct.yaml", direct)

    def restart(self) -> None:
        """Kill one, and start it again after a while, in which workers go on with the others."""
        server = self._servers[self._chance.choice([*self._servers])]
        server.stop()
        time.sleep(self._chance.uniform(0, AWAY_S))
        server.start()

    def expire(self, url: str) -> None:
        name = self._chance.choice([*self._servers])
        self._servers[name].expire(self._urls[name])

    def sql_of(self, url: str, statement: str) -> list[tuple[Any, ...]]:
        """The rows of all of them; of counts, their sums."""
        rows = [
            row
            for name, server in self._servers.items()
            for row in server.sql_of(self._urls[name], statement)
        ]
        if statement.startswith("select count"):
            return [tuple(map(sum, zip(*rows, strict=True)))]
        return rows
