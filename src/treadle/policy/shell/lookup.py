"""Check that a program's name stands for the file that its table of options describes. Entry point:
`doubt_about`.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache

from treadle._internal.environment import find_shell

_OTHERS_MAKE = frozenset({"busybox", "toybox", "coreutils", "volta-shim", "aqua-proxy"})
"""Programs that stand in for many others, with options of their own or as files of the workspace
have it.
"""
_BY_NAME = re.compile(rb"#!\s*\S*/env\s+(?:-S\s*)?([\w.+-]+)")


def doubt_about(name: str, root: str) -> str | None:
    """Say why the program that `name` runs may not be the one that the tables describe, as the end
    of a sentence; None where it is.

    `root`: the workspace, resolved. A command can have put a program there, and shims read files
    there.
    """
    if not sys.platform.startswith("linux"):
        return f"the options of {name} are known for Linux only"
    path = os.environ.get("PATH") or os.defpath
    if os.path.basename(find_shell(path)) != "bash":
        return "without bash, commands run in sh, which reads some of them otherwise"
    if "/" in name:
        return _doubt(name, root)
    for folder, is_safe in _folders(path, root):
        if not os.path.isabs(folder):
            return f"PATH looks for {name} in the working directory"
        place = os.path.join(folder, name)
        if not os.path.lexists(place):
            continue
        if not is_safe:
            return f"{name} stands for a file in the workspace"
        if os.access(place, os.X_OK):
            return _doubt(place, root)
    return None


def _doubt(place: str, root: str) -> str | None:
    real = os.path.realpath(place)
    if _is_inside(real, root):
        return f"{os.path.basename(place)} stands for a file in the workspace"
    # which takes only names of installed versions
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
    """The folders of a PATH in order, each with whether commands of a run cannot write there."""
    return tuple(
        (folder, not _is_inside(os.path.realpath(folder), root))
        for folder in path.split(os.pathsep)
    )


def _is_inside(place: str, root: str) -> bool:
    return place == root or place.startswith(root.rstrip("/") + "/")
