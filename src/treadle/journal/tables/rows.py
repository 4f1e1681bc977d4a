"""Entries as rows of a table, and back. Each database decides who may write them. Entry:

`EntryRow`, `insert`, `records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast, get_args

from treadle._internal.json_text import encode_or_raise
from treadle.errors import AgentError
from treadle.journal.entries import (
    ApprovalAnswered,
    ApprovalAsked,
    Entry,
    Record,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolStarted,
)
from treadle.journal.entry_codec import read_entry
from treadle.journal.run_info import NEAR_MOST, UnknownRun
from treadle.journal.tables.bodies import LONG_BYTES, BodyPiece, cut, whole
from treadle.journal.tables.database import Cursor
from treadle.journal.tables.sealing import Seal
from treadle.journal.tables.upcasting import upcast
from treadle.types import Time

_TAGS = {kind: str(kind.__struct_config__.tag) for kind in get_args(Entry)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class EntryRow(NamedTuple):
    """An entry without its position."""

    type: str
    call: str | bytes | None
    attempt: int | None
    body: bytes
    pieces: Sequence[BodyPiece]


def row_of(entry: Entry, data: bytes | None = None) -> EntryRow:
    """Convert an entry to a row. `data`: its bytes, if known."""
    body, pieces = encode_or_raise(entry) if data is None else data, ()
    if len(body) >= LONG_BYTES:
        body, pieces = cut(body)
    call, attempt = None, None
    if isinstance(entry, ToolFinished):
        call = storable(entry.result.call_id)
    elif isinstance(entry, ToolStarted):
        call, attempt = storable(entry.call_id), entry.attempt
    elif isinstance(entry, (ToolLate, ApprovalAsked, ApprovalAnswered)):
        call = storable(entry.call_id)
    return EntryRow(_TAGS[type(entry)], call, attempt, body, pieces)


def key_of(text: str) -> str:
    """Return an id as the tables store it. Empty, which matches none, for one that they cannot
    store.
    """
    return "" if "\0" in text or isinstance(storable(text), bytes) else text


def showable(text: str) -> str:
    """Return text for display, with a substitute for characters that the tables cannot store."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def storable(text: str) -> str | bytes:
    """Return text without lone surrogates, which the UTF-8 of databases cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def place_of(run: int, seq: int) -> int:
    return run << 32 | seq


def insert(db: Cursor, run: int, first: int, rows: Sequence[EntryRow]) -> None:
    """Insert rows as entries `first` and following of the run.

    Raises `Dialect.refused` for a row that violates a constraint: a second result, a second start.
    """
    place, call = place_of(run, first), db.dialect.call
    if db.seal is not None:
        rows = [sealed_row(db.seal, place + n, row, call) for n, row in enumerate(rows)]
    db.executemany(
        "insert into entries(place, type, call, attempt, body) values(?, ?, ?, ?, ?)",
        [
            (
                place + n,
                row.type,
                row.call if row.call is None else call(row.call),
                row.attempt,
                row.body,
            )
            for n, row in enumerate(rows)
        ],
    )
    for n, row in enumerate(rows):
        for piece in row.pieces:
            _refer(db, place + n, piece)


def sealed_row(
    seal: Seal, place: int, row: EntryRow, stored_call: Callable[[str | bytes], object]
) -> EntryRow:
    """Encrypt a row. `stored_call` is `Dialect.call`."""
    pieces = [
        BodyPiece(piece.at, token, seal.sealed(blob_place(token), piece.text))
        for piece in row.pieces
        for token in (seal.token(piece.hash),)
    ]
    return EntryRow(
        row.type,
        None if row.call is None else seal.token(cast("str | bytes", stored_call(row.call))),
        row.attempt,
        seal.sealed(entry_place(place, pieces), row.body),
        pieces,
    )


def blob_place(token: bytes) -> str:
    return f"long text {token.hex()}"


def entry_place(place: int, pieces: Iterable[BodyPiece]) -> str:
    """Return the place of an entry. Its long texts belong to it, so that another one in their place
    is noticed.
    """
    texts = "".join([f" {piece.at}:{piece.hash.hex()}" for piece in pieces])
    return f"entry {place & 0xFFFFFFFF} of run number {place >> 32}{texts}"


def _refer(db: Cursor, place: int, piece: BodyPiece) -> None:
    """Refer to a stored long text. Repeated once if the text is pruned between the two
    statements.
    """
    while True:
        db.execute(
            "insert into blobs(hash, body) values(?, ?) on conflict(hash) do nothing",
            (piece.hash, piece.text),
        )
        if (
            db.execute(
                "insert into cuts(place, at, blob) select ?, ?, num from blobs where hash = ?",
                (place, piece.at, piece.hash),
            ).changed
            == 1
        ):
            return


def bodies(
    db: Cursor, run: int, *, after: int = 0, to: int = 0xFFFFFFFF
) -> list[tuple[int, bytes]]:
    """Return sequence numbers and bytes of the entries above `after` and up to `to`."""
    return [
        (place & 0xFFFFFFFF, body)
        for place, body in _whole(
            db, "place > ? and place <= ?", (place_of(run, after), place_of(run, to))
        )
    ]


def bodies_of(db: Cursor, runs: Sequence[int]) -> dict[int, list[tuple[int, bytes]]]:
    """Return the same for several whole runs, with one query."""
    found: dict[int, list[tuple[int, bytes]]] = {run: [] for run in runs}
    spans = [place for run in runs for place in (place_of(run, 0), place_of(run, 0xFFFFFFFF))]
    for place, body in (
        _whole(db, " or ".join(["place > ? and place <= ?"] * len(runs)), spans) if runs else ()
    ):
        found[place >> 32].append((place & 0xFFFFFFFF, body))
    return found


def _whole(db: Cursor, where: str, places: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """Return sequence numbers and bytes, in order."""
    cuts: dict[int, list[BodyPiece]] = {}
    for place, at, token, text in db.execute(
        (
            "select place, at, blobs.hash, blobs.body from cuts join blobs on blobs.num = "
            f"cuts.blob where {where} order by place, at"
        ),
        places,
    ):
        cuts.setdefault(place, []).append(BodyPiece(at, token, text))
    for place, stored in db.execute(
        f"select place, body from entries where {where} order by place", places
    ):
        body, pieces = stored, cuts.get(place, ())
        if db.seal is not None:
            body = db.seal.opened(entry_place(place, pieces), stored)
            pieces = [
                piece._replace(text=db.seal.opened(blob_place(piece.hash), piece.text))
                for piece in pieces
            ]
        yield place, whole(body, [(one.at, one.text) for one in pieces]) if pieces else body


class RunRow(NamedTuple):
    """Columns of a run that are needed to read its entries."""

    num: int
    schema: int


def find(db: Cursor, run_id: str) -> RunRow:
    """Find a run. Raises AgentError(invalid) for an unknown one."""
    row = db.execute("select num, schema from runs where id = ?", (key_of(run_id),)).fetchone()
    if row is None:
        raise UnknownRun(run_id, near(db, run_id))
    return RunRow(*row)


def near(db: Cursor, run_id: str) -> list[str]:
    """Return ids that may have been meant, newest last: ten with this prefix, and the last
    `NEAR_MOST`. `Runtime.ensure` pays for this read with each new run.
    """
    begin = key_of(run_id)
    alike = (
        db.execute(
            "select id from runs where id >= ? and id < ? order by num limit 10",
            (begin, begin + chr(0x10FFFF)),
        ).fetchall()
        if begin
        else []
    )
    last = db.execute(
        "select id from (select id, num from runs order by num desc limit ?) order by num",
        (NEAR_MOST,),
    ).fetchall()
    return list(dict.fromkeys(known for (known,) in (*alike, *last)))


def records(db: Cursor, run_id: str, *, after: int = 0) -> list[Record]:
    """Return the records of a run. Raises AgentError(invalid) for an unknown run, and for an
    unreadable entry.
    """
    run = find(db, run_id)
    found = [
        Record(seq=seq, entry=read_stored(data, run.schema))
        for seq, data in bodies(db, run.num, after=max(after, 0))
    ]
    if db.seal is not None and found:
        begun = found[0].entry
        # entries are bound to the number of the run, so its id could have been changed
        if isinstance(begun, RunStarted) and begun.run_id != run_id:
            raise db.seal.damaged(f"run {run_id}", f"its entries are those of {begun.run_id}")
    return found


def read_stored(data: bytes, schema: int) -> Entry:
    return read_entry(upcast(data, schema))


def micros(at: Time) -> int:
    """Return microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def time_of(stored_us: int) -> Time:
    return _EPOCH + timedelta(microseconds=stored_us)


def check_id(run_id: str) -> None:
    """Check a run id. Raises AgentError(invalid) if the tables cannot store it."""
    if not key_of(run_id):
        raise AgentError("invalid", f"{run_id!r} is not a run id")


def entries_of(rows: Iterable[tuple[int, bytes]], schema: int) -> list[Entry]:
    return [read_stored(data, schema) for _, data in rows]
