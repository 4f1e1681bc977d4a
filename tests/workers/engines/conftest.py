"""The engines that the contract holds for."""

from __future__ import annotations

import atexit
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TextIO

import pytest

from tests.fork_server import ENDS_WITHIN_S, ROOT, Forked, ForkServer
from tests.service.database.postgres import postgres_server, postgres_url  # noqa: F401  fixtures
from tests.workers.engines.needs import need_dbos
from treadle.journal.engine import Engine
from treadle.workers.engines.local import LocalEngine

POLL_S = 0.02
KEEPING = ["dbos on sqlite", "dbos on postgresql"]
_OF_HOLDERS = (
    "anyio._backends._asyncio",
    "sqlalchemy.dialects.sqlite",
    "tests.workers.engines",
    "treadle.workers.engines.dbos",
)


@pytest.fixture(params=["local", *KEEPING])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of the journal that the engine belongs to."""
    return (
        request.getfixturevalue("postgres_url")
        if kind.endswith("postgresql")
        else f"sqlite:///{tmp_path / 'journal.db'}"
    )


@pytest.fixture
async def engine(kind: str, url: str) -> AsyncGenerator[Engine]:
    async with LocalEngine() if kind == "local" else opened(url) as engine:
        yield engine


def opened(url: str) -> Engine:
    need_dbos(url)
    from treadle.workers.engines.dbos import DbosEngine

    return DbosEngine.open(url, poll_s=POLL_S)


@cache
def _holders() -> ForkServer:
    """Of this process of pytest: DBOS takes most of a second to import."""
    server = ForkServer({"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}, arguments=_OF_HOLDERS)
    atexit.register(server.close)
    return server


@dataclass
class Holder:
    process: Forked
    stdout: TextIO

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(ENDS_WITHIN_S)
        self.stdout.close()


@pytest.fixture
def holder(url: str) -> Iterator[Callable[[str], Holder]]:
    """A worker process of its own, which takes what comes and keeps it until it is killed; it
    writes the id of each run that it was given.
    """
    started: list[Holder] = []

    def start(worker: str) -> Holder:
        given, out = os.open(os.devnull, os.O_RDONLY), os.pipe()
        process = _holders().start(
            [url, worker],
            cwd=ROOT,
            environment=os.environ,
            streams=[given, out[1], 2],
            program="tests.workers.engines.holder",
        )
        for fd in (given, out[1]):
            os.close(fd)
        started.append(Holder(process, os.fdopen(out[0], encoding="utf-8")))
        return started[-1]

    yield start
    for each in started:
        each.kill()
