"""What every wire needs to make deltas of an answer: how a stream begins, ends and breaks, and JSON
of which little is known.

What the events of a wire mean is its own (stream.py, events.py). Entry: `Decoder`, `json_object`,
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
    """One answer of a wire: bytes in, deltas out. Pure, and made anew for each answer."""

    __slots__ = ("_reported", "_splitter", "end", "failure", "heard")

    def __init__(self, reported: Callable[[bytes], AgentError]) -> None:
        """`reported` makes an error of the text of an error event."""
        self._reported = reported
        self._splitter = EventSplitter()
        self.end: ResponseEnd | None = None
        """Set once the answer is whole; it is not among the deltas."""
        self.failure: AgentError | None = None
        """Set once it can no longer be."""
        self.heard = False
        """Whether the last `feed` held more than signs of life."""

    def feed(self, chunk: bytes) -> list[Delta]:
        """What the next bytes of the stream add.

        Raises AgentError(network) for an event that is too large.
        """
        return self._take(self._splitter.feed(chunk))

    def finish(self) -> list[Delta]:
        """The stream is over. Afterwards `end` or `failure` is set."""
        deltas = self._take(self._splitter.finish())
        if self.end is None and self.failure is None:
            self._conclude(deltas)
        return deltas

    @abstractmethod
    def take_body(self, body: bytes) -> list[Delta]:
        """An answer that came as one JSON document. Afterwards `end` or `failure` is set."""

    @abstractmethod
    def _take(self, events: list[tuple[bytes, bytes]]) -> list[Delta]:
        """Of the next events of the stream, each with its name and data."""

    def _conclude(self, deltas: list[Delta]) -> None:
        """No event said that the answer is whole."""
        self._break("the answer ended before it was whole")

    def _break(self, why: str) -> None:
        self.failure = AgentError("network", why)

    def _read(self, read: Callable[[bytes], T], data: bytes, what: str) -> T | None:
        """None, and a failure, where `read` raises ValueError or RecursionError."""
        try:
            return read(data)
        except (ValueError, RecursionError) as e:
            self._break(f"{what} cannot be read: {e}")
            return None


# ---------------------------------------------------------------- JSON of which little is known


def left_out(what: str) -> ModelNotice:
    """For content of a kind that this version does not know, and cannot keep."""
    return ModelNotice(f"the answer held {what}, which this version does not know: it was left out")


def json_object(data: bytes) -> dict[str, Any]:
    """Text that msgspec refuses and Python's parser takes, such as half a surrogate pair.

    Raises ValueError or RecursionError where it is no object.
    """
    return as_object(json.loads(data.decode("utf-8", "replace")))


def as_object(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    return cast("dict[str, Any]", document)


def text_of(fields: Fields, name: str) -> str:
    """The string under `name`; "" where there is none."""
    raw = fields.get(name)
    if raw is None:
        return ""
    try:
        return _string.decode(raw)
    except ValueError:
        value: object = json.loads(bytes(raw).decode("utf-8", "replace"))
        return value if isinstance(value, str) else ""


def tokens(said: int | None) -> int:
    """A count: what is not said is nothing, and so is what is below that, which would give a limit
    more than it had.
    """
    return max(said or 0, 0)


def count_in(fields: Fields | None, name: str) -> int:
    """The count under `name`; 0 where there is none that can be read."""
    try:
        return tokens(_count.decode(fields[name])) if fields is not None and name in fields else 0
    except ValueError:
        return 0


def verbatim(value: object) -> JsonText:
    """As JSON text, to be sent back: what came as it is, but for bytes that are no text."""
    return dumped(value).decode("utf-8", "replace")
