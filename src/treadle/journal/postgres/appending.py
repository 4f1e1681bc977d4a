"""Appends of many runs in one statement, which checks the run, fence, head and owner of each.
writer.py selects the thread that sends it, and handles lost connections. Entry points:
`PendingEntries`, `append_all`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, LiteralString

import psycopg

from treadle.journal.postgres.database import call_of
from treadle.journal.tables.bodies import whole
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.driving import Hold
from treadle.journal.tables.rows import EntryRow, bodies, place_of, sealed_row
from treadle.journal.tables.sealing import Seal

_ADVANCED: Final[LiteralString] = """
with given as (
    select * from unnest(%s::bigint[], %s::integer[], %s::integer[], %s::integer[], %s::bigint[], %s::text[]) as given(run, fence, head, count, at_us, owner)
), advanced as (
    update treadle.runs set head = given.head + given.count, waiting = 0, updated_at_us = given.at_us from given
    where runs.num = given.run and runs.fence = given.fence and runs.head = given.head and runs.owner = given.owner
    returning runs.num, given.head
), written as (
    insert into treadle.entries(place, type, call, attempt, body)
    select (advanced.num << 32) + advanced.head + line.seq, line.type, decode(line.call, 'hex'), line.attempt, line.body
    from unnest(%s::bigint[], %s::integer[], %s::text[], %s::text[], %s::integer[], %b::bytea[]) as line(run, seq, type, call, attempt, body)
    join advanced on advanced.num = line.run
)"""
_DURABLY: Final[LiteralString] = """
select num, case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', true) end from advanced
"""
_APPEND: Final[LiteralString] = _ADVANCED + _DURABLY
_APPEND_PIECES: Final[LiteralString] = (
    _ADVANCED
    + """, piece as (
    select (advanced.num << 32) + advanced.head + piece.seq as place, at, hash
    from unnest(%s::bigint[], %s::integer[], %s::integer[], %b::bytea[]) as piece(run, seq, at, hash) join advanced on advanced.num = piece.run
), known as (
    select num, hash from treadle.blobs where hash in (select hash from piece)
), made as (
    insert into treadle.blobs(hash, body)
    select hash, body from unnest(%b::bytea[], %b::bytea[]) as new(hash, body)
    where hash in (select hash from piece) and hash not in (select hash from known)
    on conflict(hash) do update set hash = excluded.hash returning num, hash
), cut as (
    insert into treadle.cuts(place, at, blob)
    select place, at, num from piece join (select * from known union all select * from made) as blob using(hash)
)"""
    + _DURABLY
)
"""Statement that waits for a blob that another transaction is creating, and returns its number. The
update changes nothing; its purpose is to wait.
"""


class DriverMark(Hold):
    """State of a driver. Belongs to one of the writer's threads at a time."""

    __slots__ = ("doubtful", "lapses", "lost")

    def __init__(
        self, run_id: str, num: int, *, fence: int, head: int, owner: str, lapses: int
    ) -> None:
        super().__init__(run_id, num, fence=fence, head=head, owner=owner)
        self.lapses = lapses
        """Number of lapses of the lease when the run was last verified as this driver's."""
        self.doubtful = False
        """True if an append turned out to be stored after its response was lost, so that another
        driver may have taken over since.
        """
        self.lost = False
        """True if the last append failed because of the server and its outcome is unknown: only
        another driver can continue.
        """


class PendingEntries:
    """Entries to append to one run, after everything that it has when they are sent."""

    __slots__ = ("at_us", "mark", "rows", "size")

    def __init__(self, mark: DriverMark, at_us: int, rows: Sequence[EntryRow]) -> None:
        self.mark = mark
        self.at_us = at_us
        self.rows = rows
        self.size = sum(
            [len(row.body) + sum([len(piece.text) for piece in row.pieces]) for row in rows]
        )
        """Size in bytes."""

    def stands(self, db: Cursor) -> bool:
        """Return True if exactly these entries are stored at their position. Raises
        psycopg.Error.
        """
        head, count = self.mark.head, len(self.rows)
        sent = [
            (head + n, whole(row.body, [(piece.at, piece.text) for piece in row.pieces]))
            for n, row in enumerate(self.rows, 1)
        ]
        return bodies(db, self.mark.num, after=head, to=head + count) == sent


def append_all(
    db: psycopg.Connection, appends: Sequence[PendingEntries], seal: Seal | None = None
) -> set[int]:
    """Append at most one batch per run. Returns the numbers of the runs whose append is stored; the
    others were rejected, and nothing of theirs was written.

    Raises psycopg.Error if nothing was written; if the connection was lost, the outcome is unknown.
    """
    lines = [
        (append.mark.num, seq, row) for append in appends for seq, row in enumerate(append.rows, 1)
    ]
    if seal is not None:
        heads = {append.mark.num: append.mark.head for append in appends}
        lines = [
            (run, seq, sealed_row(seal, place_of(run, heads[run] + seq), row, call_of))
            for run, seq, row in lines
        ]
    values: list[object] = [
        _numbers(append.mark.num for append in appends),
        _numbers(append.mark.fence for append in appends),
        _numbers(append.mark.head for append in appends),
        _numbers(len(append.rows) for append in appends),
        _numbers(append.at_us for append in appends),
        _words(append.mark.owner for append in appends),
        _numbers(run for run, _, _ in lines),
        _numbers(seq for _, seq, _ in lines),
        _words(row.type for _, _, row in lines),
        _words(_hex(row) for _, _, row in lines),
        _words("null" if row.attempt is None else str(row.attempt) for _, _, row in lines),
        [row.body for _, _, row in lines],
    ]
    pieces = [(run, seq, piece) for run, seq, row in lines for piece in row.pieces]
    if not pieces:
        return {num for num, _ in db.execute(_APPEND, values).fetchall()}
    # sorted, so that two transactions with the same texts do not deadlock
    texts = dict(sorted((piece.hash, piece.text) for _, _, piece in pieces))
    values += [
        _numbers(run for run, _, _ in pieces),
        _numbers(seq for _, seq, _ in pieces),
        _numbers(piece.at for _, _, piece in pieces),
        [piece.hash for _, _, piece in pieces],
        [*texts],
        [*texts.values()],
    ]
    return {num for num, _ in db.execute(_APPEND_PIECES, values).fetchall()}


def _hex(row: EntryRow) -> str:
    """Encode a call's id as a word in quotes, because an empty one would be lost without them."""
    call = call_of(row.call)
    return "null" if call is None else f'"{call.hex()}"'


def _numbers(values: Iterable[int]) -> str:
    """Encode an array for PostgreSQL, so that every append has the same statement."""
    return "{" + ",".join(map(str, values)) + "}"


def _words(values: Iterable[str]) -> str:
    """Encode an array of words without special characters."""
    return "{" + ",".join(values) + "}"
