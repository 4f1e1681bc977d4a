"""Time and randomness, which tests can replace.

Deadlines belong to cancel scopes instead. Entry point: `Clock`.
"""

from __future__ import annotations

import random
import time

import anyio


class Clock:
    """The real one."""

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    def jitter(self) -> float:
        """Return a random number, uniform in [0, 1)."""
        return random.random()
