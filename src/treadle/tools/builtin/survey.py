"""Encoding, line count and digest of a file, found by reading it in pieces. Entry point:
`survey`.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
from anyio import from_thread

from treadle.tools.builtin import files
from treadle.tools.builtin.text import (
    LATIN_1,
    UTF_8,
    Encoding,
)

_CHUNK = 256 * 1024


class Survey(msgspec.Struct, frozen=True):
    encoding: Encoding
    digest: str
    lines: int | None
    """Number of lines. None if the file is too large to be read just for counting."""


def survey(file: BinaryIO, head: bytes, *, to_the_end: bool) -> Survey:
    """Read up to 16 MiB of the file, or `to_the_end`, for its encoding, line count and digest."""
    import hashlib  # noqa: PLC0415  as in files.py

    encoding = Encoding.of(head, whole=False)
    is_utf8 = codecs.getincrementaldecoder("utf-8")()
    hashed = hashlib.blake2b(digest_size=16)
    lines = _LineCount(encoding)
    size = 0
    for chunk in chunks(file, 0):
        size += len(chunk)
        if size > files.MAX_WHOLE_BYTES and not to_the_end:
            return Survey(encoding, files.digest_of_large(os.fstat(file.fileno())), None)
        hashed.update(chunk)
        lines.feed(chunk)
        encoding = _still(encoding, is_utf8, chunk)
    encoding = _still(encoding, is_utf8, b"", final=True)
    digest = (
        hashed.hexdigest()
        if size <= files.MAX_WHOLE_BYTES
        else files.digest_of_large(os.fstat(file.fileno()))
    )
    return Survey(encoding, digest, lines.total())


def _still(
    encoding: Encoding, is_utf8: codecs.IncrementalDecoder, chunk: bytes, *, final: bool = False
) -> Encoding:
    if encoding is not UTF_8:
        return encoding
    try:
        is_utf8.decode(chunk, final)
    except UnicodeDecodeError:
        return LATIN_1
    return encoding


class _LineCount:
    def __init__(self, encoding: Encoding) -> None:
        self._bom: bytes = encoding.bom
        self._decoder = (
            codecs.getincrementaldecoder(encoding.codec)("replace") if encoding.is_wide else None
        )
        self._breaks = 0
        self._open = False

    def feed(self, chunk: bytes) -> None:
        chunk, self._bom = chunk.removeprefix(self._bom), b""
        text: str | bytes = self._decoder.decode(chunk) if self._decoder is not None else chunk
        if isinstance(text, str):
            self._count(text.count("\n"), open_line=not text.endswith("\n"), anything=text != "")
        else:
            self._count(text.count(b"\n"), open_line=not text.endswith(b"\n"), anything=text != b"")

    def _count(self, breaks: int, *, open_line: bool, anything: bool) -> None:
        self._breaks += breaks
        if anything:
            self._open = open_line

    def total(self) -> int:
        return self._breaks + self._open


def chunks(file: BinaryIO, start: int) -> Iterator[bytes]:
    file.seek(start)
    while chunk := file.read(_CHUNK):
        from_thread.check_cancelled()
        yield chunk
