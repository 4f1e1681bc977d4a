"""Original contents of files that tools changed, kept by hash in private files so that a user can
restore them.

They are in Treadle's own folder and not in the journal: files must be restored byte for byte, so
secrets cannot be removed from them, whereas a journal is exported, shown and searched. A file is
kept before it is changed, so no crash can come between the two. tools/builtin/restore.py restores
them. Entry points: `Undo`.
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
"""Name of the folder in Treadle's own folder."""
MAX_BYTES = 512 * 1024 * 1024
"""Maximum size for all runs together; the oldest are removed first."""
MAX_RUN_BYTES = 128 * 1024 * 1024

logger = logging.getLogger("treadle")


class Before(Value, frozen=True, kw_only=True):
    """A file that is about to be changed."""

    path: str
    """Absolute, without links."""
    content: bytes | None
    """Content of the file; None if it did not exist."""
    after: str | None
    """The hash of what it will hold; None: it will be gone."""
    made: tuple[str, ...] = ()
    """Directories that are made for it, the outermost first."""
    temporary: str = ""
    """Name of the temporary file for the new content, in the same folder: a process that is killed
    may leave it there.
    """


class FileChange(Value, frozen=True, kw_only=True):
    """An announced change of a file by a call. Only the file shows whether it took place."""

    call_id: str
    path: str
    before: str | None
    """The hash of what it held; None: it was not there."""
    after: str | None
    """Hash of the new content; None if the file is removed."""
    made: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()
    """Temporary files, one for each attempt."""
    at: Time


def content_hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


class Undo:
    """A folder with one folder for each run.

    Safe from any thread, and from several processes, since each file is put there whole.
    """

    def __init__(self, folder: Path) -> None:
        """Made when something is first kept."""
        self.folder = folder
        self._lock = threading.Lock()
        """Held while room is made: of two threads, one counts."""
        self._sizes: dict[str, int] = {}
        """Sizes of the runs that were kept by this process."""

    def keep(self, run_id: str, call_id: str, before: Before) -> None:
        """Keep the content durably. If it cannot be kept, the log reports it, and the change cannot
        be undone.
        """
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
        if (cut := _read(place)) is not None:  # a call that is repeated: its process was killed
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
        """None where it is gone, or is not what it was. Raises OSError."""
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
        """Remove old runs so that this run can be kept in full."""
        others = sorted(self._others(run_id))
        left = sum(size for _, size, _ in others) - (MAX_BYTES - MAX_RUN_BYTES)
        for _, size, path in others:
            if left <= 0:
                return
            shutil.rmtree(path, ignore_errors=True)
            left -= size

    def _others(self, run_id: str) -> Iterator[tuple[float, int, str]]:
        """When each was last changed, its size and its place."""
        with suppress(OSError), os.scandir(self.folder) as runs:
            for run in runs:
                if run.name != _name(run_id):
                    with suppress(OSError):
                        yield run.stat().st_mtime, _size(Path(run.path)), run.path


def _name(given: str) -> str:
    """Ids come from other programs too, and may hold anything."""
    return hashlib.blake2b(given.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _size(folder: Path) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(file.stat().st_size for file in files)
    except OSError:
        return 0


def _read(path: Path) -> FileChange | None:
    """None where there is none, or it is another version's or not ours. Raises OSError."""
    with suppress(FileNotFoundError, ValueError):
        return decode_json(path.read_bytes(), FileChange)
    return None


def _put(path: Path, data: bytes) -> None:
    """Whole and durable, or not at all."""
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
