"""Lines of bounded length from the output of a program, with a guess at which request an invalid
line responds to.

stdio.py reads and parses. Entry points: `BoundedLines`, `answered_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE_BYTES = 8 << 20
"""Maximum size of a line in bytes: enough for an image that models accept, in base64."""
_END = 512
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*[,}]')
_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class BoundedLine(NamedTuple):
    data: bytes
    """Content. For an overlong line, its first and last 512 bytes."""
    size: int
    """Size of the whole line in bytes."""

    @property
    def is_cut(self) -> bool:
        return len(self.data) != self.size


class BoundedLines:
    """Splitter of bytes into lines. Holds at most one line, and at most `longest` bytes of it."""

    def __init__(self, longest: int = LINE_BYTES) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""
        """Beginning of the current line once it is too long. Only the end of the rest is kept."""

    def feed(self, data: bytes) -> Iterator[BoundedLine]:
        """Add bytes, and yield the lines that are now complete, without line ends."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._add(piece)
            yield self._take()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._longest:
            text = b"".join(self._pieces)
            self._head = self._head or text[:_END]
            self._pieces = [text[-_END:]]

    def _take(self) -> BoundedLine:
        line = BoundedLine(self._head + b"".join(self._pieces), self._size)
        self._pieces, self._size, self._head = [], 0, b""
        return line


def answered_id(line: BoundedLine) -> int | None:
    """Return the id of our request that an overlong or invalid line responds to, from the `id` at
    its beginning or end; None if there is none.
    """
    found = _FIRST.match(line.data[:_END]) or _LAST.search(line.data[-_END:])
    return int(found[1]) if found else None
