"""Guarded files and folders that changed while a command ran: a rename outside the sandbox takes
the mount off, and the command could write there.

A file that is another one than before (by its inode) and has other content is moved to quarantine
and the old content put back, but for plain settings of git. The same file with new content was
written from outside, unless it was moved away and back. Entry: `states_of`, `replaced`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from treadle._internal.stamps import Stamp, stamp_of
from treadle.policy.guarded_paths import PathGuard, guard_of
from treadle.policy.sandboxes.git_files import MAX_BYTES, read
from treadle.policy.sandboxes.plain_settings import is_plain_setting
from treadle.policy.sandboxes.quarantine import put_away
from treadle.policy.sandboxes.sight import FoundPath, Sight
from treadle.policy.sandboxes.walking import GROWS

MAX_STATES = 2_000
"""Maximum number of remembered entries over all guarded folders."""
MAX_TEXT = MAX_BYTES
"""Maximum remembered bytes of guarded files. Larger files are still moved away, but nothing is put
back.
"""


class State(NamedTuple):
    stamp: Stamp
    mode: int
    text: bytes | None
    """The content of a file or the target of a link; None for a folder and for what is not kept."""


def kept_as_they_are(sight: Sight) -> list[FoundPath]:
    """Return what no command of any kind may write. The workflows of CI are written by some."""
    return [
        found
        for found in sight.guarded.values()
        if guard_of(f"/w/{found.path}") is not PathGuard.REVIEWED
    ]


def states_of(
    root: str, guarded: Iterable[FoundPath], known: Mapping[str, State]
) -> dict[str, State]:
    """Read what stands at guarded places, by path.

    `known`: an earlier result, from which unchanged files are taken.
    """
    found: dict[str, State] = {}
    left = MAX_TEXT
    for path in _places(root, guarded, most=MAX_STATES):
        place = os.path.join(root, path)
        with suppress(OSError):
            status = os.lstat(place)
            stamp, old = stamp_of(status), known.get(path)
            if old is not None and old.stamp == stamp and stamp.is_settled():
                found[path] = old
            else:
                found[path] = State(
                    stamp,
                    status.st_mode,
                    _content(place, status) if status.st_size <= left else None,
                )
            left -= len(found[path].text or b"")
    return found


def _places(root: str, guarded: Iterable[FoundPath], *, most: int) -> Iterator[str]:
    """Each guarded file and folder, and all that is in the folders but for those that hold too
    many.
    """
    for found in guarded:
        path = _real(root, found)
        if found.kind == "git" or path.rpartition("/")[2].casefold() in GROWS:
            continue
        inside = [path] if found.kind == "file" else [path, *islice(_below(root, path), most)]
        if len(inside) <= most:
            most -= len(inside)
            yield from inside


def _below(root: str, path: str) -> Iterator[str]:
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(f"{root}/{folder}") as entries:
            for entry in entries:
                yield f"{folder}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{folder}/{entry.name}")


def _real(root: str, found: FoundPath) -> str:
    return (
        found.leads.removeprefix(f"{root}/") if found.leads.startswith(f"{root}/") else found.path
    )


def _content(place: str, status: os.stat_result) -> bytes | None:
    return os.fsencode(os.readlink(place)) if stat.S_ISLNK(status.st_mode) else read(place)


def replaced(
    root: str,
    guarded: Iterable[FoundPath],
    before: Mapping[str, State],
    quarantine: Callable[[], Path],
) -> list[str]:
    """Undo changes at guarded places, and remove what appeared there. Returns one sentence for
    each.
    """
    said: list[str] = []
    gone: list[str] = []
    remembered = (found for found in guarded if _real(root, found) in before)
    for path in sorted({*before, *_places(root, remembered, most=sys.maxsize)}):
        old = before.get(path)
        if not path.startswith(tuple(gone)) and not _is_as_before(root, path, old):
            said.append(_put_back(root, path, old, quarantine()))
            gone.append(f"{path}/")
    return said


def _is_as_before(root: str, path: str, old: State | None) -> bool:
    place = os.path.join(root, path)
    try:
        status = os.lstat(place)
    except OSError:
        return True  # nothing is left there
    if old is None:
        return False
    stamp = stamp_of(status)
    if stamp == old.stamp or (stat.S_ISDIR(status.st_mode) and stat.S_ISDIR(old.mode)):
        return True
    if (stamp.device, stamp.inode) == (old.stamp.device, old.stamp.inode) and stat.S_ISREG(
        status.st_mode
    ):
        return True  # its mount was never off, so a process outside has written it
    text = _content(place, status)
    if text is None or old.text is None or stat.S_IFMT(status.st_mode) != stat.S_IFMT(old.mode):
        return False
    if os.path.basename(path) in ("config", "config.worktree"):
        return all(is_plain_setting(*line) for line in set(_lines(text)) - set(_lines(old.text)))
    return text == old.text and not status.st_mode & ~old.mode & 0o111


def _put_back(root: str, path: str, old: State | None, place: Path) -> str:
    try:
        where = put_away(root, path, place)
        if old is None or old.text is None:
            return (
                f"{path!r} came up or changed while a command ran, which may have written it: it "
                f"was moved to {where!r}"
            )
        if stat.S_ISLNK(old.mode):
            os.symlink(os.fsdecode(old.text), os.path.join(root, path))
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            with open(
                os.open(os.path.join(root, path), flags, stat.S_IMODE(old.mode) & 0o777), "wb"
            ) as file:
                file.write(old.text)
    except OSError as e:
        return (
            f"{path!r} changed while a command ran, which may have written it, and could not be "
            f"put back: {e.strerror or e}. Look at it"
        )
    return (
        f"{path!r} changed while a command ran, which may have written it: it was moved to "
        f"{where!r}, and the old one put back. "
        "If you changed it yourself, do so again once no command runs"
    )


def _lines(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    section = b""
    for line in (line.strip(b" \t") for line in text.split(b"\n")):
        if line.startswith(b"["):
            section = line
        yield section, line
