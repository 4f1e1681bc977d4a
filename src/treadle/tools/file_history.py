"""Original contents of files that tools changed, stored by hash in private files so that a user can
restore them.

They are in Treadle's own directory and not in the journal: files must be restored byte for byte, so
secrets cannot be redacted, whereas a journal is exported, displayed and searched. A file is stored
before it is changed, so a crash cannot lose it. tools/builtin/restore.py restores files. Entry
points: `Undo`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from treadle._internal.json_text import decode_json, encode_json
from treadle.types import Time, Value, now

UNDO_FOLDER = "undo"
"""Name of the directory inside Treadle's own directory."""
MAX_BYTES = 512 * 1024 * 1024
"""Maximum size of all runs together, in bytes; the oldest runs are removed first."""
MAX_RUN_BYTES = 128 * 1024 * 1024

logger = logging.getLogger("treadle")


class Before(Value, frozen=True, kw_only=True):
    """A file that is about to be changed."""

    path: str
    """Absolute path, without links."""
    content: bytes | None
    """Content of the file; None if it did not exist."""
    after: str | None
    """Hash of the planned content. None if the file will be removed."""
    made: tuple[str, ...] = ()
    """Directories that will be created for it, outermost first."""
    temporary: str = ""
    """Name of the temporary file for the new content, in the same directory. A process that is
    killed may leave it there.
    """


class FileChange(Value, frozen=True, kw_only=True):
    """An announced change of a file by a call. Only the file shows whether it took place."""

    call_id: str
    path: str
    before: str | None
    """Hash of the previous content. None if the file did not exist."""
    after: str | None
    """Hash of the new content; None if the file is removed."""
    made: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()
    """Temporary files, one for each attempt."""
    at: Time


def content_hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


class Undo:
    """Directory of stored contents, with a subdirectory for each run.

    Safe for use by several threads and processes, because each file is written atomically.
    """

    def __init__(self, folder: Path) -> None:
        """Create the store. Its directory is created on first use."""
        self.folder = folder
        self._lock = threading.Lock()
        """Held while old runs are removed, so that only one thread counts sizes at a time."""
        self._sizes: dict[str, int] = {}
        """Sizes in bytes of the runs stored by this process."""

    def keep(self, run_id: str, call_id: str, before: Before) -> None:
        """Store the content durably. A failure is logged, and the change can then not be undone."""
        try:
            self._keep(run_id, call_id, before)
        except OSError as e:
            logger.warning(
                (
                    "what %r was before call %s of run %s could not be kept, so that it cannot be "
                    "undone: %s"
                ),
                before.path,
                call_id,
                run_id,
                e,
            )

    def _keep(self, run_id: str, call_id: str, before: Before) -> None:
        content, folder = before.content, self._of(run_id)
        if not self._has_room(run_id, len(content or b"")):
            raise OSError(
                f"more than {MAX_RUN_BYTES // 1024 // 1024} MiB of this run are kept already"
            )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        kept = None if content is None else content_hash(content)
        if content is not None and kept is not None and not (folder / kept).exists():
            _put(folder / kept, content)
        place = folder / f"{_name(f'{call_id}/{before.path}')}.json"
        made, temporaries = before.made, (before.temporary,)
        if (cut := _read(place)) is not None:  # repeated call, whose process was killed before
            made, temporaries = (*cut.made, *made), (*cut.temporaries, *temporaries)
        _put(
            place,
            encode_json(
                FileChange(
                    call_id=call_id,
                    path=before.path,
                    before=kept,
                    after=before.after,
                    made=made,
                    temporaries=temporaries,
                    at=now(),
                )
            ),
        )

    def changes(self, run_id: str) -> dict[str, list[FileChange]]:
        """Return the changes of a run by call id, oldest first. Raises OSError."""
        found: dict[str, list[FileChange]] = {}
        for path in self._of(run_id).glob("*.json"):
            if (change := _read(path)) is not None:
                found.setdefault(change.call_id, []).append(change)
        for changes in found.values():
            changes.sort(key=lambda change: change.at)
        return found

    def content(self, run_id: str, kept: str) -> bytes | None:
        """Return stored content. None if it is missing or damaged. Raises OSError."""
        try:
            data = (self._of(run_id) / kept).read_bytes()
        except FileNotFoundError:
            return None
        return data if content_hash(data) == kept else None

    def forget(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            shutil.rmtree(self._of(run_id), ignore_errors=True)

    def _of(self, run_id: str) -> Path:
        return self.folder / _name(run_id)

    def _has_room(self, run_id: str, size_bytes: int) -> bool:
        with self._lock:
            if run_id not in self._sizes:
                self._sizes[run_id] = _size(self._of(run_id))
                self._make_room(run_id)
            has_room = self._sizes[run_id] + size_bytes <= MAX_RUN_BYTES
            self._sizes[run_id] += size_bytes if has_room else 0
            return has_room

    def _make_room(self, run_id: str) -> None:
        """Remove old runs to make room for this one."""
        others = sorted(self._others(run_id))
        left = sum(size for _, size, _ in others) - (MAX_BYTES - MAX_RUN_BYTES)
        for _, size, path in others:
            if left <= 0:
                return
            shutil.rmtree(path, ignore_errors=True)
            left -= size

    def _others(self, run_id: str) -> Iterator[tuple[float, int, str]]:
        """Return modification time, size and path of every other run."""
        with suppress(OSError), os.scandir(self.folder) as runs:
            for run in runs:
                if run.name != _name(run_id):
                    with suppress(OSError):
                        yield run.stat().st_mtime, _size(Path(run.path)), run.path


def _name(given: str) -> str:
    """Return a safe file name. Ids also come from other programs and may contain any character."""
    return hashlib.blake2b(given.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _size(folder: Path) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _read(path: Path) -> FileChange | None:
    """Read a record. None if there is none, or if it was written by another version or program.
    Raises OSError.
    """
    with suppress(FileNotFoundError, ValueError):
        return decode_json(path.read_bytes(), FileChange)
    return None


def _put(path: Path, data: bytes) -> None:
    """Write a file atomically and durably."""
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync(path.parent)


def _sync(folder: Path) -> None:
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
