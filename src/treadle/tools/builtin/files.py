"""File access of the tools: resolving paths, reading, atomic replacement, and error messages for
the model.

Every function blocks: call it in a worker thread. Opening is in folder.py, decoding in text.py.
Entry points: `place_of`, `load`, `save`.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from treadle.tools.builtin.folder import NotARegularFile, OpenFolder
from treadle.tools.file_history import Before, content_hash
from treadle.tools.tool import InvalidArguments, ToolContext, ToolFailed

MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Maximum size in bytes of a file that can be edited and is compared by content. Larger files are
compared by size, modification time and inode.
"""
MAX_PATH_CHARS = 4096
TEMPORARY = ".treadle-"
"""Name prefix of the temporary files that receive new content."""
_SAMPLE = 64 * 1024
_TRIES = 5

_LOCKS = tuple(threading.Lock() for _ in range(64))


@contextmanager
def changing(place: Path) -> Generator[None]:
    """Lock a file during a change, so that no other tool in this process replaces it between the
    check and the replacement.

    Thread locks, because the work runs in threads and one set of tools may serve several event
    loops. Paths may share a lock.
    """
    with changing_all([place]):
        yield


@contextmanager
def changing_all(places: Iterable[Path]) -> Generator[None]:
    """Lock several files as `changing` does.

    Each lock is acquired once and in a fixed order, so that two calls cannot deadlock.
    """
    with ExitStack() as held:
        for n in sorted({hash(place) % len(_LOCKS) for place in places}):
            held.enter_context(_LOCKS[n])
        yield


# ---------------------------------------------------------------- paths


def check_path(path: str) -> None:
    """Reject an impossible path. Raises InvalidArguments."""
    if not path:
        raise InvalidArguments(
            "The path is empty: pass the path of a file or directory, such as 'src/app.py'."
        )
    if "\0" in path:
        raise InvalidArguments(
            f"The path {path!r} contains a NUL character, which no file name can contain."
        )
    if len(path) > MAX_PATH_CHARS:
        raise InvalidArguments(
            f"The path is {len(path):,} characters long; at most {MAX_PATH_CHARS:,} are possible."
        )


def locate(path: str, cwd: Path) -> Path:
    """Resolve `path` from `cwd`, including links. `~` and `$` are ordinary characters. It need not
    exist.

    Raises ToolFailed if links on the way keep changing.
    """
    for _ in range(_TRIES):
        with suppress(OSError):  # a link that is gone between two looks at it
            return Path(os.path.realpath(os.path.join(cwd, path)))
    raise ToolFailed(
        f"{path!r} is being changed by another process while it is looked up. Nothing was done; "
        "try again."
    )


def place_of(path: str, ctx: ToolContext[Any]) -> Path:
    """Return the path that the policy checked for a call. Links created since are not followed."""
    judged = ctx.places.get(path)
    return locate(path, ctx.cwd) if judged is None else Path(judged)


def shown(place: Path | str, cwd: Path) -> str:
    """Return the path as the model should call it: relative inside `cwd`, with unprintable
    characters escaped.
    """
    text = os.fspath(place)
    inside = os.path.join(os.path.realpath(cwd), "")
    return printable(text[len(inside) :] if text.startswith(inside) and text != inside else text)


