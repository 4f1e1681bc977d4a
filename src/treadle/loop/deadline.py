"""Time limit of a run, which pauses while the run or one of its children waits for approval.

Entry point: `RunTime`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import anyio

from treadle.types import Time

CHANGED_S = 1.0
"""Drift between system clock and monotonic clock above which the system clock counts as changed, in
seconds.
"""


class RunTime:
    """Clock of an active run."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        """Create a time limit. `scope`: the run's cancel scope, whose deadline ends it."""
        self._scope = scope
        self.above: RunTime | None = None
        """Clock of the parent run."""
        self._waits = 0
        """Number of pending approvals in this run and its children."""
        self._deadline = self._since = 0.0
        self._stood_s = 0.0
        """Seconds of pauses that no entry records yet."""
        self._apart_s: float | None = None
        """System clock minus monotonic clock when they were last compared."""

    def counts_from(self, at: Time) -> None:
        """Use `at`, the time of an entry written just now, as the reference for later entries."""
        self._apart_s = at.timestamp() - time.monotonic()

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Pause the clocks of this run and its ancestors inside the block."""
        chain = [*self._chain()]
        for one in chain:
            one._stop()
        try:
            yield
        finally:
            for one in chain:
                one._go_on()

    def take_idle_s(self, at: Time) -> float:
        """Return the seconds since the last entry that do not count as active time: pauses, and
        changes of the system clock. Negative if that clock was set back.
        """
        idle_s, self._stood_s = self._stood_s, 0.0
        if self._apart_s is not None:
            apart_s = at.timestamp() - time.monotonic()
            if abs(changed_s := apart_s - self._apart_s) > CHANGED_S:
                self._apart_s = apart_s
                idle_s += changed_s
        return idle_s

    def _chain(self) -> Iterator[RunTime]:
        one: RunTime | None = self
        while one is not None:
            yield one
            one = one.above

    def _stop(self) -> None:
        self._waits += 1
        if self._waits == 1:
            self._deadline, self._since, self._scope.deadline = (
                self._scope.deadline,
                anyio.current_time(),
                math.inf,
            )

    def _go_on(self) -> None:
        self._waits -= 1
        if not self._waits:
            stood_s = anyio.current_time() - self._since
            self._scope.deadline = self._deadline + stood_s
            self._stood_s += stood_s
