"""The keys of a journal in its tables, and the encryption of everything that it stores: when it is
created, converted from plain text, or given a new key.

Entry points: `seal_of`, `encrypt_all`, `Encrypted`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from treadle.errors import AgentError
from treadle.journal.session_names import NEW_SESSION
from treadle.journal.tables.bodies import BodyPiece
from treadle.journal.tables.conversations import title_place
from treadle.journal.tables.database import Cursor, Work
from treadle.journal.tables.listing import parked_place, summary_place
from treadle.journal.tables.rows import blob_place, entry_place
from treadle.journal.tables.sealing import (
    HEAD_BYTES,
    KEY,
    MAKE,
    OLD_KEYS,
    TEXT,
    Seal,
    key_id,
    unwrapped,
    wrapped,
)
from treadle.journal.tables.view import message_place

Key: TypeAlias = tuple[int, ...]
"""Key of the last row of a batch."""

AT_ONCE: Final = 200
"""Number of rows that one transaction encrypts."""
_SECRET_BYTES: Final = 32
_INSERT: Final = "insert into seal_keys(id, secret) values(?, ?) on conflict do nothing"


class Encrypted(NamedTuple):
    """Result of encrypting a journal."""

    values: int
    """Number of values that were encrypted, or encrypted again."""
    was_plain: bool


def seal_of(db: Cursor, keys: Sequence[bytes], journal: str) -> Seal | None:
    """Return the keys of a journal, which becomes an encrypted one if it is empty and there is a
    key; None for one in plain text. Needs a transaction that may write if `keys` are given.

    `journal`: its name in errors. Raises AgentError(invalid) for a missing or wrong key, and for a
    journal in plain text that is not empty if there is a key.
    """
    stored = _stored_keys(db)
    if not keys:
        if stored:
            raise is_sealed(journal)
        return None
    if stored:
        return _unlocked(db, stored, keys, journal)
    if _is_used(db):
        raise AgentError(
            "invalid",
            f"there is a key in {KEY}, but the journal {journal!r} holds runs in plain text: "
            "`treadle runs encrypt` converts it; unset the variable to use it as it is",
        )
    seal = _begun(db, keys, journal)
    for statement in db.dialect.only_sealed:
        db.execute(statement)
    return seal


def is_sealed(journal: str) -> AgentError:
    """Return the error for an encrypted journal that is opened without a key."""
    return AgentError("invalid", f"the journal {journal!r} is encrypted: set {KEY} to its key")


def encrypt_all(
    keys: Sequence[bytes], journal: str, transact: Callable[[Work[Any]], Any]
) -> Encrypted:
    """Encrypt everything with the first key: a journal in plain text in one call of `transact`, an
    encrypted one in many, after which its other keys are removed.

    Raises AgentError(invalid) for a missing or wrong key.
    """
    if not keys:
        raise AgentError("invalid", f"set {KEY} to a key of 32 bytes: `{MAKE}` makes one")
    if not transact(_stored_keys):
        return Encrypted(transact(lambda db: _converted(db, keys, journal)), was_plain=True)
    seal = transact(lambda db: _unlocked(db, _stored_keys(db), keys, journal))
    total = 0
    while changed := _rewrite_all(seal, transact, is_plain=False):
        total += changed  # once more, for what others have stored in the meantime
    current = key_id(keys[0])
    transact(lambda db: db.execute("delete from seal_keys where id <> ?", (current,)).changed)
    return Encrypted(total, was_plain=False)


def _converted(db: Cursor, keys: Sequence[bytes], journal: str) -> int:
    """Encrypt a journal in plain text. Return the number of values."""
    if db.dialect.lock_all:
        db.execute(db.dialect.lock_all)
    if _stored_keys(db):
        raise AgentError("busy", f"another process has just encrypted {journal!r}: try again")
    seal = _begun(db, keys, journal)
    count = _rewrite_all(seal, lambda work: work(db), is_plain=True)
    for statement in db.dialect.only_sealed:
        db.execute(statement)
    return count


def _stored_keys(db: Cursor) -> dict[bytes, bytes]:
    return dict(db.execute("select id, secret from seal_keys").fetchall())


def _is_used(db: Cursor) -> bool:
    statement = "select exists (select 1 from runs) or exists (select 1 from sessions)"
    return bool(db.execute(statement).get)


def _begun(db: Cursor, keys: Sequence[bytes], journal: str) -> Seal:
    """Store the first key of a journal."""
    secret = os.urandom(_SECRET_BYTES)
    db.execute(_INSERT, (key_id(keys[0]), wrapped(secret, keys[0])))
    return Seal(journal, secret, keys)


def _unlocked(db: Cursor, stored: dict[bytes, bytes], keys: Sequence[bytes], journal: str) -> Seal:
    """Decrypt the journal's secret, and store it for a new key."""
    given = {key_id(key): key for key in keys}
    secrets = {
        name: secret
        for name, key in given.items()
        if name in stored and (secret := unwrapped(stored[name], key)) is not None
    }
    if not secrets:
        raise AgentError("invalid", f"{KEY} is not the key of the journal {journal!r}: correct it")
    if missing := [name for name in stored if name not in secrets]:
        raise AgentError(
            "invalid",
            f"the journal {journal!r} has texts under another key (id {missing[0].hex()}) too: "
            f"add it to {OLD_KEYS}",
        )
    secret = next(iter(secrets.values()))
    current = key_id(keys[0])
    if current not in stored:
        db.execute(_INSERT, (current, wrapped(secret, keys[0])))
    return Seal(journal, secret, keys)


