"""Work that the thread of a journal's one writing connection does: writes with a waiter, and
chores. Entry points: `SqliteWrite`, `next_batch`,
`Chores`.

writer.py does the work, many writes in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from treadle.journal.pending import Pending
from treadle.journal.tables.database import Cursor, Work

T = TypeVar("T")

TOGETHER_MAX = 256
"""Maximum number of writes in one transaction."""


class Chores(Protocol):
    """Other work of the writer's thread, outside of any transaction."""

    def __call__(self, db: Cursor, *, idle: bool) -> bool:
        """Do some work. Returns True if more is left. `idle`: no write waits, and it may take a
        moment.
        """
        ...


class SqliteWrite(Pending[T]):
    """Work of the writer's thread, and its waiter."""

    __slots__ = ("alone", "appends", "once", "undo", "work")

    def __init__(
        self,
        work: Work[T],
        *,
        undo: Callable[[], None] | None = None,
        appends: bool = False,
        once: bool = False,
        alone: bool = False,
    ) -> None:
        super().__init__()
        self.work = work
        self.undo = undo
        """Reverts the changes of `work` in memory if the transaction failed."""
        self.appends = appends
        """True if it contains entries of a run: a test can kill the process directly before or
        after it.
        """
        self.once = once
        """True if it must survive a loss of power."""
        self.alone = alone
        """True if it runs outside any transaction."""

    def failed(self, error: BaseException, *, undo: bool = True) -> None:
        if self.error is None:
            self.error = error
            try:
                if undo and self.undo is not None:
                    self.undo()
            except BaseException as e:  # noqa: BLE001  our own bug becomes the outcome: the waiter would wait for ever
                self.error = e

    def outcome(self) -> T:
        if self.error is not None:
            raise self.error
        return self.result  # pyright: ignore[reportReturnType]  set where there is no error


def next_batch(
    queue: SimpleQueue[SqliteWrite[Any] | None], timeout_s: float | None
) -> tuple[list[SqliteWrite[Any]], bool]:
    """Wait for the next write, and return it with those queued behind it, in order; True if the end
    of the queue, None, came after them. Empty after `timeout_s` seconds without a write.
    """
    batch: list[SqliteWrite[Any]] = []
    try:
        write = queue.get(timeout=timeout_s)
        while write is not None:
            batch.append(write)
            if len(batch) == TOGETHER_MAX:
                return batch, False
            write = queue.get_nowait()
    except Empty:
        return batch, False
    return batch, True
