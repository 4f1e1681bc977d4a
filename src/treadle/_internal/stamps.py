"""Stamps that show whether a file or folder is unchanged, without reading it. Entry points:
`Stamp`, `stamp_of`.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

CLOCK_STEP_NS = 20_000_000
"""Margin in ns, because the kernel's clock for files is coarser than the process's."""


class Stamp(NamedTuple):
    """State of a file or folder. It includes the inode, because two folders made within one step of
    the clock share their times.
    """

    device: int = 0
    inode: int = 0
    changed: int = 0
    """ctime in ns. Changes with the content, and with every entry that is added or removed. No
    program can set it.
    """
    size: int = 0

    def is_settled(self) -> bool:
        """Return True if no further change can have the same ctime.

        Call this before reading content that is cached by its stamp.
        """
        return time.time_ns() - self.changed > CLOCK_STEP_NS


def stamp_of(known: os.stat_result) -> Stamp:
    return Stamp(known.st_dev, known.st_ino, known.st_ctime_ns, known.st_size)
