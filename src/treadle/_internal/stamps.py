"""Stamps that show whether a file or folder is unchanged, without reading it. Entry points:
`Stamp`, `stamp_of`.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

CLOCK_STEP_NS = 20_000_000
"""The kernel stamps files by a coarser clock than ours."""


class Stamp(NamedTuple):
    """State of a file or folder. It includes the inode, because two folders made within one step of
    the clock share their times.
    """

    device: int = 0
    inode: int = 0
    changed: int = 0
    """ctime in ns: it moves with every change of content and every entry that comes or goes, and no
    program can set it.
    """
    size: int = 0

    def is_settled(self) -> bool:
        """Return whether no further change can bear the same ctime.

        Ask before reading what is to be remembered.
        """
        return time.time_ns() - self.changed > CLOCK_STEP_NS


def stamp_of(known: os.stat_result) -> Stamp:
    return Stamp(known.st_dev, known.st_ino, known.st_ctime_ns, known.st_size)
