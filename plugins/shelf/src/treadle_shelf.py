"""A journal in a directory: a file of JSON Lines for each run, for one process at a time.

It keeps runs in memory, writes each entry to its file before the append returns, and reads the
files when it is opened. `shelf:///path/to/directory`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec

from treadle.errors import AgentError
from treadle.journal.entries import Entry, RunStarted
from treadle.journal.journal import RunWriter
from treadle.journal.memory.journal import MemoryJournal


class ShelfWriter:
    """A writer of the journal in memory that also writes the file."""

    def __init__(self, inner: RunWriter, shelf: Shelf) -> None:
        self._inner, self._shelf = inner, shelf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, entries: Sequence[Entry], **more: Any) -> int:
        number = await self._inner.append(entries, **more)
        self._shelf.write(self._inner.run_id, [msgspec.json.encode(entry) for entry in entries])
        return number


class Shelf(MemoryJournal):
    """A journal in `folder`. Use `Shelf.open`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            os.close(self._lock)
            raise AgentError("invalid", f"another process uses the shelf {folder}") from e

    async def load_files(self) -> None:
        for file in sorted(self.folder.glob("*.jsonl")):
            await super().add_run(file.read_bytes().splitlines())

    def write(self, run_id: str, lines: Sequence[bytes]) -> None:
        with open(self._file(run_id), "ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())

    def _file(self, run_id: str) -> Path:
        if "/" in run_id or run_id.startswith("."):
            raise AgentError("invalid", f"{run_id!r} cannot be the name of a file")
        return self.folder / f"{run_id}.jsonl"

    async def begin(self, started: RunStarted, **more: Any) -> RunWriter:
        writer = await super().begin(started, **more)
        self.write(started.run_id, [msgspec.json.encode(started)])
        return ShelfWriter(writer, self)

    async def take_over(self, run_id: str, *, force: bool = False) -> RunWriter:
        return ShelfWriter(await super().take_over(run_id, force=force), self)

    async def add_run(self, entries: Sequence[bytes]) -> Any:
        info = await super().add_run(entries)
        self.write(info.run_id, entries)
        return info

    async def remove(self, run_ids: Collection[str]) -> Any:
        freed = await super().remove(run_ids)
        self._tidy(freed.runs)
        return freed

    async def prune(self, before: Any, *, apply: bool) -> Any:
        freed = await super().prune(before, apply=apply)
        self._tidy(freed.runs if apply else ())
        return freed

    def _tidy(self, run_ids: Collection[str]) -> None:
        for run_id in run_ids:
            self._file(run_id).unlink(missing_ok=True)

    async def aclose(self, *, keep_runs: bool = False) -> None:
        await super().aclose(keep_runs=keep_runs)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def opened(url: str, *, durability: str, lease_s: float) -> Shelf:
    """Open the shelf at `shelf://DIRECTORY`."""
    shelf = Shelf(Path(url.partition("://")[2]))
    loading = shelf.load_files()
    try:
        loading.send(None)  # nothing in it waits
    except StopIteration:
        return shelf
    raise AssertionError("reading the files does not wait")
