"""Work of a writer's thread, with its known state after a lost connection: appends, and whole
transactions. Entry points: `PendingAppend`, `PendingTransaction`.

lane.py executes it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from treadle.journal.pending import Pending
from treadle.journal.postgres.appending import PendingEntries
from treadle.journal.tables.database import Work

T = TypeVar("T")


class PendingAppend(Pending[int]):
    """An append; its result is the sequence number of the first entry."""

    __slots__ = ("append", "maybe")

    committing: Final = True
    """True if its statement commits immediately, so that an error may follow the commit."""

    def __init__(self, append: PendingEntries) -> None:
        super().__init__()
        self.append = append
        self.maybe = False
        """True if it was sent before the connection was lost."""

    @property
    def key(self) -> Hashable:
        return self.append.mark.num

    def stands(self) -> None:
        """Record that it is stored. Without enough memory, records nothing."""
        mark = self.append.mark
        first, head = mark.head + 1, mark.head + len(self.append.rows)
        self.result, mark.head = first, head
        self.done = True

    def cannot_go_on(self) -> None:
        self.append.mark.lost = True


class PendingTransaction(Pending[T], Generic[T]):
    __slots__ = ("adds", "committing", "key", "maybe", "stood", "tried", "work")

    def __init__(
        self,
        work: Work[T],
        *,
        key: Hashable = None,
        stood: Work[T | None] | None = None,
        adds: PendingEntries | None = None,
    ) -> None:
        super().__init__()
        self.work = work
        self.key = key
        self.stood = stood
        self.adds = adds
        self.maybe = False
        """True if an attempt may have been committed, and its response was lost."""
        self.committing = False
        """True if the last attempt sent its commit."""
        self.tried: TriedTransaction[T] | None = None

    def stands(self, result: T) -> None:
        """Record that it is committed. Without enough memory, records nothing."""
        if self.adds is not None:
            self.adds.mark.head += len(self.adds.rows)
        self.result = result
        self.done = True

    def cannot_go_on(self) -> None:
        if self.adds is not None:
            self.adds.mark.lost = True


class TriedTransaction(NamedTuple, Generic[T]):
    """A transaction that may have been committed, as the server identifies it."""

    number: str | None
    """Transaction number. None: it wrote nothing."""
    server: str
    """Start time of that server. Another server, or one that crashed, may assign the number to
    another transaction.
    """
    result: T
