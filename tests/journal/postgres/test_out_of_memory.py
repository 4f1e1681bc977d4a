"""Errors in the writer's threads before, in and after a transaction, at the connection, the event
loop and the lock: each waiter is answered, with what is in the database, and the journal goes on.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.journal.runs import begun, fact, finished, gives, started
from tests.journal.sqlite.test_out_of_memory import in_thread
from treadle.errors import AgentError

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'treadle[postgres]'")

import psycopg

from treadle.journal.postgres import PostgresJournal

RUNS = ("run_1", "run_2", "run_3")
Step = tuple[str, type[BaseException]]


class Faults:
    """Steps of the journal's threads that fail, once each."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._left: list[Step] = []
        self._lock = threading.Lock()
        self.all_came = threading.Event()
        self._wrap(patch, asyncio.BaseEventLoop, "call_soon_threadsafe", lambda *_: "wake")
        self._wrap(patch, psycopg.Connection, "execute", _statement)
        self._wrap(patch, psycopg.Cursor, "fetchall", lambda *_: "rows")

        self._patch = patch

    def install(self, turn: threading.Condition) -> None:
        self._wrap(self._patch, turn, "notify", lambda *_: "notify")
        self._wrap(self._patch, turn, "wait", lambda *_: "wait")

    def _wrap(
        self, patch: pytest.MonkeyPatch, owner: object, name: str, step: Callable[..., str]
    ) -> None:
        does = getattr(owner, name)

        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.pass_("before " + step(*arguments))
            answer = does(*arguments, **options)
            self.pass_("after " + step(*arguments))
            return answer

        patch.setattr(owner, name, wrapped)

    def expect(self, steps: Sequence[Step]) -> None:
        with self._lock:
            self._left = [*steps]

    def wake_until_all_came(self, turn: threading.Condition) -> None:
        for _ in range(400):
            with turn:
                turn.notify_all()
            if self.all_came.wait(0.05):
                return
        raise AssertionError("it did not come so far")

    def pass_(self, step: str) -> None:
        if threading.current_thread().name != "treadle-journal":
            return
        with self._lock:
            found = next((one for one in self._left if one[0] == step), None)
            if found is None:
                return
            self._left.remove(found)
            if not self._left:
                self.all_came.set()
        raise found[1](step)


def _statement(db: object, statement: str | bytes, *rest: object) -> str:
    words = statement if isinstance(statement, str) else statement.decode()
    return "append" if "advanced" in words else words.partition(" ")[0]


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return Faults(monkeypatch)


def words(steps: Sequence[Step]) -> str:
    return ", ".join(f"{step}: {error.__name__}" for step, error in steps)


OUT, BUG = MemoryError, RuntimeError
APPENDS: list[list[Step]] = [
    [("before wake", OUT), ("before wake", OUT), ("before wake", OUT)],
    [("before wake", BUG)],
    [("before append", OUT)],
    [("before append", BUG)],
    [("after append", OUT)],
    [("after append", BUG)],
    [("after rows", OUT), ("before wake", OUT)],
    [("after rows", BUG)],
    [("before notify", OUT)],
    [("after notify", BUG)],
    [("before wait", OUT)],
    [("after wait", OUT), ("before wait", BUG)],
]


@pytest.mark.parametrize("steps", APPENDS, ids=words)
def test_each_append_is_answered_with_what_is_in_the_database(
    postgres_url: str, faults: Faults, steps: list[Step]
) -> None:
    async def story() -> None:
        journal = PostgresJournal.open(postgres_url)
        writers = {name: await journal.begin(started(name)) for name in RUNS}
        told: dict[str, object] = {}

        async def append(name: str, key: str) -> None:
            try:
                told[key] = await writers[name].append([begun(key), gives(key)])
            except AgentError as e:
                told[key] = e.message

        faults.install(journal._writer._turn)  # pyright: ignore[reportPrivateUsage]
        faults.expect(steps)
        async with anyio.create_task_group() as group:
            for name in RUNS:
                group.start_soon(append, name, f"{name} first")
                group.start_soon(append, name, f"{name} second")
        # a lane that had nothing to do waits until it is woken
        await anyio.to_thread.run_sync(faults.wake_until_all_came, journal._writer._turn)
        for name, writer in writers.items():
            assert {told[f"{name} first"], told[f"{name} second"]} == {2, 4}
            assert len(await journal.read(name)) == 5
            assert await writer.append([finished()]) == 6
        await journal.aclose()

    in_thread(story)


TRANSACTIONS: list[list[Step]] = [
    [("before wake", OUT)],
    [("before begin", OUT)],
    [("before commit", OUT)],
    [("before commit", BUG)],
    [("after commit", OUT)],
    [("after commit", BUG)],
]


@pytest.mark.parametrize("steps", TRANSACTIONS, ids=words)
def test_the_end_of_a_run_is_answered_with_what_is_in_the_database(
    postgres_url: str, faults: Faults, steps: list[Step]
) -> None:
    async def story() -> None:
        journal = PostgresJournal.open(postgres_url)
        writer = await journal.begin(started())
        faults.expect(steps)
        try:
            told: object = await writer.append([fact("a"), finished()])
        except (AgentError, RuntimeError) as e:
            told = e
        assert faults.all_came.is_set(), "it did not come so far"
        assert len(await journal.read("run_1")) == (3 if told == 2 else 1), told
        assert await (await journal.begin(started("run_2"))).append([fact("a")]) == 2
        await journal.aclose()

    in_thread(story)
