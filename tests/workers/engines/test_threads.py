"""DBOS in a system that has no thread left."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest

from tests.workers.engines.conftest import opened
from treadle.errors import AgentError
from treadle.journal.engine import Engine, QueueLimits
from treadle.journal.queue import Ticket

LANES = {"default": QueueLimits()}


@pytest.fixture
async def dbos(tmp_path: Path) -> AsyncGenerator[Engine]:
    async with opened(f"sqlite:///{tmp_path / 'journal.db'}") as engine:
        yield engine


async def deliver(ticket: Ticket) -> None:
    raise AssertionError(ticket)


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """From its call on no thread starts that has such a name; undo by `monkeypatch.undo`."""
    starts = threading.Thread.start

    def begin(part: str) -> None:
        def start(thread: threading.Thread) -> None:
            if part in thread.name:
                raise RuntimeError("can't start new thread")
            starts(thread)

        monkeypatch.setattr(threading.Thread, "start", start)

    return begin


@pytest.mark.parametrize("part", ["dynamic_scheduler_loop", "queue_thread", "AnyIO worker"])
async def test_a_worker_without_a_thread_names_the_cause_and_another_one_can_begin(
    dbos: Engine, refuse: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    refuse(part)
    with pytest.raises(AgentError, match="cannot start a thread"):
        async with dbos.delivering("worker_a", LANES, deliver, slots=1):
            pass
    monkeypatch.undo()
    async with dbos.delivering("worker_a", LANES, deliver, slots=1):
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_worker_whose_dbos_takes_nothing_any_more_ends_with_an_error(
    dbos: Engine, refuse: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.workers.engines.dbos.engine.LOST_S", 0.05)
    refuse("queue-worker-")
    with anyio.fail_after(20), pytest.raises(AgentError, match="start the worker again"):
        async with dbos.delivering("worker_a", LANES, deliver, slots=1):
            await anyio.sleep_forever()
