"""How one wire says what every wire can say: the contract suite is written in these words, and each
wire speaks them.

No assertions here. A wire's own is a module of speeches/; conftest.py lists them. Entry: `Speech`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tests.models.providers.loopback import Answer
from treadle.messages.message import Message
from treadle.models.model import Model, ModelRequest
from treadle.models.providers.connection import Connection
from treadle.types import Settings, StopReason, Usage

KEY = "key-of-the-test"
ANSWER_ID = "answer_1"
MODEL = "model-of-the-test"
"""As it is asked for."""
ANSWERED_BY = "model-of-the-test-1"
USAGE = Usage(input_tokens=3, output_tokens=7, cache_read_tokens=2, reasoning_tokens=4)
"""What every whole answer says that it took."""
HELLO = ModelRequest(messages=[Message.user("Hello")], settings=Settings(max_tokens=100))

Json = dict[str, Any]


@dataclass(frozen=True)
class Text:
    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Reasoning:
    """With whatever the provider wants back with it."""

    pieces: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    id: str
    """"": the server gives it none."""
    name: str
    pieces: tuple[str, ...]
    """Of the text of its arguments."""


Said: TypeAlias = Text | Reasoning | Call


def text(*pieces: str) -> Text:
    return Text(pieces)


def reasoning(*pieces: str) -> Reasoning:
    return Reasoning(pieces)


def call(name: str, *pieces: str, id: str = "call_1") -> Call:
    return Call(id, name, pieces)


class Speech(Protocol):
    wire: str
    """As an endpoint's type names it."""
    target: str
    """Where it asks."""
    headers: Mapping[str, str]
    """What must be sent with each question, the key included."""
    words: Mapping[StopReason, str]
    """Its own for the ends that it has: COMPLETE, TOOL_USE, MAX_TOKENS and REFUSAL at least."""
    ping: bytes
    """A sign of life."""
    arguments_in_pieces: bool
    """Whether arguments may be cut anywhere, and need not be JSON."""

    def connection(self, url: str, *, timeout_s: float) -> Connection:
        """Our own, with KEY."""
        ...

    def model(self, connection: Connection, **options: Any) -> Model: ...

    def frames(self, *said: Said, end: StopReason | None = StopReason.COMPLETE) -> Sequence[bytes]:
        """The stream, event by event: ANSWER_ID by ANSWERED_BY with USAGE; each piece is an event.

        Without an `end` it breaks off within the last part.
        """
        ...

    def body(self, *said: Said, end: StopReason = StopReason.COMPLETE) -> Json:
        """The same as one JSON document."""
        ...

    def error(self, status: int, message: str) -> Json:
        """The body of an answer with that status."""
        ...

    def broken_off(self, message: str) -> bytes:
        """The event that tells of an overload in the middle of an answer."""
        ...

    def history(self, body: Json) -> list[Json]:
        """What a request holds of the conversation."""
        ...

    def count(self, tokens: int) -> Json | None:
        """The answer to how many tokens a request has; None where nobody can be asked."""
        ...


def stream(
    speech: Speech,
    *said: Said,
    end: StopReason = StopReason.COMPLETE,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    return Answer(steps=tuple(speech.frames(*said, end=end)), headers=headers or {})
