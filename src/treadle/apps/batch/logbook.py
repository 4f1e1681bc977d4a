"""State of a batch that survives a crash: a file of entries, separate from the journal with its
runs.

It contains only facts that no run has: the prompts and their terms, the folder of each, and the
results of finished ones. Everything else follows from the sessions of the prompts, whose ids derive
from the batch's. Entry point: `Logbook`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, cast

import anyio.to_thread

from treadle._internal.crash import boundary
from treadle._internal.file_lock import take
from treadle._internal.json_text import decode_json, encode_json
from treadle.apps.batch.batch import Batch, Terms
from treadle.apps.batch.report import ReportRow
from treadle.errors import AgentError
from treadle.types import Time, Value, now

VERSION = 1
ENTRIES = "entries.jsonl"


class WorkPlace(Value, frozen=True, kw_only=True):
    """Folder in which a prompt is worked on."""

    folder: str
    root: str | None = None
    """Root of the worktree; None if there is none."""
    branch: str | None = None
    tree: str | None = None
    """Git tree of the initial content; None if unknown."""
    made: bool = False
    """True once the worktree is complete. From then on any content may be work, even without a
    run.
    """


class _Entry(Value, frozen=True, kw_only=True, tag_field="type"):
    at: Time


class Begun(_Entry, frozen=True, kw_only=True, tag="batch.begun"):
    batch: Batch
    version: Literal[1] = VERSION


class Resumed(_Entry, frozen=True, kw_only=True, tag="batch.resumed"):
    terms: Terms
    """Terms that apply from now on."""


class Placed(_Entry, frozen=True, kw_only=True, tag="item.placed"):
    """Folder of a prompt. It is recorded before the worktree is created, so that an incomplete one
    is found again, and again once it is complete.
    """

    number: int
    place: WorkPlace


class ItemDone(_Entry, frozen=True, kw_only=True, tag="item.done"):
    row: ReportRow


BatchEntry: TypeAlias = Begun | Resumed | Placed | ItemDone


class Logbook:
    """State of one batch, locked by one process while it is open. The kernel releases the lock when
    the process dies.

    Created by `begin` and `open`; an async context manager.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.folder = folder
        """Folder of the batch, accessible to its owner only."""
        self._descriptor = descriptor
        self._entries: list[BatchEntry] = []
        self._terms: Terms | None = None
        self.places: dict[int, WorkPlace] = {}
        self.rows: dict[int, ReportRow] = {}
        """Rows of the finished prompts."""

    @property
    def batch(self) -> Batch:
        """Definition of the batch, on the terms of its last resume."""
        begun = self._entries[0]
        assert isinstance(begun, Begun), "a logbook begins with batch.begun"
        return begun.batch if self._terms is None else _on(begun.batch, self._terms)

    @property
    def pending(self) -> list[int]:
        return [number for number in self.batch.numbers if number not in self.rows]

    @classmethod
    def begin(cls, shelf: Path, batch: Batch) -> Self:
        """Create a logbook in `shelf`. Raises AgentError(invalid) if it cannot be stored."""
        _check_platform()
        folder = shelf / batch.id
        try:
            shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            logbook = cls(folder, os.open(folder / ENTRIES, flags, 0o600))
            try:
                take(logbook._descriptor)
                logbook._write(Begun(at=now(), batch=batch))
                _sync_folder(folder)
                _sync_folder(shelf)
            except BaseException:
                logbook.discard()
                raise
        except OSError as e:
            raise AgentError(
                "invalid", f"the batch cannot be stored in {str(folder)!r}: {e.strerror or e}"
            ) from e
        return logbook

    @classmethod
    def open(cls, shelf: Path, batch_id: str) -> Self:
        """Open a logbook. Raises AgentError: invalid for one that does not exist, is unreadable or
        of a newer version; busy if another process holds it.
        """
        _check_platform()
        folder = shelf / batch_id
        try:
            descriptor = os.open(
                folder / ENTRIES, os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            )
        except OSError as e:
            raise AgentError("invalid", f"there is no batch {batch_id!r} in {str(shelf)!r}") from e
        logbook = cls(folder, descriptor)
        try:
            if not take(descriptor):
                raise AgentError(
                    "busy",
                    (
                        f"the batch {batch_id} is in use by another process: wait for it to end, "
                        "or stop it"
                    ),
                )
            logbook._read()
        except BaseException:
            os.close(descriptor)
            raise
        return logbook

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def discard(self) -> None:
        """Delete the batch, which must not have begun."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def objects(self) -> Path:
        """Folder of the git objects for comparisons, kept while prompts are pending."""
        return self.folder / "objects"

    @property
    def scratch(self) -> Path:
        """Folder of the gates' /tmp."""
        return self.folder / "tmp"

    async def tidy(self) -> None:
        """Remove folders that are needed only while something runs."""
        for folder in (self.scratch, *([] if self.pending else [self.objects])):
            await anyio.to_thread.run_sync(
                lambda folder=folder: shutil.rmtree(folder, ignore_errors=True)
            )

    # ------------------------------------------------------------ entries

    async def resume_on(self, terms: Terms) -> None:
        await self._append(Resumed(at=now(), terms=terms))

    async def place(self, number: int, place: WorkPlace) -> None:
        await self._append(Placed(at=now(), number=number, place=place))

    async def done(self, row: ReportRow) -> None:
        await self._append(ItemDone(at=now(), row=row))

    async def _append(self, entry: BatchEntry) -> None:
        """Append an entry, durable on return.

        Raises AgentError(agent) if the disk does not accept it.
        """
        try:
            await anyio.to_thread.run_sync(self._write, entry)
        except OSError as e:
            raise AgentError(
                "agent",
                (
                    f"the batch {self.batch.id} could not be saved: {e.strerror or e}. Results so "
                    "far are saved"
                ),
            ) from e

    def _write(self, entry: BatchEntry) -> None:
        """Write one line in one call. A partial write to a full disk is undone."""
        line = encode_json(entry) + b"\n"
        boundary()
        size = os.fstat(self._descriptor).st_size
        if os.write(self._descriptor, line) != len(line):
            os.ftruncate(self._descriptor, size)
            raise OSError("the disk is full")
        os.fsync(self._descriptor)
        boundary()
        self._apply(entry)

    def _apply(self, entry: BatchEntry) -> None:
        self._entries.append(entry)
        match entry:
            case Resumed(terms=terms):
                self._terms = terms
            case Placed(number=number, place=place):
                self.places[number] = place
            case ItemDone(row=row):
                self.rows[row.number] = row
            case Begun():
                pass

    def _read(self) -> None:
        """Read the entries. An unterminated last line was being written when the process died; it
        was never confirmed, so it is removed.
        """
        data = b"".join(iter(lambda: os.read(self._descriptor, 1 << 20), b""))
        whole = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
        if len(whole) < len(data):
            os.ftruncate(self._descriptor, len(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = cast("BatchEntry", decode_json(line, cast("type[Any]", BatchEntry)))
            except ValueError as e:
                raise AgentError(
                    "invalid",
                    (
                        f"{str(self.folder / ENTRIES)!r}, line {number}: this version cannot read "
                        f"it: {e}"
                    ),
                ) from e
            self._apply(entry)
        if not self._entries or not isinstance(self._entries[0], Begun):
            raise AgentError(
                "invalid", f"the batch {self.folder.name} was never started: it has no entries"
            )


def batches(shelf: Path) -> list[str]:
    """Return the ids of all batches, oldest first."""
    try:
        return sorted(
            entry.name
            for entry in os.scandir(shelf)
            if os.path.exists(os.path.join(entry.path, ENTRIES))
        )
    except OSError:
        return []


def find_batch(shelf: Path, given: str, *, last: str = "last") -> str:
    """Return the id of a batch, given by its id, the beginning of one, or `last`.

    Raises AgentError(invalid) if none or several match.
    """
    known = batches(shelf)
    if not known:
        raise AgentError("invalid", f"there is no batch {given!r}: there are none yet")
    meant: Sequence[str] = (
        known[-1:]
        if given == last
        else [each for each in known if given and each.startswith((given, f"work_{given}"))]
    )
    if given in known:
        meant = [given]
    if len(meant) != 1:
        near = f"it is the beginning of {len(meant)}" if meant else f"the newest is {known[-1]}"
        raise AgentError("invalid", f"there is no batch {given!r}: {near}")
    return meant[0]


def _on(batch: Batch, terms: Terms) -> Batch:
    return Batch(id=batch.id, prompts=batch.prompts, terms=terms, base=batch.base)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_platform() -> None:
    if sys.platform == "win32":
        raise AgentError("invalid", "a batch needs Linux or macOS: on Windows, use WSL")
