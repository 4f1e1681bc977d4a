"""Memory that runs out in the writer's thread outside of a transaction, or in the middle of a step
that must not be left out: each waiter is answered, with what is in the file, and the journal goes
on.
"""

from __future__ import annotations

import asyncio
import fcntl
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import apsw
import pytest

from tests.journal.runs import begun, fact, started
from tests.journal.sqlite.failing_disk import FailingDisk
from treadle.errors import AgentError
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.writer import SqliteWriter

RUNS = ("run_1", "run_2", "run_3")


def in_thread(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it in a thread of its own: a write cannot be cancelled, and could wait for ever."""
    failed: list[BaseException | None] = []

    def run() -> None:
        try:
            anyio.run(story)
            failed.append(None)
        except BaseException as e:
            failed.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(25)
    assert failed, "it waits for ever"
    if failed[0] is not None:
        raise failed[0]


class Faults:
    """Steps of the thread of one writer that run out of memory, once each."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._left: list[str] = []
        self._thread: threading.Thread | None = None
        self.all_came = threading.Event()

    def expect(self, *steps: str) -> None:
        self._left = [*steps]

    def pass_(self, step: str) -> None:
        if step in self._left and threading.current_thread() is self._thread:
            self._left.remove(step)
            if not self._left:
                self.all_came.set()
            raise MemoryError

    def install(self, writer: SqliteWriter) -> None:
        self._thread, db = writer._thread, writer._db  # pyright: ignore[reportPrivateUsage]

        def trace(cursor: apsw.Cursor, statement: str, bindings: object) -> bool:
            self.pass_(statement)
            return True

        db.exec_trace = trace
        wake = asyncio.BaseEventLoop.call_soon_threadsafe
        lock = cast("Callable[..., object]", fcntl.fcntl)

        def woken(*arguments: Any, **options: Any) -> Any:
            self.pass_("wake")
            return wake(*arguments, **options)

        def locked(descriptor: int, what: int, how: Any = 0) -> object:
            answer = lock(descriptor, what, how)
            if what == fcntl.F_OFD_SETLK:
                kind = int.from_bytes(how[:2], "little")
                self.pass_("take the turn" if kind == fcntl.F_WRLCK else "end the turn")
            return answer

        self._patch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", woken)
        self._patch.setattr(fcntl, "fcntl", locked)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="only Linux has such locks")
@pytest.mark.parametrize(
    "steps",
    [
        ("wake", "wake", "wake"),
        ("take the turn",),
        ("end the turn",),
        ("begin immediate",),
        ("commit",),
        ("commit", "rollback", "rollback"),
        ("commit", "end the turn", "wake"),
        ("pragma page_count",),
        ("pragma data_version",),
    ],
    ids=", ".join,
)
def test_each_waiter_is_told_what_is_in_the_file(
    path: Path, faults: Faults, steps: Sequence[str]
) -> None:
    async def story() -> None:
        journal = SqliteJournal.open(path)
        writers = {name: await journal.begin(started(name)) for name in RUNS}
        faults.install(journal._writer)  # pyright: ignore[reportPrivateUsage]
        faults.expect(*steps)
        told: dict[str, object] = {}

        async def append(name: str) -> None:
            try:
                told[name] = await writers[name].append([begun("c"), fact("x" * 200_000)])
            except AgentError as e:
                told[name] = e.message

        async with anyio.create_task_group() as group:
            for name in RUNS:
                group.start_soon(append, name)
        assert await anyio.to_thread.run_sync(faults.all_came.wait, 20), "it did not come so far"
        for name, writer in writers.items():
            stored = len(await journal.read(name)) == 3
            assert told[name] == 2 if stored else "out of memory" in str(told[name])
            assert await writer.append([begun("later")]) == (4 if stored else 2)
            assert await writer.append([fact("later")]) == (5 if stored else 3)
        await journal.aclose()

    in_thread(story)


def test_a_commit_that_failed_without_memory_for_its_error_is_no_commit(path: Path) -> None:
    disk = FailingDisk()

    async def story() -> None:
        journal = SqliteJournal.open(path)
        writer = await journal.begin(started())
        disk.write_fails = MemoryError  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(AgentError, match="out of memory"):
            await writer.append([begun("c")])
        disk.write_fails = None
        assert len(await journal.read("run_1")) == 1
        assert await writer.append([begun("c")]) == 2
        await journal.aclose()

    try:
        in_thread(story)
    finally:
        disk.unregister()


@pytest.mark.parametrize("alone", [False, True])
def test_work_that_raises_stop_iteration_keeps_nobody_waiting(path: Path, alone: bool) -> None:
    """No future of asyncio takes such an error."""
    told: list[str] = []

    async def write(writer: SqliteWriter) -> None:
        try:
            await writer.write(lambda db: next(iter(())), alone=alone)
        except RuntimeError as e:
            told.append(str(e))

    async def story() -> None:
        journal = SqliteJournal.open(path)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(write, journal._writer)  # pyright: ignore[reportPrivateUsage]
        await journal.aclose()

    in_thread(story)
    assert told == ["the work raised StopIteration()"] * 3


async def test_a_wish_to_stop_that_nobody_could_be_told_is_told_later(
    path: Path, faults: Faults
) -> None:
    journal, other = SqliteJournal.open(path), SqliteJournal.open(path)
    heard = anyio.Event()
    journal.on_stop(lambda run_id: heard.set())
    await journal.begin(started())
    faults.install(journal._writer)  # pyright: ignore[reportPrivateUsage]
    faults.expect("wake")
    await other.ask_to_stop("run_1")
    with anyio.fail_after(20):
        await heard.wait()
    assert faults.all_came.is_set()
    await journal.aclose()
    await other.aclose()
