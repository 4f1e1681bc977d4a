"""Remaining time of a run. The clock stops while the run, or one that it started, waits for
approval.

Entry point: `RunTime`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import anyio


class RunTime:
    """Clock of a run in progress."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        """`scope`: the run's, whose deadline ends it."""
        self._scope = scope
        self.above: RunTime | None = None
        """Clock of the parent run."""
        self._waits = 0
        """Number of approvals being waited for, in this run and its children."""
        self._deadline = self._since = 0.0
        self.stood_s = 0.0
        """Seconds that the clock has been stopped and that no caller has collected yet."""

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Stop the clock of this run and of its parents."""
        chain = [*self._chain()]
        for one in chain:
            one._stop()
        try:
            yield
        finally:
            for one in chain:
                one._go_on()

    def take_stood_s(self) -> float:
        stood_s, self.stood_s = self.stood_s, 0.0
        return stood_s

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
            self.stood_s += stood_s
