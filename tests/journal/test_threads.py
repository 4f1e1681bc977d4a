"""A system that has no thread left: an error says so, nothing hangs, and what comes later works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.journal.runs import entries_of, fact, started
from treadle.errors import AgentError
from treadle.journal.notifier import QUEUE
from treadle.journal.sqlite import SqliteJournal


@pytest.fixture
def exhausted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on no thread starts; undo by `monkeypatch.undo`."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    return lambda: monkeypatch.setattr(threading.Thread, "start", start)


def test_a_write_without_a_thread_fails_and_the_next_one_succeeds(
    tmp_path: Path, exhausted: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread of its own: a write cannot be cancelled, and would wait for ever."""
    stored: list[object] = []

    async def write() -> None:
        journal = SqliteJournal.open(tmp_path / "runs.db")
        exhausted()
        with pytest.raises(AgentError, match="cannot start a thread"):
            await journal.begin(started())
        monkeypatch.undo()
        writer = await journal.begin(started())
        await writer.append([fact("a")])
        stored.extend(await entries_of(journal, writer.run_id, after=1))
        await journal.aclose()
        stored.append("closed")

    writing = threading.Thread(target=anyio.run, args=(write,), daemon=True)
    writing.start()
    writing.join(20)
    assert stored == [fact("a"), "closed"]


async def test_a_read_without_a_thread_names_the_cause(
    tmp_path: Path, exhausted: Callable[[], None]
) -> None:
    journal = SqliteJournal.open(tmp_path / "runs.db")
    exhausted()
    with pytest.raises(AgentError, match="cannot start a thread"):
        await journal.runs()
    await journal.aclose()


async def test_listening_without_a_thread_looks_at_its_own_interval(
    tmp_path: Path, exhausted: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later listeners get a thread again."""
    journal = SqliteJournal.open(tmp_path / "runs.db")
    exhausted()
    async with journal.notifier.listen(QUEUE) as listening:
        with anyio.fail_after(10):
            assert await listening.wait() == []
    monkeypatch.undo()
    async with journal.notifier.listen(QUEUE):
        assert "treadle-notifier" in {thread.name for thread in threading.enumerate()}
    await journal.aclose()
