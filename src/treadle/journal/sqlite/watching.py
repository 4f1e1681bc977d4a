"""What other processes change in a journal file: seen by a number that SQLite keeps, and then by
the rows in question. Entry: `SqliteWatch`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from treadle.journal.memory.notifier import JournalWatch
from treadle.journal.notifier import QUEUE
from treadle.journal.sqlite.database import cursor_of
from treadle.journal.sqlite.failures import translated
from treadle.journal.sqlite.schema import connect

_RUN = "run:"
_READY = """
select count(*), max(num) from (
    select num from runs where finished is null and queue is not null and waiting = 0 and parked is null and sent_to is null order by num desc limit 1000
)
"""


class SqliteWatch:
    """A connection of its own, on which every commit of another one is a change, also of this
    process.
    """

    def __init__(self, path: Path) -> None:
        """Raises AgentError."""
        try:
            self._db = connect(path, busy_timeout_s=0)
        except apsw.Error as e:
            raise translated(e, path, "it is not looked at") from e
        # whoever writes moves the log, and may be doing so
        self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._cursor = cursor_of(self._db)
        self._version = -1
        self._seen: dict[str, object] = {}
        """By topic."""

    def changed(self, topics: Collection[str], /) -> Collection[str]:
        try:
            version = self._cursor.execute("pragma data_version").get
            if version == self._version and self._seen.keys() >= set(topics):
                return ()
            found = self._look(topics)
        except apsw.Error:  # it is looked at again
            return ()
        before, self._seen, self._version = self._seen, found, version
        return [
            topic for topic, value in found.items() if topic not in before or before[topic] != value
        ]

    def _look(self, topics: Collection[str]) -> dict[str, object]:
        found: dict[str, object] = {topic: None for topic in topics}
        runs = json.dumps([topic.removeprefix(_RUN) for topic in topics if topic.startswith(_RUN)])
        sql = (
            "select id, head, fence, owner, waiting from runs where id in (select value from "
            "json_each(?))"
        )
        for run_id, *rest in self._cursor.execute(sql, (runs,)).fetchall():
            found[_RUN + run_id] = tuple(rest)
        if QUEUE in found:
            found[QUEUE] = self._cursor.execute(_READY).fetchone()
        return found

    def close(self) -> None:
        # somebody has the file to himself for a moment: it goes with this object
        with contextlib.suppress(apsw.Error):
            self._db.close()


if TYPE_CHECKING:
    _: type[JournalWatch] = SqliteWatch
