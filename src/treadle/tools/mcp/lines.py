"""What a program writes, cut into lines of bounded length, with a guess at whom a line answers that
is no message.

Not here: reading and parsing (stdio.py). Entry: `BoundedLines`, `answered_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE_BYTES = 8 << 20
"""Room for an image as models take it, in base64."""
_END = 512
_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*[,}]')
_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class BoundedLine(NamedTuple):
    data: bytes
    """Of a line that was too long its first and last 512 bytes."""
    size: int
    """Of the whole line."""

    @property
    def is_cut(self) -> bool:
        return len(self.data) != self.size


class BoundedLines:
    """Never holds more than one line, and never more than `longest` bytes of it."""

    def __init__(self, longest: int = LINE_BYTES) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = b""
        """Of a line that is too long already, whose pieces are only its last."""

    def feed(self, data: bytes) -> Iterator[BoundedLine]:
        """The lines that are whole now, without their ends."""
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
    """Which of our requests a line answers that is too long, or no message: by the `id` with which
    it begins or ends. None where neither is there.
    """
    found = _FIRST.match(line.data[:_END]) or _LAST.search(line.data[-_END:])
    return int(found[1]) if found else None
