"""When a server that failed may be started again: later each time, not all at once, and not for
ever.

Entry: `Backoff`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_S = 0.5
LONGEST_S = 300.0
MOST = 20
"""Failures in a row."""


class Backoff:
    def __init__(
        self, clock: Callable[[], float], chance: Callable[[], float] = random.random
    ) -> None:
        """`clock`: seconds. `chance`: from 0 to 1."""
        self._clock, self._chance = clock, chance
        self._until = 0.0
        self.failures = 0

    def failed(self) -> None:
        """The first failure in a row costs no wait: the next start is at once."""
        self.failures += 1
        longest = (
            min(LONGEST_S, FIRST_S * 2 ** max(self.failures - 2, 0)) if self.failures > 1 else 0.0
        )
        self._until = self._clock() + longest * (0.5 + self._chance() / 2)

    def worked(self) -> None:
        self.failures = 0

    @property
    def is_given_up(self) -> bool:
        return self.failures >= MOST

    @property
    def wait_s(self) -> float:
        return max(self._until - self._clock(), 0.0)
