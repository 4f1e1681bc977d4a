"""Work for the thread of a journal's only writing connection: writes with a waiter, and chores.
Entry points: `SqliteWrite`, `WriteQueue`, `Chores`.

writer.py executes them, many writes in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from treadle.journal.pending import Pending, settle_all
from treadle.journal.tables.database import Cursor, Work

T = TypeVar("T")

TOGETHER_MAX = 256
"""Maximum number of writes in one transaction."""


class Chores(Protocol):
    """Maintenance in the writer's thread, outside any transaction."""

    def __call__(self, db: Cursor, *, idle: bool) -> bool:
        """Do some work. Returns True if more is left. `idle`: no write waits, so it may take a
        moment.
        """
        ...


class SqliteWrite(Pending[T]):
    """Work for the writer's thread, and its waiter."""

    __slots__ = ("alone", "appends", "once", "stands", "undo", "work")

    def __init__(
        self,
        work: Work[T],
        *,
        undo: Callable[[], None] | None = None,
        stands: Work[bool] | None = None,
        appends: bool = False,
        once: bool = False,
        alone: bool = False,
    ) -> None:
        super().__init__()
        self.work = work
        self.undo = undo
        """Reverts the changes of `work` in memory if the transaction failed."""
        self.stands = stands
        """Function that returns True if the work is in the file. Called if a commit ended without a
        result.
        """
        self.appends = appends
        """True if it contains entries of a run. Tests can kill the process directly before or after
        it.
        """
        self.once = once
        """True if it must survive a power loss."""
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


class WriteQueue:
    """Writes in the order of submission, and those that the thread has taken.

    Callers of `put` and `end` exclude each other; the rest belongs to the thread. An exception in
    the thread loses no write, because those taken stay in `batch`.
    """

    def __init__(self) -> None:
        self.batch: list[SqliteWrite[Any]] = []
        """Taken writes without a delivered outcome. The thread clears it."""
        self.ends = False
        """True if nothing follows the batch."""
        self.is_over = False
        """True if the outcomes of the last batch were delivered."""
        self.submitted = self.answered = 0
        """Number of writes submitted so far. If it has changed, later writes are queued behind
        them.
        """
        self._queue: SimpleQueue[SqliteWrite[Any]] = SimpleQueue()
        self._end: SqliteWrite[Any] = SqliteWrite(lambda db: None)
        self._taken: SqliteWrite[Any] | None = None
        """A write that is briefly in neither of the two."""

    def put(self, write: SqliteWrite[Any]) -> None:
        submitted = self.submitted + 1
        self._queue.put(write)
        self.submitted = submitted

    def end(self) -> None:
        self._queue.put(self._end)

    def take(self, timeout_s: float | None) -> None:
        """Fill the batch: wait up to that time for the next write, and add those queued behind it.
        Empty if none arrives.
        """
        if self.ends:
            return
        try:
            self._taken = self._taken or self._queue.get(timeout=timeout_s)
            while self._taken is not self._end:
                self.batch.append(self._taken)
                self._taken = None
                if len(self.batch) == TOGETHER_MAX:
                    return
                self._taken = self._queue.get_nowait()
            self.ends = True
        except Empty:
            return

    def answer(self) -> None:
        """Deliver the outcomes of the batch."""
        settle_all(self.batch)
        self.answered += len(self.batch)
        self.batch.clear()