# ---------------------------------------------------------------- all values


class _Rewriting(NamedTuple):
    """How values are encrypted."""

    seal: Seal
    is_plain: bool
    """True if they are plain text so far."""

    def value(self, where: str, stored: bytes) -> bytes:
        plain = stored if self.is_plain else self.seal.opened(where, stored)
        return self.seal.sealed(where, plain)

    def text(self, where: str, stored: str) -> str:
        plain = stored if self.is_plain else self.seal.opened_text(where, stored)
        return self.seal.sealed_text(where, plain)

    def token(self, stored: str | bytes) -> bytes:
        return self.seal.token(stored) if self.is_plain else bytes(stored)  # pyright: ignore[reportArgumentType]


class _Step(NamedTuple):
    """Rewriting of one table, in batches of rows in the order of `key`."""

    query: str
    """Rows after a key; its first columns are the key. Parameters: the key, the head of values that
    are up to date, and the limit.
    """
    key: int
    """Number of columns of the key."""
    write: Callable[[Cursor, _Rewriting, Sequence[tuple[Any, ...]]], None]
    is_text: bool = False
    """True if the values are in a column of text."""


def _rewrite_all(seal: Seal, transact: Callable[[Work[Any]], Any], *, is_plain: bool) -> int:
    """Rewrite the values that are not encrypted with the first key. Return their number."""
    how, count = _Rewriting(seal, is_plain), 0
    for step in _STEPS:
        after: Key | None = (-1,) * step.key
        while after is not None:
            after, changed = transact(
                lambda db, step=step, after=after: _rewrite(db, step, how, after)
            )
            count += changed
    return count


def _rewrite(db: Cursor, step: _Step, how: _Rewriting, after: Key) -> tuple[Key | None, int]:
    head = how.seal.text_head if step.is_text else how.seal.head
    rows = db.execute(step.query, (*after, head, AT_ONCE)).fetchall()
    step.write(db, how, rows)
    return (rows[-1][: step.key] if len(rows) == AT_ONCE else None), len(rows)


def _blobs(db: Cursor, how: _Rewriting, rows: Sequence[tuple[Any, ...]]) -> None:
    for num, stored, body in rows:
        token = how.token(stored)
        values = (token, how.value(blob_place(token), body), num)
        db.execute("update blobs set hash = ?, body = ? where num = ?", values)


