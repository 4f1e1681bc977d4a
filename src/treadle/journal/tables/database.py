"""Interface between a journal in SQL tables and its database: a cursor, and the differences between
SQLite and PostgreSQL.

sqlite/ and postgres/ implement it. Entry points: `Cursor`, `Dialect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from treadle.journal.tables.sealing import Seal

T = TypeVar("T")


class Cursor(Protocol):
    """Cursor inside a transaction. Statements use `?` for parameters."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def seal(self) -> Seal | None:
        """Keys of the journal; None if it is not encrypted."""
        ...

    @property
    def get(self) -> Any:
        """Return the only value of the next row; None if there is none."""
        ...

    @property
    def changed(self) -> int:
        """Number of rows that the last statement changed."""
        ...

    def stream(
        self, statement: str, bindings: Sequence[object] = (), /
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows on demand, while the cursor runs other statements."""
        ...

    def execute(self, statements: str, bindings: Sequence[object] | None = None, /) -> Cursor:
        """Run a script. SQLite stops at the first row, so a script whose statements return rows
        runs completely only if all of them are fetched.
        """
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class TextIndex(Protocol):
    """Full-text index of the texts that `said.num` identifies. Texts are prepared by
    `search.indexed`.
    """

    def add(self, db: Cursor, num: int, text: str) -> None: ...

    def forget(self, db: Cursor, session: int, pos: int) -> None:
        """Remove one entry of a session from the index, before its rows of `said` are deleted."""
        ...

    def find(self, db: Cursor, words: Sequence[str], *, limit: int) -> list[tuple[Any, ...]]:
        """Return session id, title and number, pos, place, nth and at_us of visible messages that
        contain a word starting with each of these; newest first.
        """
        ...


class Dialect(Protocol):
    @property
    def words(self) -> TextIndex: ...

    @property
    def refused(self) -> type[Exception]:
        """Exception that a unique index raises for a duplicate."""
        ...

    def call(self, call: str | bytes) -> object:
        """Return a call's id as `entries.call` stores it. Bytes, because models invent ids that are
        not valid Unicode.
        """
        ...

    @property
    def lock_all(self) -> str:
        """Statement that locks all texts until the end of the transaction."""
        ...

    @property
    def only_sealed(self) -> Sequence[str]:
        """Statements that remove the full-text index, and make the tables refuse text that is not
        encrypted, such as that of a process which opened the journal before it was.
        """
        ...

    @property
    def together(self) -> int:
        """Maximum number of runs read by one query, because each query to a server takes time."""
        ...

    @property
    def skip_locked(self) -> str:
        """End of a query for rows that this transaction changes, which skips rows that others are
        changing. Empty if there is only one writer.
        """
        ...

    @property
    def now(self) -> str:
        """SQL expression for the current time, as `now_us`."""
        ...

    def now_us(self, db: Cursor) -> int:
        """Return microseconds since 1970 by the clock that all processes share."""
        ...

    @property
    def next_change(self) -> str:
        """SQL expression for the next `sessions.changed`."""
        ...

    @property
    def run_columns(self) -> Mapping[str, str]:
        """Columns that only this database has, and SQL for their initial values."""
        ...

    def hold(self, db: Cursor, what: str, *, shared: bool = False) -> None:
        """Hold a lock until the end of the transaction, exclusive or shared.

        Does nothing if there is only one writer.
        """
        ...


Work: TypeAlias = Callable[[Cursor], T]
"""Work inside a transaction. An exception rolls back its writes only."""


class ReadTransactions(Protocol):
    """Source of read-only transactions."""

    async def read(self, what: Work[T]) -> T:
        """Read the journal as it is now, regardless of concurrent writes, in a thread. Raises
        AgentError.
        """
        ...

    def read_now(self, what: Work[T]) -> T:
        """Read the journal in the calling thread. Raises AgentError."""
        ...


class Writing(Protocol):
    """Source of transactions that write."""

    async def write(self, work: Work[T], /) -> T:
        """Run the work and return its result once it is durable. Raises AgentError."""
        ...

    def write_now(self, work: Work[T], /) -> T:
        """Run the work like `write`, but block the calling thread."""
        ...
