"""The journal in memory: the contract without the disk, for tests and for runs that need not outlive the process.

An ended run is packed into compressed JSON, so that a million of them cost little. Entry: `MemoryJournal`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.errors import AgentError
from treadle.journal import Entry, Journal, Record, RunFinished, RunStarted, RunWriter
from treadle.json_text import decode_json, encode_json


class _Run:
    __slots__ = ("entries", "fence", "held", "packed")

    def __init__(self, started: RunStarted) -> None:
        self.entries: list[Entry] = [started]
        self.packed: bytes | None = None
        self.fence = 1
        self.held = True

    def unpacked(self) -> list[Entry]:
        return self.entries if self.packed is None else decode_json(zlib.decompress(self.packed), list[Entry])

    def pack(self) -> None:
        self.packed = zlib.compress(encode_json(self.entries), level=1)
        self.entries = []


class MemoryWriter:
    """Appends to one run until another driver takes it over."""

    __slots__ = ("_fence", "_run", "run_id")

    def __init__(self, run_id: str, run: _Run) -> None:
        self.run_id = run_id
        self._run = run
        self._fence = run.fence

    async def append(self, entries: Sequence[Entry]) -> int:
        run = self._run
        if not self._holds:
            raise AgentError("busy", f"run {self.run_id} is not held by this driver any more: nothing was appended")
        first = len(run.entries) + 1
        run.entries.extend(entries)
        return first

    async def release(self) -> None:
        if self._holds:
            self._run.held = False
            if isinstance(self._run.entries[-1], RunFinished):
                self._run.pack()

    @property
    def _holds(self) -> bool:
        return self._run.held and self._run.fence == self._fence


class MemoryJournal:
    """Runs in a dictionary; gone with the process."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    async def begin(self, started: RunStarted) -> RunWriter:
        if started.run_id in self._runs:
            raise AgentError("busy", f"there is a run {started.run_id} already")
        run = self._runs[started.run_id] = _Run(started)
        return MemoryWriter(started.run_id, run)

    async def take_over(self, run_id: str) -> RunWriter:
        run = self._find(run_id)
        if run.held:
            raise AgentError("busy", f"run {run_id} is being driven: wait for its end, or cancel it")
        if run.packed is not None:
            raise AgentError("invalid", f"run {run_id} is finished")
        run.fence += 1
        run.held = True
        return MemoryWriter(run_id, run)

    async def read(self, run_id: str, *, after: int = 0) -> list[Record]:
        entries = self._find(run_id).unpacked()
        return [Record(seq=i + 1, entry=entries[i]) for i in range(max(after, 0), len(entries))]

    async def runs(self) -> list[RunStarted]:
        started = [run.unpacked()[0] for run in self._runs.values()]
        return [entry for entry in reversed(started) if isinstance(entry, RunStarted)]

    async def aclose(self) -> None:
        self._runs.clear()

    def _find(self, run_id: str) -> _Run:
        try:
            return self._runs[run_id]
        except KeyError:
            raise AgentError("invalid", f"there is no run {run_id!r} here") from None


if TYPE_CHECKING:
    _: type[Journal] = MemoryJournal
