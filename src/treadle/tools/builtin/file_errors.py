"""Errors of file access, worded for the model, with suggestions for a mistyped path. Entry point:
`telling`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from treadle.tools.builtin.files import locate, parent_of, printable, shown
from treadle.tools.builtin.folder import NotARegularFile
from treadle.tools.builtin.walk import walk
from treadle.tools.tool import ToolFailed

_LOOKED_AT = 5_000


@contextmanager
def telling(doing: str, path: str, cwd: Path) -> Generator[None]:
    """Convert an OSError raised inside the block to ToolFailed(happened=False). `doing` is a verb:
    'read', 'write', 'list'.
    """
    try:
        yield
    except OSError as e:
        raise ToolFailed(_why(e, doing, path, cwd), happened=False) from e


def _why(error: OSError, doing: str, path: str, cwd: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return _missing(path, locate(path, cwd), cwd)
    if isinstance(error, NotARegularFile):
        return _not_a_file(path, error.kind, doing)
    if isinstance(error, NotADirectoryError):
        return f"{path!r} cannot be: something on the way to it is not a directory."
    if isinstance(error, PermissionError):
        return f"No permission to {doing} {path!r}. Nothing was changed."
    if error.errno == errno.ELOOP:
        return (
            f"{path!r} is a loop of symbolic links, or its directories were changed while it was "
            "opened."
        )
    return f"Could not {doing} {path!r}: {error.strerror or error}."


def _not_a_file(path: str, kind: str, doing: str) -> str:
    if kind == "a directory" and doing == "write":
        return f"{path!r} is a directory: pass the path of a file inside it. Nothing was written."
    if kind == "a directory":
        return f"{path!r} is a directory. Use ls to list it, or glob and grep to look inside."
    if kind == "a symbolic link":
        return f"{path!r} is a symbolic link that leads back to itself."
    return f"{path!r} is {kind}, not a file: it was not opened."


def _missing(path: str, place: Path, cwd: Path) -> str:
    link = ""
    with suppress(OSError):
        link = f" (it is a symbolic link to {os.readlink(os.path.join(cwd, path))!r})"
    tilde = " '~' is not expanded: pass the whole path." if path.startswith("~") else ""
    close = _suggestions(place, cwd)
    hint = (
        f" Did you mean {' or '.join(repr(c) for c in close)}?"
        if close
        else " Use glob or ls to find it."
    )
    return f"{path!r} does not exist{link}.{tilde}{hint}"


def _suggestions(place: Path, cwd: Path) -> list[str]:
    """Return up to three similar paths: first the same name under `cwd` with fewer leading
    directories, then similar names in the same directory, then the same name elsewhere below.
    """
    from difflib import get_close_matches  # noqa: PLC0415  only for a path that is missing

    tails = [cwd.joinpath(*place.parts[i:]) for i in range(1, len(place.parts))]
    found = [shown(tail, cwd) for tail in tails if tail != place and tail.exists()][:1]
    try:
        with parent_of(place) as folder, folder.entries() as entries:
            names = [entry.name for entry, _ in zip(entries, range(2_000), strict=False)]
    except OSError:
        names = []
    wanted = place.name.lower()
    alike = sorted(name for name in names if wanted in name.lower() or name.lower() in wanted)
    alike += get_close_matches(place.name, names, n=3)
    found += [shown(place.parent / name, cwd) for name in dict.fromkeys(alike)]
    return [*dict.fromkeys(found or _namesakes(place, cwd))][:3]


def _namesakes(place: Path, cwd: Path) -> list[str]:
    """Search below `cwd` for files of the same name, up to a limit."""
    root = Path(os.path.realpath(cwd))
    if not place.is_relative_to(root):
        return []
    try:
        return [
            printable(file.path)
            for file in islice(walk(os.fspath(root)), _LOOKED_AT)
            if file.name == place.name
        ]
    except OSError:
        return []
