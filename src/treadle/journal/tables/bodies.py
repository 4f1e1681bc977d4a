"""Encoding of stored entries: long texts are stored once, by hash, and restored byte for byte. Only
whole JSON strings are extracted, so that a prompt, a result or an argument is the same piece in
every entry. Entry points: `cut`, `whole`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

LONG_BYTES = 8192
"""Minimum size in bytes, as JSON text, of strings that are stored by hash."""

_STRING = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)


class BodyPiece(NamedTuple):
    """An extracted string."""

    at: int
    """Offset in the bytes of the entry, excluding its quotes."""
    hash: bytes
    text: bytes


def cut(entry: bytes) -> tuple[bytes, list[BodyPiece]]:
    """Return the entry without its long strings, and these strings in order."""
    left: list[bytes] = []
    pieces: list[BodyPiece] = []
    done = 0
    for token in _STRING.finditer(entry):
        start, end = token.span(1)
        if end - start >= LONG_BYTES:
            text = entry[start:end]
            pieces.append(BodyPiece(start, hashlib.sha256(text).digest(), text))
            left.append(entry[done:start])
            done = end
    return (b"".join([*left, entry[done:]]), pieces) if pieces else (entry, [])


def whole(left: bytes, pieces: Iterable[tuple[int, bytes]]) -> bytes:
    """Restore an entry, as the inverse of `cut`. `pieces` are position and text of each string, in
    order.
    """
    joined: list[bytes] = []
    done = length = 0
    for at, text in pieces:
        kept = left[done : done + at - length]
        joined += (kept, text)
        done += len(kept)
        length = at + len(text)
    return b"".join([*joined, left[done:]])
