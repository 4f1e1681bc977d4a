"""Shared decoding of responses into deltas: how a stream begins, ends and fails, and JSON of
unknown structure.

Each wire interprets its own events (stream.py, events.py). Entry points: `Decoder`, `json_object`,
`text_of`, `tokens`, `verbatim`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from treadle.errors import AgentError
from treadle.messages.message import JsonText
from treadle.models.model import Delta, ModelNotice, ResponseEnd
from treadle.models.providers.encoding import Fields, dumped
from treadle.models.providers.sse import EventSplitter

T = TypeVar("T")

_string = msgspec.json.Decoder(str)
_count = msgspec.json.Decoder(int | None)


class Decoder(ABC):
    """Decoder of one response, from bytes to deltas. Does no I/O, and is used once."""

    __slots__ = ("_reported", "_splitter", "end", "failure", "heard")

    def __init__(self, reported: Callable[[bytes], AgentError]) -> None:
        """Create a decoder. `reported`: makes an error from the text of an error event."""
        self._reported = reported
        self._splitter = EventSplitter()
        self.end: ResponseEnd | None = None
        """Set when the response is complete. It is not among the deltas."""
        self.failure: AgentError | None = None
        """Set when the response has failed."""
        self.heard = False
        """True if the last `feed` contained more than keep-alive messages."""

    def feed(self, chunk: bytes) -> list[Delta]:
        """Return the deltas of the next bytes of the stream.

        Raises AgentError(network) for an event that is too large.
        """
        return self._take(self._splitter.feed(chunk))

    def finish(self) -> list[Delta]:
        """End the stream. Afterwards, `end` or `failure` is set."""
        deltas = self._take(self._splitter.finish())
        if self.end is None and self.failure is None:
            self._conclude(deltas)
        return deltas

    @abstractmethod
    def take_body(self, body: bytes) -> list[Delta]:
        """Decode a response that is one JSON document. Afterwards, `end` or `failure` is set."""

    @abstractmethod
    def _take(self, events: list[tuple[bytes, bytes]]) -> list[Delta]:
        """Decode the next events of the stream, each with name and data."""

    def _conclude(self, deltas: list[Delta]) -> None:
        """Handle the end of a stream without a final event."""
        self._break("the response ended before it was complete")

    def _break(self, why: str) -> None:
        self.failure = AgentError("network", why)

    def _read(self, read: Callable[[bytes], T], data: bytes, what: str) -> T | None:
        """Return the decoded value, or record a failure and return None if `read` raises ValueError
        or RecursionError.
        """
        try:
            return read(data)
        except (ValueError, RecursionError) as e:
            self._break(f"{what} cannot be read: {e}")
            return None


# ---------------------------------------------------------------- JSON of which little is known


def left_out(what: str) -> ModelNotice:
    """Return a notice about content of an unknown kind that cannot be kept."""
    return ModelNotice(
        f"the response contained {what}, which this version does not support: it was left out"
    )


def json_object(data: bytes) -> dict[str, Any]:
    """Parse text that msgspec rejects but Python's parser accepts, such as lone surrogates.

    Raises ValueError or RecursionError if it is not an object.
    """
    return as_object(json.loads(data.decode("utf-8", "replace")))


def as_object(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return cast("dict[str, Any]", document)


def text_of(fields: Fields, name: str) -> str:
    """Return the string under `name`, or ""."""
    raw = fields.get(name)
    if raw is None:
        return ""
    try:
        return _string.decode(raw)
    except ValueError:
        value: object = json.loads(bytes(raw).decode("utf-8", "replace"))
        return value if isinstance(value, str) else ""


def tokens(said: int | None) -> int:
    """Return a token count. Missing and negative counts are 0; a negative one would raise a
    limit.
    """
    return max(said or 0, 0)


def count_in(fields: Fields | None, name: str) -> int:
    """Return the count under `name`, or 0 if there is no valid one."""
    try:
        return tokens(_count.decode(fields[name])) if fields is not None and name in fields else 0
    except ValueError:
        return 0


def verbatim(value: object) -> JsonText:
    """Encode a value as JSON text that is sent back later. Replaces only invalid UTF-8."""
    return dumped(value).decode("utf-8", "replace")
