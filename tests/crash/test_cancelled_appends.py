"""An append whose run is cancelled at the very moment in which the journal answers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.journal.runs import begun, started
from treadle.journal.sqlite import SqliteJournal


def test_an_append_ends_also_where_its_answer_is_on_the_way_when_the_cancellation_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[int] = []

    async def cancelled() -> None:
        journal = SqliteJournal.open(tmp_path / "journal.db")
        run = await journal.begin(started())
        loop, answered = asyncio.get_running_loop(), threading.Event()
        call = loop.call_soon_threadsafe

        def heard(*what: object) -> asyncio.Handle:
            handle = call(*what)  # pyright: ignore[reportArgumentType]  as it came
            answered.set()
            return handle

        monkeypatch.setattr(loop, "call_soon_threadsafe", heard)
        async with anyio.create_task_group() as group:
            group.start_soon(run.append, [begun("c")])
            await anyio.lowlevel.checkpoint()
            answered.wait(5)  # the loop stands still meanwhile: the answer waits for its turn
            group.cancel_scope.cancel()
        entries.append(len(await journal.read(run.run_id)))
        await journal.aclose()

    # an append that never ends cannot be cancelled
    thread = threading.Thread(target=anyio.run, args=[cancelled], daemon=True)
    thread.start()
    thread.join(20)
    assert entries == [2]
