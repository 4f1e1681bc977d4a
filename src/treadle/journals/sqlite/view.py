"""What is in view of a session: a fold, in order, of its runs and of what was added or cleared by hand.

It is read from its end, and no further back than what is in view reaches. Entry: `view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, cast

import msgspec

from treadle.entries import Compaction
from treadle.journals.sqlite.database import Cursor
from treadle.journals.sqlite.rows import bodies, entries_of, records
from treadle.message import Message, decode_message
from treadle.run_state import RunState, load
from treadle.session_store import Sessions
from treadle.window import Window

_ENTRIES = """
select kind, session_entries.run, body, runs.id, schema, finished, fork_of
from session_entries left join runs on runs.num = session_entries.run where session_entries.session = ? and pos < ?
"""
_BASE = """
select coalesce(max(pos), 0) from session_entries left join runs on runs.num = session_entries.run
where session_entries.session = ? and pos < ? and (kind = 'cleared' or (fork_of is not null and finished is not null))
"""


class _Piece(NamedTuple):
    """One entry of a session."""

    messages: Sequence[Message]
    windows: Sequence[Window] = ()
    """What of the pieces before stayed in view of it."""
    base: bool = False
    """Nothing before it counts: it was cleared, or a fork brought another past."""


def view(db: Cursor, session: int, sessions: Sessions, *, before: int | None = None) -> list[Message]:
    """Oldest first. `before`: as it was at that place of it."""
    end = 1 << 62 if before is None else before
    pieces: list[_Piece] = []
    wanted: Window | None = None
    for piece in _pieces(db, session, end, sessions, "desc"):
        pieces.append(piece)
        if piece.base:
            break
        if wanted is not None and any(message.id == wanted.kept_from for message in piece.messages):
            return _on(pieces, wanted, db, session, end, sessions)
        if wanted is None and piece.windows:
            wanted = piece.windows[-1]
    return _folded(reversed(pieces))


def _on(pieces: list[_Piece], wanted: Window, db: Cursor, session: int, end: int, sessions: Sessions) -> list[Message]:
    """From the piece that holds the oldest message in view, and the pinned one, which is the first of all."""
    base = cast("int", db.execute(_BASE, (session, end)).get)
    forward = _pieces(db, session, end, sessions, "asc", start=base)
    pinned = next((piece.messages[0] for piece in forward if piece.messages), None)
    if pinned is None or pinned.id != wanted.pinned:  # others than those that the window was made for: all of them decide
        return _folded(_pieces(db, session, end, sessions, "asc", start=base))
    return _folded([_Piece((pinned,)), *reversed(pieces)])


def _folded(pieces: Iterable[_Piece]) -> list[Message]:
    """A piece that is a base can only be the first."""
    seen: list[Message] = []
    for piece in pieces:
        for window in piece.windows:
            seen = window.of(seen)
        seen.extend(piece.messages)
    return seen


def _pieces(db: Cursor, session: int, end: int, sessions: Sessions, order: str, *, start: int = 0) -> Iterator[_Piece]:
    """Without runs that are not finished."""
    connection = db.connection
    for kind, run, body, run_id, schema, finished, fork_of in connection.cursor().execute(
        f"{_ENTRIES} and pos >= ? order by pos {order}", (session, end, start)
    ):
        if kind == "cleared":
            yield _Piece((), base=True)
        elif kind == "message":
            yield _Piece((decode_message(body),))
        elif finished is not None and fork_of is not None:
            yield _Piece(load(run_id, partial(records, connection.cursor()), sessions).history[:], base=True)
        elif finished is not None:
            yield _of_run(connection.cursor(), run, schema)


def _of_run(db: Cursor, run: int, schema: int) -> _Piece:
    state = RunState()
    windows: list[Window] = []
    for entry in entries_of(bodies(db, run), schema):
        if type(entry) is Compaction:
            windows.append(msgspec.json.decode(entry.receipt, type=Window))
        else:
            state.apply(entry)
    return _Piece(state.history[:], windows)
