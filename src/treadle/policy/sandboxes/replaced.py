"""Guarded files and directories that changed while a command ran: a rename outside the sandbox
removes the mount, and the command could then write there.

A file that has been replaced (its inode differs) and has other content is quarantined and the old
content restored, except for plain settings of git. If the inode is the same, the content was
written from outside, unless the file was moved away and back. Entry: `states_of`, `replaced`.
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
"""Maximum number of stored entries over all guarded directories."""
MAX_TEXT = MAX_BYTES
"""Maximum number of stored bytes of guarded files. Larger files are still quarantined, but their
content is not restored.
"""


class State(NamedTuple):
    stamp: Stamp
    mode: int
    text: bytes | None
    """Content of the file or target of the link; None for a directory and for content that is not
    stored.
    """


def kept_as_they_are(sight: Sight) -> list[FoundPath]:
    """Return the places that no command may write. Some commands may write CI workflows."""
    return [
        found
        for found in sight.guarded.values()
        if guard_of(f"/w/{found.path}") is not PathGuard.REVIEWED
    ]


def states_of(
    root: str, guarded: Iterable[FoundPath], known: Mapping[str, State]
) -> dict[str, State]:
    """Read the state of guarded places, by path.

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
    """Yield each guarded file and directory, and the contents of these directories unless there are
    too many.
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
    """Undo changes at guarded places, remove new entries there, and return a sentence for each."""
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
        return True  # the place is empty
    if old is None:
        return False
    stamp = stamp_of(status)
    if stamp == old.stamp or (stat.S_ISDIR(status.st_mode) and stat.S_ISDIR(old.mode)):
        return True
    if (stamp.device, stamp.inode) == (old.stamp.device, old.stamp.inode) and stat.S_ISREG(
        status.st_mode
    ):
        return True  # its mount was never removed, so an outside process wrote it
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
                f"{path!r} appeared or changed while a command ran, which may have written it: it "
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
            f"put back: {e.strerror or e}. Check it"
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
