"""View of a session: a fold, in order, of its runs and of messages added or cleared directly.

It is read from its end, and only as far back as needed. Entry point: `view`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar, cast

from treadle.journal.entries import Entry, Record, RunStarted, ToolLate
from treadle.journal.load import load
from treadle.journal.receipts import Cleared, Said, Summary, Withdrawn, folded
from treadle.journal.run_state import RunState
from treadle.journal.sessions import Sessions, spoken
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.rows import bodies, bodies_of, entries_of, micros, records
from treadle.messages.message import Message, decode_message

T = TypeVar("T")

_ENTRIES = """
select kind, session_entries.run, body, runs.id, schema, finished, fork_of, pos
from session_entries left join runs on runs.num = session_entries.run where session_entries.session = ? and pos < ?
"""
_BASE = """
select coalesce(max(pos), 0) from session_entries left join runs on runs.num = session_entries.run
where session_entries.session = ? and pos < ? and (kind = 'cleared' or (fork_of is not null and finished is not null))
"""

_BEGAN = (
    "select runs.num, schema from session_entries join runs on runs.num = session_entries.run "
    "where session_entries.session = ? and pos = ?"
)


class SessionFold(NamedTuple):
    messages: list[Message]
    """Oldest first."""
    late: Mapping[str, int]
    """Run id -> sequence number of the last late result in view, for runs that received any after
    their end.
    """


class _Piece(NamedTuple):
    """Entry of a session."""

    said: Sequence[Said]
    base: bool = False
    """True if earlier pieces do not count, because the session was cleared or a fork replaced its
    history.
    """
    late: Mapping[str, int] = {}
    """Late results of this run, as in `SessionFold`."""

    @property
    def messages(self) -> list[Message]:
        return [one for one in self.said if isinstance(one, Message)]


def view(db: Cursor, session: int, sessions: Sessions, *, before: int | None = None) -> SessionFold:
    """Return a session's view. `before`: the view when the run at that position began."""
    end = 1 << 62 if before is None else before
    pieces: list[_Piece] = []
    needs = _Needs()
    for piece in _pieces(db, session, end, sessions, "desc"):
        pieces.append(piece)
        if piece.base:
            break
        if needs.but_the_first(piece):
            return _on(pieces, needs, db, session, end, sessions)
    return _folded(reversed(pieces))


def everything(db: Cursor, session: int, sessions: Sessions) -> list[Message]:
    """Return all messages since the session was cleared or a fork replaced its history."""
    end = 1 << 62
    base = cast("int", db.execute(_BASE, (session, end)).get)
    return [
        message
        for piece in _pieces(db, session, end, sessions, "asc", start=base)
        for message in spoken(piece.said)
    ]


class _Needs:
    """Ids of messages that are required to apply the newest receipt that removed messages, while
    pieces are read backwards.
    """

    def __init__(self) -> None:
        self.first: str | None = None
        """The pinned first words of the conversation, which may precede the pieces that must be
        read.
        """
        self._ids: set[str] = set()

    def but_the_first(self, piece: _Piece) -> bool:
        """Return True if with this piece everything but the first message is available."""
        for receipt in reversed(
            [one for one in piece.said if not isinstance(one, Message | Cleared)]
        ):
            if isinstance(receipt, Withdrawn):
                self._ids = (self._ids - {receipt.message.id}) | {receipt.since}
                continue
            pinned = (
                receipt.pinned if isinstance(receipt, Summary) else (receipt.pinned, *receipt.also)
            )
            if self.first is None and pinned:
                self.first = pinned[0]
            elif not (isinstance(receipt, Summary) and receipt.message.id in self._ids):
                continue
            self._ids |= {receipt.kept_from, *pinned}
            if isinstance(receipt, Summary):
                self._ids.discard(receipt.message.id)
        if self.first is None:
            return False
        self._ids -= {message.id for message in piece.messages}
        return self._ids <= {self.first}


def _on(
    pieces: list[_Piece], needs: _Needs, db: Cursor, session: int, end: int, sessions: Sessions
) -> SessionFold:
    """Fold the available pieces after the pinned message, which comes first."""
    base = cast("int", db.execute(_BASE, (session, end)).get)
    forward = _pieces(db, session, end, sessions, "asc", start=base)
    first = next((piece.messages[0] for piece in forward if piece.messages), None)
    # the receipt was made for other messages, so all of them are needed
    if first is None or first.id != needs.first:
        return _folded(_pieces(db, session, end, sessions, "asc", start=base))
    if any(message.id == first.id for piece in pieces for message in piece.messages):
        return _folded(reversed(pieces))
    return _folded([_Piece((first,)), *reversed(pieces)])


