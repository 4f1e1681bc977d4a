"""What is used of SQLite's connection, with types. How one is opened stands in schema.py. Entry: `Cursor`, `cursor_of`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

import apsw


class Connection(Protocol):
    def changes(self) -> int:
        """Rows that the last statement changed."""
        ...

    def last_insert_rowid(self) -> int: ...

    def cursor(self) -> Cursor: ...


class Cursor(Protocol):
    """apsw's cursor: its own annotations name what Python has since 3.12 only."""

    @property
    def connection(self) -> Connection: ...

    @property
    def get(self) -> Any:
        """The one value of the one row that is left."""
        ...

    def execute(self, statements: str, bindings: Sequence[object] | None = None, /) -> Cursor:
        """Runs up to the first row: a script whose statements give rows is only run whole by fetching them all."""
        ...

    def executemany(self, statements: str, bindings: Iterable[Sequence[object]], /) -> Cursor: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


def cursor_of(connection: apsw.Connection) -> Cursor:
    return cast("Cursor", connection.cursor())
