"""Entries as rows of the file, and back. Who may write them is driving.py's business. Entry: `Row`, `insert`, `records`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, get_args

from treadle.entries import ApprovalAnswered, ApprovalAsked, Entry, Record, ToolFinished, ToolLate, ToolStarted, read_entry
from treadle.errors import AgentError
from treadle.journal import unknown_run
from treadle.journals.sqlite.bodies import Piece, cut, whole
from treadle.journals.sqlite.database import Cursor
from treadle.journals.sqlite.upcasting import upcast
from treadle.json_text import encode_json
from treadle.types import Time

_TAGS = {kind: str(kind.__struct_config__.tag) for kind in get_args(Entry)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Row(NamedTuple):
    """An entry without its place."""

    type: str
    call: str | bytes | None
    attempt: int | None
    body: bytes
    pieces: Sequence[Piece]


def row_of(entry: Entry, data: bytes | None = None) -> Row:
    """`data`: its bytes, where they are known."""
    body, pieces = cut(encode_json(entry) if data is None else data)
    call, attempt = None, None
    if isinstance(entry, ToolFinished):
        call = storable(entry.result.call_id)
    elif isinstance(entry, ToolStarted):
        call, attempt = storable(entry.call_id), entry.attempt
    elif isinstance(entry, (ToolLate, ApprovalAsked, ApprovalAnswered)):
        call = storable(entry.call_id)
    return Row(_TAGS[type(entry)], call, attempt, body, pieces)


def storable(text: str) -> str | bytes:
    """SQLite's texts are UTF-8, which has no place for a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def place_of(run: int, seq: int) -> int:
    return run << 32 | seq


def insert(db: Cursor, run: int, first: int, rows: Sequence[Row]) -> None:
    """As entries `first` and following of the run. Raises apsw.ConstraintError for what the tables refuse: a second result, a second start."""
    place = place_of(run, first)
    db.executemany(
        "insert into entries(place, type, call, attempt, body) values(?, ?, ?, ?, ?)",
        [(place + n, row.type, row.call, row.attempt, row.body) for n, row in enumerate(rows)],
    )
    for n, row in enumerate(rows):
        for piece in row.pieces:
            db.execute("insert into blobs(hash, body) values(?, ?) on conflict(hash) do nothing", (piece.hash, piece.text))
            db.execute("insert into cuts(place, at, blob) select ?, ?, num from blobs where hash = ?", (place + n, piece.at, piece.hash))


def bodies(db: Cursor, run: int, *, after: int = 0, to: int = 0xFFFFFFFF) -> list[tuple[int, bytes]]:
    """Sequence and bytes of the entries above `after` and up to `to`."""
    span = (place_of(run, after), place_of(run, to))
    cuts: dict[int, list[tuple[int, bytes]]] = {}
    for place, at, text in db.execute(
        "select place, at, blobs.body from cuts join blobs on blobs.num = cuts.blob where place > ? and place <= ? order by place, at", span
    ):
        cuts.setdefault(place, []).append((at, text))
    found: list[tuple[int, bytes]] = []
    for place, body in db.execute("select place, body from entries where place > ? and place <= ? order by place", span):
        found.append((place & 0xFFFFFFFF, whole(body, cuts[place]) if place in cuts else body))
    return found


class Found(NamedTuple):
    """A run, as far as reading its entries needs to know it."""

    num: int
    schema: int


def find(db: Cursor, run_id: str) -> Found:
    """Raises AgentError(invalid) for an unknown run."""
    row = db.execute("select num, schema from runs where id = ?", (storable(run_id),)).fetchone()
    if row is None:
        raise unknown_run(run_id, _near(db, run_id))
    return Found(*row)


def _near(db: Cursor, run_id: str) -> list[str]:
    """Ids that may have been meant, the newest last: those that begin so, and the last thousand."""
    begin = run_id if isinstance(storable(run_id), str) else ""
    alike = db.execute("select id from runs where id >= ? and id < ? || char(0x10ffff) order by num limit 10", (begin, begin)).fetchall() if begin else []
    last = db.execute("select id from (select id, num from runs order by num desc limit 1000) order by num").fetchall()
    return list(dict.fromkeys(known for (known,) in (*alike, *last)))


def records(db: Cursor, run_id: str, *, after: int = 0) -> list[Record]:
    """Raises AgentError(invalid) for an unknown run, and for an entry that cannot be read."""
    run = find(db, run_id)
    return [Record(seq=seq, entry=read_stored(data, run.schema)) for seq, data in bodies(db, run.num, after=max(after, 0))]


def read_stored(data: bytes, schema: int) -> Entry:
    return read_entry(upcast(data, schema))


def micros(at: Time) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def time_of(stored_us: int) -> Time:
    return _EPOCH + timedelta(microseconds=stored_us)


def check_id(run_id: str) -> None:
    """Raises AgentError(invalid) for a run id that has no place in the file."""
    if not run_id or isinstance(storable(run_id), bytes):
        raise AgentError("invalid", f"{run_id!r} is no id of a run")


def entries_of(rows: Iterable[tuple[int, bytes]], schema: int) -> list[Entry]:
    return [read_stored(data, schema) for _, data in rows]
