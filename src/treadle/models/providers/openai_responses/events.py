"""Events of a Responses stream, and its plain JSON body, as typed values. Fields that are not
interpreted stay raw.

stream.py interprets them. Entry points: `decode_event` (and `decode_rare` for what it rejects),
`decode_body`. Source: https://developers.openai.com/api/reference/responses/streaming-events, and
the types of SDK 3.51 (2026-11).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from treadle.models.providers.decoding import json_object
from treadle.models.providers.encoding import Fields, dumped
from treadle.models.providers.openai_responses.response import WireResponse


class ItemDelta(msgspec.Struct, gc=False):
    """A delta within an item. Servers may omit its position."""

    delta: str
    output_index: int | None = None
    content_index: int | None = None


class TextPiece(ItemDelta, tag_field="type", tag="response.output_text.delta", gc=False):
    pass


class RefusalPiece(ItemDelta, tag_field="type", tag="response.refusal.delta", gc=False):
    pass


class ArgumentsPiece(
    ItemDelta, tag_field="type", tag="response.function_call_arguments.delta", gc=False
):
    pass


class InputPiece(
    ItemDelta, tag_field="type", tag="response.custom_tool_call_input.delta", gc=False
):
    """Input of a custom tool, which is arbitrary text."""


class SummaryPiece(
    ItemDelta, tag_field="type", tag="response.reasoning_summary_text.delta", gc=False
):
    summary_index: int | None = None


class ReasoningPiece(ItemDelta, tag_field="type", tag="response.reasoning_text.delta", gc=False):
    """A fragment of the reasoning itself, if a server shows it."""


class ItemAdded(msgspec.Struct, tag_field="type", tag="response.output_item.added"):
    item: Fields
    output_index: int | None = None


class ItemDone(msgspec.Struct, tag_field="type", tag="response.output_item.done"):
    item: Fields
    output_index: int | None = None


class Created(msgspec.Struct, tag_field="type", tag="response.created"):
    response: WireResponse | None = None


class Completed(msgspec.Struct, tag_field="type", tag="response.completed"):
    response: WireResponse


class Incompleted(msgspec.Struct, tag_field="type", tag="response.incomplete"):
    response: WireResponse


class FailedEvent(msgspec.Struct):
    """An `error` event or a failed response, undecoded, with the response if it contains one."""

    data: bytes
    response: WireResponse | None = None


class PartDone(msgspec.Struct, tag_field="type", tag="response.content_part.done"):
    part: Fields
    output_index: int | None = None
    content_index: int | None = None


class Passed(msgspec.Struct, gc=False):
    """An event without information that others lack."""


class KeepAlive(Passed, tag_field="type", tag="keepalive", gc=False):
    """An event that does not count as progress."""


class InProgress(Passed, tag_field="type", tag="response.in_progress", gc=False):
    pass


class PartAdded(Passed, tag_field="type", tag="response.content_part.added", gc=False):
    pass


class TextDone(Passed, tag_field="type", tag="response.output_text.done", gc=False):
    pass


class ArgumentsDone(
    Passed, tag_field="type", tag="response.function_call_arguments.done", gc=False
):
    pass


class SummaryPartAdded(
    Passed, tag_field="type", tag="response.reasoning_summary_part.added", gc=False
):
    pass


class SummaryDone(Passed, tag_field="type", tag="response.reasoning_summary_text.done", gc=False):
    pass


class SummaryPartDone(
    Passed, tag_field="type", tag="response.reasoning_summary_part.done", gc=False
):
    pass


Known: TypeAlias = (
    TextPiece
    | RefusalPiece
    | ArgumentsPiece
    | InputPiece
    | SummaryPiece
    | ReasoningPiece
    | ItemAdded
    | ItemDone
    | PartDone
    | Created
    | Completed
    | Incompleted
    | KeepAlive
    | InProgress
    | PartAdded
    | TextDone
    | ArgumentsDone
    | SummaryPartAdded
    | SummaryDone
    | SummaryPartDone
)
Event: TypeAlias = (
    ItemDelta
    | Passed
    | ItemAdded
    | ItemDone
    | PartDone
    | Created
    | Completed
    | Incompleted
    | FailedEvent
)


class _Envelope(msgspec.Struct):
    type: str = ""
    response: WireResponse | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")
    message: msgspec.Raw = msgspec.Raw(b"null")
    detail: msgspec.Raw = msgspec.Raw(b"null")


class _Place(msgspec.Struct):
    item_id: str | None = None


_NULL = b"null"
_KNOWN = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.output_item.added",
        "response.output_item.done",
        "response.created",
        "response.completed",
        "response.incomplete",
    }
)
_known = msgspec.json.Decoder(Known, strict=False)
_envelope = msgspec.json.Decoder(_Envelope, strict=False)
_response = msgspec.json.Decoder(WireResponse, strict=False)
_place = msgspec.json.Decoder(_Place)

decode_event = _known.decode
"""Decoder for the events of nearly every stream. Raises ValueError or RecursionError for others.
This is a bare decoder because it runs for every event.
"""


def decode_rare(data: bytes) -> Event:
    """Decode an event that `decode_event` rejects.

    Raises ValueError or RecursionError if the text is not an event.
    """
    try:
        return _other(_envelope.decode(data), data)
    except (ValueError, RecursionError):
        if data.strip() == b"[DONE]":  # end marker of Chat Completions, which some servers pass on
            return Passed()
    # text that msgspec rejects but Python's parser accepts, such as lone surrogates
    document = json_object(data)
    if isinstance(document.get("delta"), str) and document.get("type") in _KNOWN:
        return msgspec.convert(document, Known, strict=False)
    mended = dumped(document)
    return (
        _known.decode(mended)
        if document.get("type") in _KNOWN
        else _other(_envelope.decode(mended), mended)
    )


def _other(envelope: _Envelope, data: bytes) -> Event:
    if envelope.type in ("error", "response.error", "response.failed"):
        return FailedEvent(data, envelope.response)
    # end marker of some gateways
    if envelope.type == "response.done" and envelope.response is not None:
        return Completed(envelope.response)
    if envelope.type in _KNOWN:
        raise ValueError(f"a {envelope.type} event is malformed")
    # an error from a gateway that is not in the form of an event
    if not envelope.type and any(
        bytes(said) != _NULL for said in (envelope.error, envelope.message, envelope.detail)
    ):
        return FailedEvent(data)
    return Passed()


def item_id_of(data: bytes) -> str | None:
    """Return the id of the item that an event refers to."""
    try:
        return _place.decode(data).item_id
    except (ValueError, RecursionError):
        return None


def decode_body(data: bytes) -> WireResponse | FailedEvent:
    """Decode a response that was not streamed.

    Raises ValueError or RecursionError if it is not a response.
    """
    try:
        response = _response.decode(data)
    except (ValueError, RecursionError):
        data = dumped(json_object(data))
        response = _response.decode(data)
    if response.output is not None and response.status != "failed":
        return response
    if bytes(response.error) != _NULL or response.status == "failed":
        return FailedEvent(data, response)
    raise ValueError("it has neither an output nor an error")


_objects = msgspec.json.Decoder(list[Fields])


def objects_of(fields: Fields, name: str) -> list[Fields]:
    """Return the objects in the list under `name`; empty if it is not such a list."""
    try:
        return _objects.decode(fields.get(name, b"[]"))
    except (ValueError, RecursionError):
        return []
