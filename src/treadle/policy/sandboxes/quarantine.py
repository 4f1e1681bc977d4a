"""Moving leftovers to quarantine, without following links and despite removed permissions. Entry
point: `put_away`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle.policy.sandboxes.sight import FoundPath

MAX_NAME = 60
"""Number of characters of a path that are part of its name in quarantine."""

MAX_ALIKE = 1_000_000


def put_away(root: str, path: str, place: Path, old: FoundPath | None = None) -> str:
    """Move the entry at `path` below `root` to quarantine and return its new location. Raises
    OSError.

    If it cannot leave its directory, it stays there under a name that no program reads. It is never
    copied, because it may be endless or not a regular file. `old`: link to restore.
    """
    target = _free(place, path)
    with _opened_above(root, path) as (above, name):
        try:
            _renamed(above, name, str(target), None)
            where = str(target)
        except OSError:
            free = (f".treadle-{target.name}-{number}" for number in range(MAX_ALIKE))
            inner = next(inner for inner in free if not _is_there(inner, above))
            _renamed(above, name, inner, above)
            _close(inner, above)
            where = os.path.join(root, os.path.dirname(path), inner)
        if old is not None:
            with suppress(OSError):
                os.symlink(old.identity[2], name, dir_fd=above)
    return where


def _free(place: Path, path: str) -> Path:
    """Return a short descriptive name that is valid for file systems and git."""
    name = "moved-" + re.sub(r"[^A-Za-z0-9._-]", "-", path)[-MAX_NAME:]
    return next(
        target
        for number in range(MAX_ALIKE)
        if not os.path.lexists(target := place / (f"{name}~{number}" if number else name))
    )


def _is_there(name: str, above: int) -> bool:
    try:
        os.lstat(name, dir_fd=above)
    except FileNotFoundError:
        return False
    return True


def _close(name: str, above: int) -> None:
    """Make a directory that stays in the workspace unreadable, with all its contents."""
    with suppress(OSError):
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        try:
            os.fchmod(folder, 0)
        finally:
            os.close(folder)


@contextmanager
def _opened_above(root: str, path: str) -> Generator[tuple[int, str]]:
    """Open the directory of `path`, and return it with the name there. No link is followed, because
    a running command may have placed one.
    """
    *folders, name = path.split("/")
    above = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = inner
        yield above, name
    finally:
        os.close(above)


def _renamed(above: int, name: str, target: str, into: int | None) -> None:
    """Rename an entry, after restoring permissions that a command may have removed."""
    try:
        os.rename(name, target, src_dir_fd=above, dst_dir_fd=into)
    except PermissionError:
        os.fchmod(above, stat.S_IMODE(os.fstat(above).st_mode) | 0o700)
        if stat.S_ISDIR((known := os.lstat(name, dir_fd=above)).st_mode):
            os.chmod(name, stat.S_IMODE(known.st_mode) | 0o700, dir_fd=above)
        os.rename(name, target, src_dir_fd=above, dst_dir_fd=into)
