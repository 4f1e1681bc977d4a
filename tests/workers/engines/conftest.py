"""The engines that the contract holds for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

import pytest

from tests.service.database.postgres import postgres_server, postgres_url  # noqa: F401  fixtures
from tests.workers.engines.needs import need_dbos
from treadle.journal.engine import Engine
from treadle.workers.engines.local import LocalEngine

POLL_S = 0.02
KEEPING = ["dbos on sqlite", "dbos on postgresql"]


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


@pytest.fixture
def holder(url: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """A worker process of its own, which takes what comes and keeps it until it is killed; it
    writes the id of each run that it was given.
    """
    started: list[subprocess.Popen[str]] = []

    def start(worker: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-m", "tests.workers.engines.holder", url, worker]
        environment = {**os.environ, "PYTHONPATH": "src:."}
        started.append(
            subprocess.Popen(
                program,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[3],
                env=environment,
            )
        )
        return started[-1]

    yield start
    for process in started:
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    if process.stdout is not None:
        process.stdout.close()