def _entries(db: Cursor, how: _Rewriting, rows: Sequence[tuple[Any, ...]]) -> None:
    """Replace entries. The tables allow that only for runs that are being removed."""
    if not rows:
        return
    texts: dict[int, list[BodyPiece]] = {}
    for place, at, token in db.execute(
        "select place, at, hash from cuts join blobs on blobs.num = cuts.blob where place between "
        "? and ? order by place, at",
        (rows[0][0], rows[-1][0]),
    ).fetchall():
        texts.setdefault(place, []).append(BodyPiece(at, token, b""))
    new = [
        (
            place,
            kind,
            None if call is None else how.token(call),
            attempt,
            how.value(entry_place(place, texts.get(place, ())), body),
        )
        for place, kind, call, attempt, body in rows
    ]
    runs = sorted({place >> 32 for place, *_ in rows})
    db.executemany("insert into leaving(run) values(?)", [(run,) for run in runs])
    db.executemany("delete from entries where place = ?", [(place,) for place, *_ in rows])
    db.executemany(
        "insert into entries(place, type, call, attempt, body) values(?, ?, ?, ?, ?)", new
    )
    db.executemany("delete from leaving where run = ?", [(run,) for run in runs])


def _summaries(db: Cursor, how: _Rewriting, rows: Sequence[tuple[Any, ...]]) -> None:
    for num, run_id, stored in rows:
        db.execute(
            "update runs set summary = ?, indexed = 1 where num = ? and summary = ?",
            (how.value(summary_place(run_id), stored), num, stored),
        )


def _parkings(db: Cursor, how: _Rewriting, rows: Sequence[tuple[Any, ...]]) -> None:
    for num, run_id, stored in rows:
        values = (how.text(parked_place(run_id), stored), num, stored)
        db.execute("update runs set parked = ? where num = ? and parked = ?", values)


def _titles(db: Cursor, how: _Rewriting, rows: Sequence[tuple[Any, ...]]) -> None:
    for num, session_id, stored in rows:
        # a deleted session, of which only the origins of forks are left, is not listed
        title = NEW_SESSION if session_id is None else how.text(title_place(session_id), stored)
        db.execute(
            "update sessions set title = ? where num = ? and title = ?", (title, num, stored)
        )


def _messages(db: Cursor, how: _Rewriting, rows: Sequence[tuple[Any, ...]]) -> None:
    for session, pos, body in rows:
        db.execute(
            "update session_entries set body = ? where session = ? and pos = ?",
            (how.value(message_place(session, pos), body), session, pos),
        )


_CURRENT: Final = f"substr({{column}}, 1, {HEAD_BYTES}) <> ?"
_CURRENT_TEXT: Final = f"substr({{column}}, 1, {len(TEXT) + HEAD_BYTES // 3 * 4}) <> ?"
_STEPS: Final = (
    _Step(
        "select num, hash, body from blobs where num > ? and "
        f"{_CURRENT.format(column='body')} order by num limit ?",
        1,
        _blobs,
    ),
    _Step(
        "select place, type, call, attempt, body from entries where place > ? and "
        f"{_CURRENT.format(column='body')} order by place limit ?",
        1,
        _entries,
    ),
    _Step(
        "select num, id, summary from runs where num > ? and "
        f"{_CURRENT.format(column='summary')} order by num limit ?",
        1,
        _summaries,
    ),
    _Step(
        "select num, id, parked from runs where num > ? and parked is not null and "
        f"{_CURRENT_TEXT.format(column='parked')} order by num limit ?",
        1,
        _parkings,
        is_text=True,
    ),
    _Step(
        f"select num, id, title from sessions where num > ? and title <> '{NEW_SESSION}' and "
        f"{_CURRENT_TEXT.format(column='title')} order by num limit ?",
        1,
        _titles,
        is_text=True,
    ),
    _Step(
        "select session, pos, body from session_entries where (session, pos) > (?, ?) and body is "
        f"not null and {_CURRENT.format(column='body')} order by session, pos limit ?",
        2,
        _messages,
    ),
)
"""Long texts come first, because the place of an entry contains their tokens."""
