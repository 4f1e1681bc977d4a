"""A journal whose process has no memory for one allocation after the other (CPython's own
`_testcapi.set_nomemory`). Entry: `python -m tests.crash.allocations FOLDER WHERE FIRST LAST STEP`.

WHERE: `thread` fails the N-th allocation after the writer's thread takes its next writes, while
nothing else runs; `here` after an append begins in the thread of its caller; `close` after the closing
of the writer begins. After each N every append must have been answered, with success only and always if it is in
the file, and the journal must go on. Prints each N before it begins; ends by `faulthandler` if
something waits for ever.
"""

from __future__ import annotations

import asyncio
import faulthandler
import selectors
import sys
import threading
import time
import traceback
from _testcapi import remove_mem_hooks, set_nomemory  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
from collections.abc import Callable
from pathlib import Path

import anyio
from typing_extensions import override

from tests.journal.runs import begun, fact, gives, started
from treadle.journal.sqlite import SqliteJournal
from treadle.journal.sqlite.writes import SqliteWrite

LONGEST_S = 15
OUT = "the process is out of memory: "
fail: Callable[[int, int], None] = set_nomemory  # pyright: ignore[reportUnknownVariableType]
recover: Callable[[], None] = remove_mem_hooks  # pyright: ignore[reportUnknownVariableType]


class Selector(selectors.DefaultSelector):
    """Nothing fails once the event loop wakes up: it would end."""

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        try:
            return super().select(timeout)
        except MemoryError:
            return []
        finally:
            recover()


def until_it_selects(thread_id: int) -> None:
    """Wait until the event loop of this thread waits for events."""
    before = -1
    while True:
        frame = sys._current_frames()[thread_id]  # pyright: ignore[reportPrivateUsage]
        selects = frame.f_code is selectors.DefaultSelector.select.__code__
        if selects and frame.f_lasti == before:
            return
        before = frame.f_lasti if selects else -1
        time.sleep(0.0005)


class Sweep:
    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal
        self._told: dict[str, int | str] = {}
        self._names: list[str] = []

    async def at(self, number: int, where: str) -> None:
        names = [f"run_{where}_{number}_{word}" for word in ("a", "b")]
        writers = [await self._journal.begin(started(name)) for name in names]
        entries = [fact("a"), fact("b")] if where == "here" else [begun("c"), gives("c")]

        async def append(one: int) -> None:
            try:
                self._told[names[one]] = await writers[one].append(entries)
            except Exception as e:  # CPython puts other errors in the place of some
                self._told[names[one]] = f"{e!r}: {traceback.format_exc()}"
            recover()

        if where == "here":
            await writers[0].append([fact("first")])
            self._told[names[0]] = "not begun"
            fail(number, number + 1)
            try:
                await append(0)
            except MemoryError:
                recover()
            offset = 1
        else:
            self._hand_in_before(number)
            async with anyio.create_task_group() as group:
                group.start_soon(append, 0)
                group.start_soon(append, 1)
            offset = 0
        recover()
        for one, name in enumerate(names[: 1 if where == "here" else 2]):
            count = len(await self._journal.read(name))
            stored, told = count == 3 + offset, self._told[name]
            assert stored or count == 1 + offset, (number, name, count)
            assert stored == (told == 2 + offset), (number, name, told)
            assert "AgentError" not in str(told) or OUT in str(told), (number, name, told)
            assert await writers[one].append([begun("d")]) == count + 1, (number, name, told)
        for writer in writers:  # many drivers do not write in their own threads
            await writer.release()

    def _hand_in_before(self, number: int) -> None:
        """Keep the writer's thread until the appends are handed in behind it."""
        loop_thread = threading.get_ident()

        def work(db: object) -> None:
            until_it_selects(loop_thread)
            fail(number, number + 1)

        self._journal._writer._hand_in(SqliteWrite(work, alone=True))  # pyright: ignore[reportPrivateUsage]


async def sweep(folder: Path, where: str, numbers: range) -> None:
    journal = SqliteJournal.open(folder / "runs.db")
    swept = Sweep(journal)
    for number in numbers:
        print(number, flush=True)
        faulthandler.dump_traceback_later(LONGEST_S, exit=True)
        if where == "close":
            await close(folder / f"{number}.db", number)
        else:
            await swept.at(number, where)
    faulthandler.cancel_dump_traceback_later()
    await journal.aclose()


async def close(path: Path, number: int) -> None:
    """An interrupted closing is completed by the next one."""
    journal = SqliteJournal.open(path)
    writer = await journal.begin(started())
    await writer.append([fact("a")])
    fail(number, number + 1)
    try:
        journal._writer.close()  # pyright: ignore[reportPrivateUsage]
    except Exception:  # CPython puts other errors in the place of some
        recover()
    recover()
    journal._close()  # pyright: ignore[reportPrivateUsage]
    again = SqliteJournal.open(path)
    assert len(await again.read("run_1")) == 2
    assert (await again.take_over("run_1")).fence == 2
    await again.aclose()


if __name__ == "__main__":
    anyio.run(
        sweep,
        Path(sys.argv[1]),
        sys.argv[2],
        range(*map(int, sys.argv[3:])),
        backend_options={"loop_factory": lambda: asyncio.SelectorEventLoop(Selector())},
    )
