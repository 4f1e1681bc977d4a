"""An encrypted journal file as plain text, for the checker. Like the checker, it shares no code with
Treadle: it is the format of encrypted journals, written down a second time. Entry: `decrypted`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections import defaultdict
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def decrypted(journal: Path, key: bytes) -> Path:
    """A copy beside the journal, without its triggers."""
    source = sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
    copy = journal.with_name("decrypted.db")
    copy.unlink(missing_ok=True)
    db = sqlite3.connect(copy)
    source.backup(db)
    source.close()
    for (name,) in db.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
        db.execute(f"drop trigger {name}")
    _decrypt(db, key)
    db.commit()
    db.close()
    return copy


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.new(key, purpose, hashlib.sha256).digest()


def _decrypt(db: sqlite3.Connection, key: bytes) -> None:
    ((name, wrapped),) = db.execute("select id, secret from seal_keys").fetchall()
    assert name == _derived(key, b"treadle journal key id")[:5]
    wrapping = AESGCM(_derived(key, b"treadle journal secret"))
    secret = wrapping.decrypt(wrapped[:12], wrapped[12:], None)
    cipher = AESGCM(_derived(key, b"treadle journal text" + secret))

    def plain(sealed: bytes, place: str) -> bytes:
        assert sealed[:6] == b"\x01" + name
        return cipher.decrypt(sealed[6:18], sealed[18:], place.encode())

    texts: dict[int, str] = defaultdict(str)
    for place, at, token in db.execute(
        "select place, at, hash from cuts join blobs on blobs.num = cuts.blob order by place, at"
    ):
        texts[place] += f" {at}:{token.hex()}"
    for place, sealed in db.execute("select place, body from entries").fetchall():
        run, seq = place >> 32, place & 0xFFFFFFFF
        body = plain(sealed, f"entry {seq} of run number {run}{texts[place]}")
        entry = json.loads(body)
        call = entry.get("call_id") or entry.get("result", {}).get("call_id")
        db.execute("update entries set body = ?, call = ? where place = ?", (body, call, place))
    for num, token, sealed in db.execute("select num, hash, body from blobs").fetchall():
        body = plain(sealed, f"long text {token.hex()}")
        values = (hashlib.sha256(body).digest(), body, num)
        db.execute("update blobs set hash = ?, body = ? where num = ?", values)
