"""Memory of a process that forks many children, in large pages. Entry: `collapse`.

A fork copies a table of all pages, and the end of a child takes its copy apart: 512 entries for
every 2 MB, or one if the kernel keeps them as one page. A page that a child writes to is still
copied alone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SIZE_BYTES = 2 << 20
_COLLAPSE = 25
"""MADV_COLLAPSE of linux/mman.h."""


def collapse() -> None:
    """Have the kernel put the memory that this process has written into huge pages, as far as it
    can (Linux 6.1). Call it once everything is loaded.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for begin, end in list(_written()):
        for address in range(-(-begin // SIZE_BYTES) * SIZE_BYTES, end, SIZE_BYTES):
            if address + SIZE_BYTES <= end:
                madvise(address, SIZE_BYTES, _COLLAPSE)


def _written() -> Iterator[tuple[int, int]]:
    """Give the private, writable areas that belong to no file."""
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, access, _, _, _, *name = line.split()
            if access == "rw-p" and name in ([], ["[heap]"]):
                begin, end = (int(address, 16) for address in addresses.split("-"))
                yield begin, end
