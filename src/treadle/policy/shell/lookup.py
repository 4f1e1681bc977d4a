"""Check that a program's name resolves to the program that the tables describe. Entry point:
`doubt_about`.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache

from treadle._internal.environment import find_shell

_OTHERS_MAKE = frozenset({"busybox", "toybox", "coreutils", "volta-shim", "aqua-proxy"})
"""Programs that dispatch to others, with different options or as files in the workspace configure.
Needed by: `rev a.txt` (contained), where rev is a link to busybox.
"""
_BY_NAME = re.compile(rb"#!\s*\S*/env\s+(?:-S\s*)?([\w.+-]+)")


def doubt_about(name: str, root: str) -> str | None:
    """Return the reason why `name` may not run the program that the tables describe; None if it
    certainly does.

    `root`: the resolved workspace. Earlier commands can have written programs there, and shims read
    configuration from there.
    """
    if not sys.platform.startswith("linux"):
        return f"the options of {name} are known for Linux only"
    path = os.environ.get("PATH") or os.defpath
    if os.path.basename(find_shell(path)) != "bash":
        return "without bash, commands run in sh, which interprets some of them differently"
    if "/" in name:
        return _doubt(name, root)
    for folder, is_safe in _folders(path, root):
        if not os.path.isabs(folder):
            return f"PATH looks for {name} in the working directory"
        place = os.path.join(folder, name)
        if not os.path.lexists(place):
            continue
        if not is_safe:
            return f"{name} is a file in the workspace"
        if os.access(place, os.X_OK):
            return _doubt(place, root)
    return None


def _doubt(place: str, root: str) -> str | None:
    real = os.path.realpath(place)
    if _is_inside(real, root):
        return f"{os.path.basename(place)} is a file in the workspace"
    # pyenv's shims are safe: they run only installed versions
    if os.path.basename(os.path.dirname(place)) == "shims" and "pyenv" not in os.path.dirname(
        place
    ):
        return f"files of the workspace may choose which {os.path.basename(place)} runs"
    if os.path.basename(real) in _OTHERS_MAKE:
        return f"the options of {os.path.basename(real)}'s {os.path.basename(place)} are not known"
    found = _BY_NAME.match(_start_of(real))
    return (
        doubt_about(found[1].decode(), root)
        if found is not None and found[1].decode() != os.path.basename(place)
        else None
    )


def _start_of(place: str) -> bytes:
    try:
        with open(place, "rb") as file:
            return file.read(128)
    except OSError:
        return b""


@lru_cache(maxsize=16)
def _folders(path: str, root: str) -> tuple[tuple[str, bool], ...]:
    """Return the folders of a PATH, in order, each with True if it is outside the workspace."""
    return tuple(
        (folder, not _is_inside(os.path.realpath(folder), root))
        for folder in path.split(os.pathsep)
    )


def _is_inside(place: str, root: str) -> bool:
    return place == root or place.startswith(root.rstrip("/") + "/")
