"""SQLite's full-text index.

What is put into it, and what is found, is the business of tables/search.py. Entry: `FtsWords`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.journal.tables.database import Cursor

_FOUND = """
select sessions.id, title, said.session, pos, place, nth, at_us
from words join said on said.num = words.rowid join sessions on sessions.num = said.session
where words match ? and sessions.id is not null
and pos > coalesce((select max(pos) from session_entries as c where c.session = said.session and c.kind = 'cleared'), 0)
order by at_us desc, said.num desc limit ?
"""


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
        """In FTS5's language nothing that people type has a meaning of its own, once it is quoted."""
        quoted = ['"' + word.replace('"', '""') + '" *' for word in words]
        return db.execute(_FOUND, (" ".join(quoted), limit)).fetchall()
