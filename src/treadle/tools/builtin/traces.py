"""Which files below a directory bear a time at which something ran: the trace that a command
leaves, where nobody kept what it changed.

What was removed leaves none, nor does what lies elsewhere, and somebody else may have changed a
file at the same time. Entry: `changed_at`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from treadle.tools.builtin.walk import walk

MAX_FILES = 1_000
MAX_SECONDS = 5.0
_SLACK_S = 0.05
"""File systems take the time of the last tick."""


class Traces(NamedTuple):
    paths: list[str]
    """Absolute."""
    all: bool
    """False: there may be more."""


def changed_at(top: Path, times: Sequence[tuple[float, float]]) -> Traces:
    """Files that were last changed between the two of any of `times`, in seconds of the epoch;
    without what .gitignore excludes. Blocks.
    """
    found: list[str] = []
    deadline = time.monotonic() + MAX_SECONDS
    try:
        for file in walk(str(top)):
            if len(found) == MAX_FILES or time.monotonic() > deadline:
                return Traces(found, all=False)
            changed = _changed(file.folder.stat(file.name).st_ctime, times)
            if changed:
                found.append(str(top / file.path))
    except OSError:  # the directory is gone, or a file went while it was looked at
        return Traces(found, all=False)
    return Traces(found, all=True)


def _changed(at: float, times: Sequence[tuple[float, float]]) -> bool:
    return any(begun - _SLACK_S <= at <= ended + _SLACK_S for begun, ended in times)
