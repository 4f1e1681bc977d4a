"""Sessions in a journal's tables, and users' operations on them. view.py computes their views.

Entry: `TableSessions`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from treadle.errors import AgentError
from treadle.journal.receipts import Said
from treadle.journal.session_names import NEW_SESSION, check_session_id, title_of
from treadle.journal.sessions import NO_MARK, SearchHit, SessionInfo, Sessions, SessionView
from treadle.journal.tables import search
from treadle.journal.tables.conversations import (
    add_session,
    mark_of,
    name,
    next_pos,
    number_of,
    rename,
    shown_title,
    touch,
)
from treadle.journal.tables.database import Cursor, ReadTransactions, Writing
from treadle.journal.tables.holding import hold_runs, hold_session
from treadle.journal.tables.liveness import Alive
from treadle.journal.tables.removal import sweep
from treadle.journal.tables.rows import key_of, time_of
from treadle.journal.tables.view import everything, stored_message, view
from treadle.messages.message import Message, encode_message
from treadle.types import new_id, now

INDEXED_AT_ONCE = 50
"""Number of runs that one transaction adds to the index."""
_UP_TO = "select count(*) from runs where num <= ?"


class TableSessions:
    """Sessions of a journal. Every method may be called from any thread, and blocks. Raises
    AgentError(agent) if the database fails.
    """

    def __init__(self, writing: Writing, reading: ReadTransactions, alive: Alive) -> None:
        self._writing = writing
        self._reading = reading
        self._alive = alive
        self._lock = threading.RLock()
        """Guards `_current`, so that two threads do not both create the first session."""
        self._current: str | None = None

    # ------------------------------------------------------------ sessions

    def create(self, title: str = "", *, session_id: str | None = None) -> SessionInfo:
        key = session_id if session_id is not None else new_id("session")
        check_session_id(key)

        def work(db: Cursor) -> SessionInfo:
            hold_session(db, key)
            if number_of(db, key) is not None:
                raise AgentError("invalid", f"session {key!r} already exists")
            add_session(db, key, title.strip() or NEW_SESSION, now())
            return self._infos(db, "where id = ?", (key,))[0]

        with self._lock:
            made = self._writing.write_now(work)
            self._current = key
            return made

    def get(self, session_id: str) -> SessionInfo | None:
        found = self._reading.read_now(
            lambda db: self._infos(db, "where id = ?", (key_of(session_id),))
        )
        return found[0] if found else None

    def current(self) -> SessionInfo:
        with self._lock:
            found = None if self._current is None else self.get(self._current)
            return self.create() if found is None else found

    def set_current(self, session_id: str) -> bool:
        with self._lock:
            if self.get(session_id) is None:
                return False
            self._current = session_id
            return True

    def list(self) -> list[SessionInfo]:
        def read(db: Cursor) -> tuple[list[SessionInfo], list[tuple[Any, ...]], tuple[int, int]]:
            infos = self._infos(db, "where id is not null order by changed desc")
            uncounted = db.execute(
                "select id, changed from sessions where messages is null and id is not null"
            ).fetchall()
            last = db.execute("select coalesce(max(num), 0) from runs").get if uncounted else 0
            return infos, uncounted, (last, db.execute(_UP_TO, (last,)).get if uncounted else 0)

        infos, uncounted, runs = self._reading.read_now(read)
        if uncounted:
            counts = {info.id: info.message_count for info in infos}
            self._keep_counts(
                [(counts[session_id], session_id, changed) for session_id, changed in uncounted],
                runs,
            )
        return infos

    def _keep_counts(self, counts: Sequence[tuple[int, str, int]], runs: tuple[int, int]) -> None:
        """Store the number of messages of each session that has not changed since they were
        counted, unless a run was removed.

        `runs`: the last run number, and the number of runs up to it. Removing a run changes the
        view of its session, and of sessions forked from later runs, without moving them up in the
        list.
        """

        def work(db: Cursor) -> None:
            hold_runs(db, shared=True)
            if db.execute(_UP_TO, (runs[0],)).get == runs[1]:
                db.executemany(
                    "update sessions set messages = ? where id = ? and changed = ?", counts
                )

        with contextlib.suppress(AgentError):  # they are counted again in this case
            self._writing.write_now(work)

    def delete(self, session_id: str) -> bool:
        """Delete a session. Origins of forks in other sessions are kept until these are deleted,
        but are neither listed nor found.
        """

        def work(db: Cursor) -> bool:
            hold_runs(db)
            hold_session(db, session_id)
            num = number_of(db, session_id)
            if num is None:
                return False
            self._refuse_running(db, num, session_id)
            db.execute("update sessions set id = null where num = ?", (num,))
            sweep(db)
            return True

        return self._writing.write_now(work)

    def _refuse_running(self, db: Cursor, num: int, session_id: str) -> None:
        for run_id, owner in db.execute(
            "select id, owner from runs where session = ? and finished is null", (num,)
        ).fetchall():
            if self._alive(db, owner) is not None:
                raise AgentError(
                    "busy",
                    (
                        f"run {run_id} of session {session_id!r} is running: wait for its end, or "
                        f"stop it with `treadle runs kill {run_id}`"
                    ),
                )

    def update_title(self, session_id: str, title: str) -> bool:
        def work(db: Cursor, num: int) -> None:
            rename(db, num, session_id, title.strip() or NEW_SESSION, now())

        return self._change(session_id, work)

    # ------------------------------------------------------------ messages

    def add_message(self, session_id: str, message: Message) -> bool:
        return self.add_messages(session_id, [message])

    def add_messages(self, session_id: str, messages: Iterable[Message]) -> bool:
        whole = [*messages]
        stored = [encode_message(message) for message in whole]
        title = title_of(next((m.text for m in whole if m.role == "user" and m.text.strip()), ""))

        def work(db: Cursor, num: int) -> None:
            pos = next_pos(db, num)
            for n, message in enumerate(whole):
                db.execute(
                    (
                        "insert into session_entries(session, pos, kind, body) values(?, ?, "
                        "'message', ?)"
                    ),
                    (num, pos + n, stored_message(db, num, pos + n, stored[n])),
                )
                search.add(db, num, pos + n, message)
            db.execute(
                "update sessions set messages = messages + ? where num = ?", (len(whole), num)
            )
            name(db, num, session_id, title)
            touch(db, num, now())

        return self._change(session_id, work)

    def get_messages(self, session_id: str, *, before: str | None = None) -> Sequence[Message]:
        """Return the messages in view. A run that is part of another one begins without any."""

        def read(db: Cursor) -> Sequence[Message]:
            run = (
                None
                if before is None
                else db.execute("select num from runs where id = ?", (key_of(before),)).fetchone()
            )
            if run is not None:
                place = db.execute(
                    "select session, pos from session_entries where run = ?", run
                ).fetchone()
                return [] if place is None else view(db, place[0], self, before=place[1]).messages
            num = number_of(db, session_id)
            return [] if num is None else view(db, num, self).messages

        return self._reading.read_now(read)

    def view(self, session_id: str) -> SessionView:
        """Return the messages in view of the session's next run; none if the session does not
        exist.
        """

        def read(db: Cursor) -> SessionView:
            num = number_of(db, session_id)
            if num is None:
                return SessionView([], NO_MARK, {})
            # read first, because later changes are detected when the run begins
            mark = mark_of(db, num)
            found = view(db, num, self)
            return SessionView(found.messages, mark, found.late)

        return self._reading.read_now(read)

    def everything(self, session_id: str) -> Sequence[Message]:
        def read(db: Cursor) -> Sequence[Message]:
            num = number_of(db, session_id)
            return [] if num is None else everything(db, num, self)

        return self._reading.read_now(read)

    def clear_messages(self, session_id: str) -> bool:
        """Clear the view. The runs stay in the journal."""

        def work(db: Cursor, num: int) -> None:
            self._refuse_running(db, num, session_id)
            db.execute(
                "insert into session_entries(session, pos, kind) values(?, ?, 'cleared')",
                (num, next_pos(db, num)),
            )
            db.execute("update sessions set messages = 0 where num = ?", (num,))
            touch(db, num, now())

        return self._change(session_id, work)

    def remember(self, session_id: str, said: Sequence[Said], *, run_id: str) -> None:
        """Do nothing, because the journal has the messages of runs."""

    def search(self, words: str, *, limit: int = 20) -> list[SearchHit]:
        """Search for words, which may be prefixes.

        Ended runs that are not indexed yet are indexed first.
        """
        if self._unindexed():
            while self._writing.write_now(lambda db: search.index(db, most=INDEXED_AT_ONCE)):
                pass
        return self._reading.read_now(lambda db: search.found(db, words, limit=limit))

    def _unindexed(self) -> bool:
        return self._reading.read_now(search.is_incomplete)

    def _change(self, session_id: str, work: Callable[[Cursor, int], None]) -> bool:
        """Change a session. False if it does not exist."""

        def change(db: Cursor) -> bool:
            hold_session(db, session_id)
            num = number_of(db, session_id)
            if num is None:
                return False
            work(db, num)
            return True

        return self._writing.write_now(change)

    # ------------------------------------------------------------ lists

    def _infos(self, db: Cursor, where: str, values: tuple[object, ...] = ()) -> list[SessionInfo]:
        rows = db.execute(
            "select num, id, title, created_at_us, updated_at_us, messages from sessions " + where,
            values,
        ).fetchall()
        return [
            SessionInfo(
                id=session_id,
                title=shown_title(db, session_id, title),
                created_at=time_of(created_us),
                updated_at=time_of(updated_us),
                message_count=len(view(db, num, self).messages) if count is None else count,
            )
            for num, session_id, title, created_us, updated_us, count in rows
        ]


if TYPE_CHECKING:
    _: type[Sessions] = TableSessions