def _folded(pieces: Iterable[_Piece]) -> SessionFold:
    """Fold pieces, of which only the first can be a base."""
    whole = [*pieces]
    late = {run_id: seq for piece in whole for run_id, seq in piece.late.items()}
    return SessionFold(folded((), (one for piece in whole for one in piece.said)), late)


def _pieces(
    db: Cursor, session: int, end: int, sessions: Sessions, order: str, *, start: int = 0
) -> Iterator[_Piece]:
    """Yield pieces, without unfinished runs."""
    seen = _seen_by(db, session, end)
    rows = db.stream(f"{_ENTRIES} and pos >= ? order by pos {order}", (session, end, start))
    for batch in _batches(rows, db.dialect.together):
        known = (
            bodies_of(
                db,
                [
                    run
                    for _, run, _, _, _, finished, fork_of, _ in batch
                    if finished is not None and fork_of is None
                ],
            )
            if len(batch) > 1
            else {}
        )
        for kind, run, body, run_id, schema, finished, fork_of, pos in batch:
            if kind == "cleared":
                yield _Piece((), base=True)
            elif kind == "message":
                if db.seal is not None:
                    body = db.seal.opened(message_place(session, pos), body)
                yield _Piece((decode_message(body),))
            elif finished is not None:
                entries = entries_of(known[run] if run in known else bodies(db, run), schema)
                yield _of_run(
                    run_id,
                    [*seen.of(run_id, entries, finished)],
                    finished,
                    partial(records, db),
                    sessions if fork_of is not None else None,
                )


def stored_message(db: Cursor, session: int, pos: int, message: bytes) -> bytes:
    """Return a message that was added to a session, as the table stores it."""
    return message if db.seal is None else db.seal.sealed(message_place(session, pos), message)


def message_place(session: int, pos: int) -> str:
    return f"message {pos} of session number {session}"


def _batches(rows: Iterator[T], most: int) -> Iterator[list[T]]:
    """Yield batches of growing size, starting with one row, because a reader going backwards may
    soon have enough.
    """
    size = 1
    while batch := list(islice(rows, size)):
        yield batch
        size = min(size * 2, most)


class _Seen(NamedTuple):
    """Late results, received after the end of their run, that a reader of the view has seen."""

    late: Mapping[str, int] | None = None
    """Late results as in `SessionFold`. None: determined by `until_us`."""
    until_us: int | None = None
    """Latest timestamp in microseconds since 1970; None: all of them."""

    def of(self, run_id: str, entries: Iterable[Entry], finished: int) -> Iterator[Entry]:
        """Return the entries without late results that were not seen.

        `finished`: sequence number of the run's end.
        """
        last = None if self.late is None else self.late.get(run_id, finished)
        for seq, entry in enumerate(entries, 1):
            if seq > finished and type(entry) is ToolLate:
                if last is not None and seq > last:
                    continue
                if last is None and self.until_us is not None and micros(entry.at) > self.until_us:
                    continue
            yield entry


def _seen_by(db: Cursor, session: int, end: int) -> _Seen:
    """Return the late results that the run at that position has seen; all of them if there is no
    run.
    """
    run = db.execute(_BEGAN, (session, end)).fetchone()
    if run is None:
        return _Seen()
    num, schema = run
    started = cast("RunStarted", entries_of(bodies(db, num, to=1), schema)[0])
    return _Seen(started.late, micros(started.at))


def _of_run(
    run_id: str,
    entries: Sequence[Entry],
    finished: int,
    read: Callable[[str], Sequence[Record]],
    sessions: Sessions | None,
) -> _Piece:
    """Return the pieces of a run. `sessions`: for a fork, of the run it was forked from, whose past
    counts too.
    """
    late = {run_id: len(entries)} if len(entries) > finished else {}
    if sessions is not None:
        known = [Record(seq=seq, entry=entry) for seq, entry in enumerate(entries, 1)]
        state = load(run_id, lambda other: known if other == run_id else read(other), sessions)
        return _Piece(state.context.added(is_fork=True), base=True, late=late)
    state = RunState()
    for entry in entries:
        state.apply(entry)
    return _Piece(state.context.said, late=late)