_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable(name: str) -> str:
    """Escape control characters and invalid UTF-8, so that a file name fits on one line."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def printable_line(text: str) -> str:
    """Replace control characters, so that a line of a file stays one line."""
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] == "\t" else "\ufffd", text)


# ---------------------------------------------------------------- reading


@contextmanager
def parent_of(place: Path, *, create: bool = False) -> Generator[OpenFolder]:
    with OpenFolder.at(os.fspath(place.parent), create=create) as folder:
        yield folder


def open_file(place: Path) -> int:
    """Open a descriptor for reading. Raises OSError, ToolFailed for a file that tools cannot
    read.
    """
    if place.parts[1:2] == ("proc",) and place.name == "environ":
        raise ToolFailed(
            f"{place} holds the environment of a process, and keys with it: it is not read."
        )
    if place.parent == place:
        raise NotARegularFile("a directory")
    with parent_of(place) as folder:
        return folder.open_file(place.name)


class Loaded(msgspec.Struct, frozen=True):
    data: bytes
    """Content of the file, or the beginning of one larger than 16 MiB."""
    is_whole: bool
    digest: str
    status: os.stat_result


def load(place: Path) -> Loaded | None:
    """Return the file as it is now; None if it does not exist. Raises OSError."""
    try:
        fd = open_file(place)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        data = file.read(MAX_WHOLE_BYTES + 1)
    if len(data) > MAX_WHOLE_BYTES:
        return Loaded(data[:_SAMPLE], False, digest_of_large(status), status)
    return Loaded(data, True, digest_of(data), status)


def digest_of(data: bytes) -> str:
    import hashlib  # noqa: PLC0415  8 ms of start-up for what the first file needs

    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digest_of_large(status: os.stat_result) -> str:
    """Return a substitute for the hash of a file that is too large to be hashed each time."""
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"


# ---------------------------------------------------------------- read before changed


def must_be_seen(ctx: ToolContext[Any], place: Path, digest: str) -> None:
    """Check that the model has read the current content in this session. Raises ToolFailed."""
    seen = ctx.seen_files.get(os.fspath(place))
    name = shown(place, ctx.cwd)
    if seen is None:
        raise ToolFailed(
            f"You have not read {name!r} in this session. Read it with the read tool first, then "
            "make this call again."
        )
    if seen != digest:
        raise ToolFailed(
            f"{name!r} has changed since you last read it (by a command or another process). "
            "Read it again, then make this call again."
        )


# ---------------------------------------------------------------- writing


Keep: TypeAlias = Callable[[Before], None]
"""Callback that records a file before it is changed (ToolContext.before_change)."""


def save(
    place: Path,
    data: bytes,
    old: Loaded | None,
    keep: Keep | None = None,
    *,
    like: os.stat_result | None = None,
) -> str:
    """Replace the file atomically, or create it with its directories, so that readers see the old
    content or the new. Raises OSError; ToolFailed if the file has changed or is read-only.

    `old` is the file as last seen, None for a new one; it must be unchanged. Owner (if permitted)
    and mode are kept. `keep` is called before anything is created or changed, except for files over
    16 MiB. `like`: file from which a new file takes owner and mode. Returns the digest of the new
    content.
    """
    status = old.status if old is not None else like
    _must_be_writable(place, old)
    temporary = f"{TEMPORARY}{os.urandom(8).hex()}.tmp"
    if keep is not None and (old is None or old.is_whole):
        made = _missing_above(place) if old is None else ()
        keep(
            Before(
                path=os.fspath(place),
                content=None if old is None else old.data,
                after=content_hash(data),
                made=made,
                temporary=temporary,
            )
        )
    with parent_of(place, create=True) as folder:
        fd = folder.create_file(temporary, 0o666 if status is None else 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                _keep_owner_and_mode(fd, status)
                os.fsync(fd)
            _must_be_as(place, old)
            folder.replace(temporary, place.name)
        except BaseException:
            with suppress(OSError):
                folder.remove_file(temporary)
            raise
        try:
            folder.sync()
        except OSError as e:
            raise ToolFailed(
                (
                    f"{place} was written, but the disk failed to store its name "
                    f"({e.strerror or e}): look at the file."
                ),
                happened=True,
            ) from e
    return digest_of(data) if len(data) <= MAX_WHOLE_BYTES else digest_of_large(os.stat(place))


def remove(place: Path, old: Loaded, keep: Keep | None = None) -> None:
    """Remove the file, which must be unchanged since it was last seen. Calls `keep` first.

    Raises OSError, ToolFailed as `save` does.
    """
    _must_be_writable(place, old)
    if keep is not None and old.is_whole:
        keep(Before(path=os.fspath(place), content=old.data, after=None))
    with parent_of(place) as folder:
        _must_be_as(place, old)
        folder.remove_file(place.name)
        folder.sync()


def _must_be_as(place: Path, old: Loaded | None) -> None:
    now = load(place)
    if (now.digest if now is not None else None) != (old.digest if old is not None else None):
        raise ToolFailed(
            f"{place} was changed by another process just now, and nothing was written. Read it "
            "again, then make this call again."
        )


def _missing_above(place: Path) -> tuple[str, ...]:
    """Return the missing directories above the file, outermost first."""
    missing: list[str] = []
    for parent in place.parents:
        if os.path.lexists(parent):
            break
        missing.insert(0, os.fspath(parent))
    return tuple(missing)


def link_notes(old: Loaded | None) -> list[str]:
    """Return notes for the model about other hard links to a replaced file."""
    others = old.status.st_nlink - 1 if old is not None else 0
    return (
        [
            (
                f"It had {others} other hard link{'s' if others > 1 else ''}, which "
                f"keep{'s' if others == 1 else ''} the old content."
            )
        ]
        if others > 0
        else []
    )


def _must_be_writable(place: Path, old: Loaded | None) -> None:
    """Raise ToolFailed for a read-only file. Replacing a file needs permission only for its
    directory, so the operating system would not refuse it.
    """
    if old is not None and (not old.status.st_mode & 0o222 or not os.access(place, os.W_OK)):
        mode = f"{old.status.st_mode & 0o7777:04o}"
        raise ToolFailed(
            f"{place} is read-only (mode {mode}), and nothing was written. Change its mode "
            "first, if that is what the user wants."
        )


def _keep_owner_and_mode(fd: int, old: os.stat_result | None) -> None:
    if old is None or not hasattr(os, "fchown"):
        return
    with suppress(PermissionError):  # only root may change the owner
        os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & 0o7777)


# ---------------------------------------------------------------- messages for the model
