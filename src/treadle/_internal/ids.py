"""Ids that sort by time. Entry point: `new_id`."""

from __future__ import annotations

import os
import time

_BYTES = 7
_READ_TOGETHER = 64
_random: list[str] = []
"""Random parts of the next ids, read together to save system calls. Each is used once."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)


def new_id(prefix: str) -> str:
    """Return `prefix_` and 26 hex digits that sort by time: 48 bits of milliseconds, then 56 random
    bits.

    Safe from any thread, and in forked processes.
    """
    try:
        bits = _random.pop()
    except IndexError:
        read = os.urandom(_BYTES * _READ_TOGETHER).hex(" ", _BYTES).split()
        bits = read.pop()
        _random.extend(read)
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{bits}"
