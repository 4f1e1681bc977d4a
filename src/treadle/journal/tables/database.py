"""Interface of a journal in SQL tables to its database: a cursor, and the few differences between
SQLite and PostgreSQL.

sqlite/ and postgres/ open, write and read it. Entry points: `Cursor`, `Dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")


class Cursor(Protocol):
    """Inside a transaction. Parameters stand as `?` in the text."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def get(self) -> Any:
        """The one value of the one row that is left; None where there is none."""
        ...

    @property
    def changed(self) -> int:
        """Rows that the last statement changed."""
        ...

    def stream(
        self, statement: str, bindings: Sequence[object] = (), /
    ) -> Iterator[tuple[Any, ...]]:
        """Its rows, read as they are asked for, while this cursor runs other statements."""
        ...

    def execute(self, statements: str, bindings: Sequence[object] | None = None, /) -> Cursor:
        """SQLite runs up to the first row: a script whose statements give rows is only run whole by
        fetching them all.
        """
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class TextIndex(Protocol):
    """The full-text index over what `said.num` stands for. Texts come prepared (`search.indexed`)."""

    def add(self, db: Cursor, num: int, text: str) -> None: ...

    def forget(self, db: Cursor, session: int, pos: int) -> None:
        """Remove one entry of a session from the index, before its rows of `said` go."""
        ...

    def find(self, db: Cursor, words: Sequence[str], *, limit: int) -> list[tuple[Any, ...]]:
        """Return session's id, title and number, pos, place, nth and at_us of visible messages with
        words that begin like all of these; the newest first.
        """
        ...


class Dialect(Protocol):
    @property
    def words(self) -> TextIndex: ...

    @property
    def refused(self) -> type[Exception]:
        """Exception for a duplicate that a unique index refuses."""
        ...

    def call(self, call: str | bytes | None) -> object:
        """The id of a call, which a model made up, as `entries.call` holds it.

        Bytes: it is no Unicode.
        """
        ...

    @property
    def together(self) -> int:
        """Largest number of runs read at once: each query to a server takes its time."""
        ...

    @property
    def skip_locked(self) -> str:
        """The end of a query for rows that this transaction changes, without those that others are
        just changing. Nothing where one writes at a time.
        """
        ...

    @property
    def now(self) -> str:
        """SQL of the same as `now_us`."""
        ...

    def now_us(self, db: Cursor) -> int:
        """Microseconds since 1970, by the clock that all processes share."""
        ...

    @property
    def next_change(self) -> str:
        """SQL of the next `sessions.changed`."""
        ...

    def hold(self, db: Cursor, what: str, *, shared: bool = False) -> None:
        """Hold a lock until the end of the transaction: alone, or shared.

        Does nothing if there is only one writer anyway.
        """
        ...


Work: TypeAlias = Callable[[Cursor], T]
"""Runs inside a transaction; what it raises undoes what it wrote, and nothing else."""


class ReadTransactions(Protocol):
    """Source of read-only transactions."""

    async def read(self, what: Work[T]) -> T:
        """Read the journal as it is now, whatever is written at the same time, in a thread: the
        event loop does not wait. Raises AgentError.
        """
        ...

    def read_now(self, what: Work[T]) -> T:
        """Read for a caller that is no coroutine; its thread waits. Raises AgentError."""
        ...


class Writing(Protocol):
    """Source of transactions that write."""

    async def write(self, work: Work[T], /) -> T:
        """Run the work and return its result once it is durable. Raises AgentError."""
        ...

    def write_now(self, work: Work[T], /) -> T:
        """The same for a caller that is no coroutine; its thread waits."""
        ...
