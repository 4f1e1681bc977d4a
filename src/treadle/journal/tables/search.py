"""Search in the messages of users and models: a full-text index of ended runs, filled outside the
append path. Entry: `index`, `found`.
"""

from __future__ import annotations

import re
import sys
from typing import cast

from treadle.errors import AgentError
from treadle.journal.entries import Entry, InputAdded, ModelResponded, RunStarted
from treadle.journal.session_names import excerpt_of
from treadle.journal.sessions import SearchHit
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.holding import hold_index, hold_runs
from treadle.journal.tables.rows import bodies, micros, read_stored, time_of
from treadle.messages.message import Message, decode_message

_UNSPACED = r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
"""Scripts without spaces between words, in which each character is indexed separately.

Compiled on first use, which takes 3 ms.
"""


def index(db: Cursor, *, most: int) -> bool:
    """Index the messages of some ended runs. Return True if more are left.

    Call it inside a transaction that may write.
    """
    hold_runs(db, shared=True)
    hold_index(db)
    rows = db.execute(
        "select runs.num, schema, session_entries.session, pos from runs join session_entries on "
        "session_entries.run = runs.num "
        "where finished is not null and indexed = 0 order by runs.num limit ?",
        (most,),
    ).fetchall()
    for num, schema, session, pos in rows:
        for seq, data in bodies(db, num):
            for nth, message in enumerate(_said_by(data, schema)):
                add(db, session, pos, message, place=num << 32 | seq, nth=nth)
        db.execute("update runs set indexed = 1 where num = ?", (num,))
    return len(rows) == most


def is_incomplete(db: Cursor) -> bool:
    """Return True if some ended runs are not indexed yet. Raises AgentError(invalid) for an
    encrypted journal, which has no index.
    """
    if db.seal is not None:
        raise AgentError(
            "invalid",
            "this journal is encrypted, so its text is not indexed and cannot be searched: use "
            "`treadle sessions list`, or export what you look for",
        )
    statement = "select 1 from runs where finished is not null and indexed = 0 limit 1"
    return db.execute(statement).fetchone() is not None


def add(
    db: Cursor, session: int, pos: int, message: Message, *, place: int | None = None, nth: int = 0
) -> None:
    if message.role not in ("user", "assistant") or not message.text.strip():
        return
    if db.seal is not None:
        return
    values = (session, pos, place, nth, micros(message.created_at))
    num = cast(
        "int",
        db.execute(
            "insert into said(session, pos, place, nth, at_us) values(?, ?, ?, ?, ?) returning num",
            values,
        ).get,
    )
    db.dialect.words.add(db, num, indexed(message.text))


def forget(db: Cursor, session: int, pos: int) -> None:
    """Remove the messages of one entry of a session from the index."""
    db.dialect.words.forget(db, session, pos)
    db.execute("delete from said where session = ? and pos = ?", (session, pos))


def found(db: Cursor, words: str, *, limit: int) -> list[SearchHit]:
    """Return messages that contain all the words, or words with these prefixes; newest first."""
    wanted = words.split()
    prepared = [indexed(word).strip() for word in wanted if any(c.isalnum() for c in word)]
    if not prepared or limit < 1:
        return []
    hits: dict[str, SearchHit] = {}
    for session_id, title, session, pos, place, nth, at_us in db.dialect.words.find(
        db, prepared, limit=min(limit, sys.maxsize)
    ):
        message = message_of(db, session, pos, place, nth)
        excerpt = excerpt_of(message.text, wanted[0].casefold())
        hits[message.id] = SearchHit(
            session_id=session_id,
            title=title,
            role=message.role,
            at=time_of(at_us),
            excerpt=excerpt,
        )
    return list(hits.values())


def indexed(text: str) -> str:
    """Return the text in the form of the full-text index."""
    return re.sub(_UNSPACED, r" \1 ", text).encode("utf-8", "replace").decode().replace("\0", " ")


def message_of(db: Cursor, session: int, pos: int, place: int | None, nth: int) -> Message:
    if place is None:
        return decode_message(
            cast(
                "bytes",
                db.execute(
                    "select body from session_entries where session = ? and pos = ?", (session, pos)
                ).get,
            )
        )
    run, seq = place >> 32, place & 0xFFFFFFFF
    ((_, data),) = bodies(db, run, after=seq - 1, to=seq)
    return _said_in(
        read_stored(
            data, cast("int", db.execute("select schema from runs where num = ?", (run,)).get)
        )
    )[nth]


def _said_by(data: bytes, schema: int) -> list[Message]:
    """Return the messages of an entry. None are returned for an unknown form of a newer version, so
    that others are still found.
    """
    try:
        return _said_in(read_stored(data, schema))
    except AgentError:
        return []


def _said_in(entry: Entry) -> list[Message]:
    match entry:
        case RunStarted():
            return (
                [*entry.messages, entry.input]
                if entry.fork is None or entry.fork.asks
                else [*entry.messages]
            )
        case ModelResponded() | InputAdded():
            return [entry.message]
        case _:
            return []
