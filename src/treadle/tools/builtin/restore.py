"""Undo of changes by `write` and `edit`, for files without later changes.

The previous contents are kept by file_history.py. The caller chooses the calls and reports the
result. Entry points: `restore`, `compare`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from treadle.tools.builtin import files
from treadle.tools.builtin.folder import OpenFolder
from treadle.tools.file_history import FileChange, content_hash
from treadle.tools.tool import ToolFailed
from treadle.types import Value

Action: TypeAlias = Literal["restored", "removed", "unchanged", "refused"]
"""removed: the run had created the file. unchanged: it already has its previous content. refused:
not changed, with the reason in `why`.
"""

Content: TypeAlias = Callable[[str], "bytes | None"]
"""Function that returns stored content by its hash."""

_GONE = "its earlier content is no longer stored"
_TOO_LARGE = f"it is larger than {files.MAX_WHOLE_BYTES // 1024 // 1024} MiB now"


class Restored(Value, frozen=True, kw_only=True):
    """Result for one file."""

    path: str
    action: Action
    why: str = ""
    calls: tuple[str, ...]


class ChangedFile(Value, frozen=True, kw_only=True):
    """File before the first of the given changes, and now."""

    path: str
    before: bytes | None
    """Content before; None if the file did not exist, or is unknown with the reason in `why`."""
    now: bytes | None
    """Current content; None if the file does not exist, or is unreadable with the reason in
    `why`.
    """
    why: str = ""


def restore(
    changes: Sequence[FileChange], content: Content, *, failed: Collection[str] = (), apply: bool
) -> list[Restored]:
    """Restore file by file, in the order of their first change. `changes` are in the order of the
    calls. Without `apply`, only report what would be done. Never raises: failures are reported as
    refused, with the reason.

    `failed`: calls that ended in an error, whose changes most likely did not happen.

    A file is restored to its content before the first change, if its current content is the result
    of a change, and each change started from the result of the previous one.
    """
    by_path = _by_path(changes)
    restored = [
        _file(path, theirs, content, failed, apply=apply) for path, theirs in by_path.items()
    ]
    if apply:
        for change in changes:
            _remove_temporaries(change)
        _remove_folders(
            {
                folder
                for one in restored
                if one.action == "removed"
                for folder in by_path[one.path][0].made
            }
        )
    return restored


def compare(
    changes: Sequence[FileChange], content: Content, *, failed: Collection[str] = ()
) -> list[ChangedFile]:
    """Compare the content of each file before these changes with its current content, by path.
    Unchanged files are omitted. Never raises.
    """
    compared = (
        _compared(path, theirs, content, failed)
        for path, theirs in sorted(_by_path(changes).items())
    )
    return [file for file in compared if file.why or file.before != file.now]


def _by_path(changes: Iterable[FileChange]) -> dict[str, list[FileChange]]:
    by_path: dict[str, list[FileChange]] = {}
    for change in changes:
        by_path.setdefault(change.path, []).append(change)
    return by_path


def _compared(
    path: str, changes: list[FileChange], content: Content, failed: Collection[str]
) -> ChangedFile:
    before: bytes | None = None
    try:
        old = files.load(Path(path))
        changes = _that_came_to_be(changes, failed, _hash(old))
        if not changes:
            return ChangedFile(path=path, before=None, now=None)
        first = changes[0].before
        before = None if first is None else content(first)
        if first is not None and before is None:
            return ChangedFile(path=path, before=None, now=None, why=_GONE)
        if old is not None and not old.is_whole:
            return ChangedFile(path=path, before=before, now=None, why=_TOO_LARGE)
    except ToolFailed as e:
        return ChangedFile(path=path, before=before, now=None, why=e.message)
    except OSError as e:
        return ChangedFile(path=path, before=before, now=None, why=f"{e.strerror or e}")
    return ChangedFile(path=path, before=before, now=None if old is None else old.data)


def _file(
    path: str, changes: list[FileChange], content: Content, failed: Collection[str], *, apply: bool
) -> Restored:
    place, calls = Path(path), tuple(change.call_id for change in changes)
    try:
        with files.changing(place):
            old = files.load(place)
            changes = _that_came_to_be(changes, failed, _hash(old))
            action, why = (
                _put_back(place, old, changes, content, apply=apply)
                if changes
                else ("unchanged", "")
            )
    except ToolFailed as e:
        action, why = "refused", e.message
    except OSError as e:
        action, why = "refused", f"{e.strerror or e}"
    return Restored(path=path, action=action, why=why, calls=calls)


def _hash(old: files.Loaded | None) -> str | None:
    return None if old is None else content_hash(old.data)


def _that_came_to_be(
    changes: list[FileChange], failed: Collection[str], current: str | None
) -> list[FileChange]:
    """Return the changes, without those of failed calls that left no trace."""
    next_before = [*(change.before for change in changes[1:]), current]
    return [
        change
        for change, found in zip(changes, next_before, strict=True)
        if change.call_id not in failed or change.after == found
    ]


def _put_back(
    place: Path,
    old: files.Loaded | None,
    changes: list[FileChange],
    content: Content,
    *,
    apply: bool,
) -> tuple[Action, str]:
    if old is not None and not old.is_whole:
        return "refused", _TOO_LARGE
    current, first = _hash(old), changes[0]
    if current == first.before:
        return "unchanged", ""
    if current not in {change.after for change in changes}:
        return (
            "refused",
            "it has been removed since" if old is None else "it has been changed since",
        )
    if any(
        later.before != earlier.after and later.before != earlier.before
        for earlier, later in pairwise(changes)
    ):
        return "refused", "something else changed it between two of these calls"
    if first.before is None:
        if apply:
            _remove(place)
        return "removed", ""
    before = content(first.before)
    if before is None:
        return "refused", _GONE
    if apply:
        files.save(place, before, old)
    return "restored", ""


def _remove(place: Path) -> None:
    with files.parent_of(place) as folder:
        folder.remove_file(place.name)
        folder.sync()


def _remove_temporaries(change: FileChange) -> None:
    """Remove temporary files that killed processes have left."""
    for name in change.temporaries:
        if name.startswith(files.TEMPORARY) and "/" not in name:
            with suppress(OSError), files.parent_of(Path(change.path)) as folder:
                folder.remove_file(name)


def _remove_folders(made: Iterable[str]) -> None:
    """Remove directories that were created for the files and are now empty."""
    for path in sorted(made, key=len, reverse=True):
        with suppress(OSError), OpenFolder.at(os.path.dirname(path)) as parent:
            parent.remove_folder(os.path.basename(path))
