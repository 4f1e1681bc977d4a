"""Events of a Messages stream, and its plain JSON body, as typed values. Fields that are not
interpreted stay raw.

stream.py interprets them. Entry points: `decode_event` (and `decode_rare` for what it rejects),
`decode_body`. Source: https://platform.claude.com/docs/en/build-with-claude/streaming, and the
types of SDK 2.10 (2026-11).
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from treadle.messages.response_details import CacheMiss
from treadle.models.providers.decoding import as_object, json_object
from treadle.models.providers.encoding import Fields


class TextDeltaPiece(msgspec.Struct, tag_field="type", tag="text_delta", gc=False):
    text: str


class JsonPiece(msgspec.Struct, tag_field="type", tag="input_json_delta", gc=False):
    partial_json: str


class ThinkingPiece(msgspec.Struct, tag_field="type", tag="thinking_delta", gc=False):
    thinking: str


class BlockPiece(msgspec.Struct, tag_field="type", tag="content_block_delta", gc=False):
    """Delta of a content block: text, arguments of a call, or thinking. `OtherPiece` is for all
    other kinds.
    """

    delta: TextDeltaPiece | JsonPiece | ThinkingPiece
    index: int | None = None


class OtherPiece(msgspec.Struct, gc=False):
    """A delta of any other kind."""

    delta: Fields
    index: int | None = None


class BlockStart(msgspec.Struct, tag_field="type", tag="content_block_start"):
    content_block: Fields
    index: int | None = None


class BlockStop(msgspec.Struct, tag_field="type", tag="content_block_stop"):
    pass


class OutputTokenDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class Pass(msgspec.Struct):
    """An entry of `usage.iterations`: a sampling pass, or the work of another model."""

    type: str = ""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: Fields | None = None


class MissReason(msgspec.Struct):
    type: str = ""
    cache_missed_input_tokens: int | None = None


class CacheDiagnostics(msgspec.Struct):
    cache_miss_reason: MissReason | None = None


class Counts(msgspec.Struct):
    """Totals so far; None if an event omits them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: OutputTokenDetails | None = None
    cache_creation: Fields | None = None
    server_tool_use: Fields | None = None
    speed: str | None = None
    iterations: list[Pass] | None = None
    """Entries per pass of the provider over the conversation. The counts above are sums over the
    passes of the requested model.

    Passes of type `compaction` are billed in addition (types of the SDK 2.11,
    `BetaUsage.iterations`; "Compaction at a token threshold"; read 2026-11-22).
    """


class StopDetails(msgspec.Struct):
    category: str | None = None
    explanation: str | None = None


class Container(msgspec.Struct):
    id: str


class MessageEnding(msgspec.Struct):
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    container: Container | None = None


class MessageDelta(msgspec.Struct, tag_field="type", tag="message_delta"):
    delta: MessageEnding
    usage: Counts | None = None


class WireMessage(MessageEnding):
    id: str = ""
    model: str = ""
    usage: Counts | None = None
    content: list[Fields] = []
    diagnostics: msgspec.Raw = msgspec.Raw(b"null")


class MessageStart(msgspec.Struct, tag_field="type", tag="message_start"):
    message: WireMessage


class MessageStop(msgspec.Struct, tag_field="type", tag="message_stop"):
    pass


class Ping(msgspec.Struct, tag_field="type", tag="ping"):
    pass


class ErrorEvent(msgspec.Struct):
    """An `error` event, undecoded."""

    data: bytes


class UnknownEvent(msgspec.Struct):
    """An event of a later API version."""


Event: TypeAlias = (
    BlockPiece
    | OtherPiece
    | BlockStart
    | BlockStop
    | MessageDelta
    | MessageStart
    | MessageStop
    | Ping
    | ErrorEvent
    | UnknownEvent
)


class _Envelope(msgspec.Struct):
    type: str = ""
    index: int | None = None
    delta: Fields | None = None
    content_block: Fields | None = None


_envelope = msgspec.json.Decoder(_Envelope, strict=False)
_message = msgspec.json.Decoder(WireMessage, strict=False)
_diagnostics = msgspec.json.Decoder(CacheDiagnostics | None, strict=False)


decode_event = msgspec.json.Decoder(
    BlockPiece | BlockStart | BlockStop | MessageDelta | MessageStart | MessageStop | Ping,
    strict=False,
).decode
"""Decoder for the events of nearly every stream. Raises ValueError or RecursionError for others.
This is a bare decoder because it runs for every event.
"""


def decode_rare(data: bytes) -> Event:
    """Decode an event that `decode_event` rejects.

    Raises ValueError or RecursionError if the text is not an event.
    """
    try:
        envelope = _envelope.decode(data)
    except (ValueError, RecursionError):
        if data.strip() == b"[DONE]":  # end marker of other wires, which gateways pass on
            return UnknownEvent()
        envelope = _parsed(data)
    match envelope:
        case _Envelope(type="error"):
            return ErrorEvent(data)
        case _Envelope(type="content_block_delta", delta=dict() as delta):
            return OtherPiece(delta, envelope.index)
        case _Envelope(type="content_block_start", content_block=dict() as block):
            return BlockStart(block, envelope.index)
        case _Envelope(
            type="content_block_stop"
            | "message_start"
            | "message_delta"
            | "message_stop"
            | "content_block_delta"
            | "content_block_start"
        ):
            raise ValueError(f"a {envelope.type} event is malformed")
        case _:
            return UnknownEvent()


def _parsed(data: bytes) -> _Envelope:
    """Parse text that msgspec rejects but Python's parser accepts, such as lone surrogates."""
    document = json_object(data)
    delta, block = document.get("delta"), document.get("content_block")
    return _Envelope(
        type=str(document.get("type")),
        index=document.get("index"),
        delta=None if delta is None else _fields(as_object(delta)),
        content_block=None if block is None else _fields(as_object(block)),
    )


def decode_body(data: bytes) -> WireMessage | ErrorEvent:
    """Decode a response that was not streamed.

    Raises ValueError or RecursionError if it is not a message.
    """
    try:
        message = _message.decode(data)
    except (ValueError, RecursionError):
        document = json_object(data)
        blocks = msgspec.convert(document.pop("content", []), list[dict[str, Any]])
        message = msgspec.convert(document, WireMessage, strict=False)
        message.content = [_fields(block) for block in blocks]
    if message.content or message.stop_reason is not None:
        return message
    if _envelope.decode(data).type == "error":
        return ErrorEvent(data)
    raise ValueError("it has neither content nor a stop reason")


def cache_miss_of(message: WireMessage) -> CacheMiss | None:
    """Return the cache miss, or None if the provider gives no usable reason."""
    try:
        found = _diagnostics.decode(message.diagnostics)
    except (ValueError, RecursionError):
        return None
    reason = None if found is None else found.cache_miss_reason
    if reason is None or reason.type in ("", "unavailable", "previous_message_not_found"):
        return None
    return CacheMiss(reason=reason.type, tokens=reason.cache_missed_input_tokens)


def _fields(document: dict[str, Any]) -> Fields:
    return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in document.items()}
