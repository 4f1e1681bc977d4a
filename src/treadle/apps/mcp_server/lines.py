"""Splitting of client input into lines, and responses to invalid messages. Entry points:
`LineSplitter`, `refusal_of`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError

LINE_BYTES: Final = 64 << 20
"""Maximum length of a line; a longer one is discarded."""
_FORM: Final = (
    "a request is one object on one line, with jsonrpc '2.0', an id (an integer or a string), a "
    "method, and an object as params"
)
_ID_MOST: Final = 1 << 63
_ID_CHARS: Final = 1000


class LineSplitter:
    """Incremental splitter that holds at most one line."""

    def __init__(self, longest: int = LINE_BYTES) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[str | None]:
        """Yield the complete lines; None for one that is too long."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._add(piece)
            yield self.end()
        self._add(rest)

    def end(self) -> str | None:
        """Return the last, unterminated line."""
        line = (
            None
            if self._size > self._longest
            else b"".join(self._pieces).decode("utf-8", "replace")
        )
        self._pieces, self._size = [], 0
        return line

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._longest:
            self._pieces.clear()
        else:
            self._pieces.append(piece)


def refusal_of(line: str | None) -> JSONRPCError | None:
    """Return the error response to an invalid line; None for a response or a notification, which
    get no reply.
    """
    if line is None:
        return _refusal(
            PARSE_ERROR, f"the line is longer than {LINE_BYTES >> 20} MiB and was ignored"
        )
    try:
        said: object = json.loads(line)
    except (ValueError, RecursionError):
        return _refusal(PARSE_ERROR, f"the line is not JSON, or is nested too deeply: {_FORM}")
    if not isinstance(said, dict):
        batch = "the protocol has no batches: " if isinstance(said, list) else ""
        return _refusal(INVALID_REQUEST, f"{batch}{_FORM}")
    members = cast("dict[str, Any]", said)
    if "id" not in members or (
        "method" not in members and ("result" in members or "error" in members)
    ):
        return None
    return _refusal(INVALID_REQUEST, _FORM, _usable(members["id"]))


def _usable(number: object) -> int | str | None:
    if isinstance(number, str):
        return number if len(number) <= _ID_CHARS and number.isprintable() else None
    return (
        number
        if isinstance(number, int) and not isinstance(number, bool) and abs(number) < _ID_MOST
        else None
    )


def _refusal(code: int, message: str, number: int | str | None = None) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message))
