"""Journals that workers share, and agents for their runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.doubles import says
from tests.service.database.postgres import postgres_server as postgres_server
from tests.stores import JournalUrls, reuse_connections
from tests.stores import journal_urls as journal_urls
from treadle import Agent, Runtime
from treadle.journal.run_info import RunInfo
from treadle.testing import ScriptedModel
from treadle.workers.worker import Worker


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "postgres":
        reuse_connections(monkeypatch)
        urls: JournalUrls = request.getfixturevalue("journal_urls")
        return urls(tmp_path)
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'journal.db'}"


def greeter(name: str = "greeter", **options: Any) -> Agent[Any, Any]:
    return Agent(name=name, model=ScriptedModel([says("hello")] * 1000), **options)


@asynccontextmanager
async def working(runtime: Runtime, *engine: Any, **options: Any) -> AsyncGenerator[Worker]:
    """A worker at work until the block ends."""
    async with (
        anyio.create_task_group() as group,
        Worker(runtime, *engine, **{"poll_s": 0.05, **options}) as worker,
    ):
        group.start_soon(worker.work)
        with anyio.fail_after(10):
            await worker.registered.wait()
        yield worker
        worker.drain()


async def until(
    runtime: Runtime,
    run_id: str,
    is_so: Callable[[RunInfo], bool] = lambda info: info.status == "finished",
) -> RunInfo:
    with anyio.fail_after(20):
        while not is_so(info := await runtime.journal.info(run_id)):
            await anyio.sleep(0.01)
    return info


def beside(runtime: Runtime, url: str) -> Runtime:
    """Another one over its journal, which knows none of its agents."""
    return Runtime(journal=runtime.journal) if url == "memory:" else Runtime.open(url)
