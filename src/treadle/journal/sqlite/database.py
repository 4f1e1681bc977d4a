"""SQLite cursor for the tables, and the parts that are specific to SQLite. schema.py opens
connections. Entry point: `cursor_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import apsw

from treadle.journal.session_names import NEW_SESSION
from treadle.journal.tables.database import Cursor, Dialect
from treadle.journal.tables.rows import micros
from treadle.journal.tables.sealing import Seal
from treadle.types import now

_FOUND = """
select sessions.id, title, said.session, pos, place, nth, at_us
from words join said on said.num = words.rowid join sessions on sessions.num = said.session
where words match ? and sessions.id is not null
and pos > coalesce((select max(pos) from session_entries as c where c.session = said.session and c.kind = 'cleared'), 0)
order by at_us desc, said.num desc limit ?
"""


_REFUSED = "'this journal is encrypted: restart the process with TREADLE_JOURNAL_KEY'"
_UNSEALED = "substr(new.{column}, 1, 1) <> x'01'"
_UNSEALED_TITLE = f"new.title <> '{NEW_SESSION}' and substr(new.title, 1, 7) <> 'sealed:'"
_TRIGGERS = {
    "said_is_empty before insert on said": "1",
    "entries_sealed before insert on entries": _UNSEALED.format(column="body"),
    "blobs_sealed before insert on blobs": _UNSEALED.format(column="body"),
    "messages_sealed before insert on session_entries": _UNSEALED.format(column="body"),
    "runs_sealed before insert on runs": _UNSEALED.format(column="summary"),
    "summaries_sealed before update of summary on runs": _UNSEALED.format(column="summary"),
    "parkings_sealed before update of parked on runs": "substr(new.parked, 1, 7) <> 'sealed:'",
    "sessions_sealed before insert on sessions": _UNSEALED_TITLE,
    "titles_sealed before update of title on sessions": _UNSEALED_TITLE,
}
"""Triggers of an encrypted journal, with the condition under which they refuse a row."""


class FtsWords:
    """The table `words`, whose rowid is `said.num`."""

    def add(self, db: Cursor, num: int, text: str) -> None:
        db.execute("insert into words(rowid, text) values(?, ?)", (num, text))

    def forget(self, db: Cursor, session: int, pos: int) -> None:
        db.execute(
            "delete from words where rowid in (select num from said where session = ? and pos = ?)",
            (session, pos),
        )

    def find(self, db: Cursor, words: Sequence[str], *, limit: int) -> list[tuple[Any, ...]]:
        """Find messages. Words are quoted, so that they have no special meaning in FTS5's query
        language.
        """
        quoted = ['"' + word.replace('"', '""') + '" *' for word in words]
        return db.execute(_FOUND, (" ".join(quoted), limit)).fetchall()


class _Sqlite:
    words = FtsWords()
    refused = apsw.ConstraintError
    together = 1
    lock_all = ""
    only_sealed = (
        "insert into words(words) values('delete-all')",
        "delete from said",
        *[
            f"create trigger {trigger} when {refused} begin select raise(abort, {_REFUSED}); end"
            for trigger, refused in _TRIGGERS.items()
        ],
    )
    skip_locked = ""
    now = "cast(unixepoch('subsec') * 1000000 as integer)"
    next_change = "(select coalesce(max(changed), 0) + 1 from sessions)"
    run_columns: Mapping[str, str] = {}

    def now_us(self, db: Cursor) -> int:
        return micros(now())

    def call(self, call: str | bytes) -> object:
        """Return a call's id as stored: bytes, because texts cannot contain lone surrogates."""
        return call

    def hold(self, db: Cursor, what: str, *, shared: bool = False) -> None:
        """Do nothing, because only one connection writes at a time."""


SQLITE: Dialect = _Sqlite()


class _Cursor(apsw.Cursor):
    dialect = SQLITE
    seal: Seal | None = None
    streams: tuple[apsw.Cursor, ...] = ()

    @property
    def changed(self) -> int:
        return self.connection.changes()

    def stream(
        self, statement: str, bindings: Sequence[object] = (), /
    ) -> Iterator[tuple[Any, ...]]:
        rows = _Cursor(self.connection)
        self.streams = (*self.streams, rows)
        return iter(cast("Cursor", rows).execute(statement, bindings))


def end_statements(cursor: Cursor) -> None:
    """End the statements of which rows are left: they would keep the connection from being closed."""
    mine = cast("_Cursor", cursor)
    for one in (mine, *mine.streams):
        one.close(True)


def cursor_of(connection: apsw.Connection, seal: Seal | None = None) -> Cursor:
    cursor = _Cursor(connection)
    if seal is not None:
        cursor.seal = seal
    # apsw's own annotations use names that exist since Python 3.12
    return cast("Cursor", cursor)


if TYPE_CHECKING:
    _: type[Dialect] = _Sqlite
