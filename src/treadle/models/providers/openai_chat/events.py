"""The chunks of a Chat Completions stream, and its plain JSON body, as typed values: only what we
look into.

What they mean is stream.py's. Entry: `decode_chunk` (and `decode_rare` for what it refuses).
Source: https://platform.openai.com/docs/api-reference/chat-streaming (2026-11), and what compatible
servers add.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from treadle.models.providers.decoding import json_object
from treadle.models.providers.encoding import Fields

ABSENT = msgspec.Raw()


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | Fields | None = None
    """An object: not as text, as it should be."""


class CallPiece(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    custom: msgspec.Raw = ABSENT
    """A call of a custom tool, which is never offered here."""
    extra_content: Fields | None = None
    """Google's thought signatures, among others."""


class ContentPart(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | list[ContentPart] | None = None


def text_of(parts: str | list[ContentPart]) -> str:
    return parts if isinstance(parts, str) else "".join(part.text or "" for part in parts)


class ChatMessage(msgspec.Struct, gc=False):
    """A `delta` of a chunk, or the `message` of a body."""

    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Fields] | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: Function | None = None
    """How calls were told before there could be several."""
    refusal: str | None = None
    audio: msgspec.Raw = ABSENT
    images: msgspec.Raw = ABSENT
    """OpenRouter's."""


class Choice(msgspec.Struct, gc=False):
    delta: ChatMessage | None = None
    message: ChatMessage | None = None
    text: str | None = None
    """Of a completion that is no chat."""
    index: int | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    """vLLM: the stop text that was met, where it was one."""
    error: Fields | str | None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_tokens: int | None = None
    """LiteLLM's word for the same."""


class CostDetails(msgspec.Struct, gc=False):
    upstream_inference_cost: float | None = None
    """What the vendor bills to a key of one's own."""


class CompletionDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Counts(msgspec.Struct, gc=False):
    """Totals so far."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    """DeepSeek's."""
    cached_tokens: int | None = None
    """Moonshot's."""
    cost: float | None = None
    """OpenRouter's, as are the next two."""
    is_byok: bool | None = None
    cost_details: CostDetails | None = None


class GroqNotes(msgspec.Struct, gc=False):
    usage: Counts | None = None
    error: str | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: Counts | None = None
    id: str | None = None
    model: str | None = None
    error: Fields | str | None = None
    object: str | None = None
    message: str | None = None
    """What a gateway says instead of an answer, with or without the word error; so does the next.
    """
    detail: str | None = None
    x_groq: GroqNotes | None = None
    service_tier: str | None = None


# ---------------------------------------------------------------- what comes by the thousand


class TextSaid(msgspec.Struct, gc=False):
    content: str
    reasoning_content: None = None
    reasoning: None = None
    reasoning_details: None = None
    tool_calls: None = None
    function_call: None = None
    refusal: None = None
    audio: None = None
    images: None = None


class TextChoice(msgspec.Struct, gc=False):
    delta: TextSaid
    text: None = None
    index: Literal[0] | None = None
    finish_reason: None = None
    error: None = None


class TextChunk(msgspec.Struct, gc=False):
    """Of all that a Chunk can hold, nothing but a piece of text."""

    choices: tuple[TextChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


decode_text = msgspec.json.Decoder(TextChunk).decode
"""A ValueError or RecursionError for any other chunk."""


def is_text(chunk: Chunk) -> bool:
    """Whether `decode_text` would have read it."""
    if (
        not chunk.choices
        or chunk.usage is not None
        or chunk.error is not None
        or chunk.x_groq is not None
    ):
        return False
    choice = chunk.choices[0]
    if (
        (said := choice.delta) is None
        or choice.finish_reason is not None
        or choice.index
        or choice.error is not None
        or choice.text is not None
    ):
        return False
    if (
        said.reasoning is not None
        or said.reasoning_content is not None
        or said.reasoning_details is not None
    ):
        return False
    return (
        type(said.content) is str
        and said.tool_calls is None
        and said.function_call is None
        and said.refusal is None
    )


# ---------------------------------------------------------------- any chunk


_INTEGER = re.compile(r"\d{1,18}")

decode_chunk = msgspec.json.Decoder(Chunk).decode
"""The chunks of nearly every stream, or a ValueError or RecursionError: a bare decoder, since it is
called for each of them.
"""


def decode_rare(data: bytes) -> Chunk:
    """What `decode_chunk` refused: whatever of it is as it should be.

    Raises ValueError or RecursionError where it is no JSON object.
    """
    return cast("Chunk", _fitted(Chunk, json_object(data)))


def _fitted(kind: type[msgspec.Struct], given: dict[str, Any]) -> msgspec.Struct:
    """Of the fields that `kind` has, those that fit: an odd one is no reason to lose the rest."""
    found = {
        field.name: _fitting(given[field.name], get_args(field.type) or (field.type,))
        for field in msgspec.structs.fields(kind)
        if field.name in given
    }
    return kind(**{name: value for name, value in found.items() if value is not None})


def _fitting(value: Any, kinds: tuple[Any, ...]) -> Any:
    if msgspec.Raw in kinds:
        return msgspec.Raw(json.dumps(value).encode())
    if isinstance(value, str) and ContentPart not in kinds:
        return (
            value
            if str in kinds
            else int(value)
            if int in kinds and _INTEGER.fullmatch(value)
            else None
        )
    if isinstance(value, str):
        return ContentPart(text=value)
    if isinstance(value, int | float) and math.isfinite(value):
        return (
            int(value)
            if int in kinds
            else float(value)
            if float in kinds
            else str(value)
            if str in kinds
            else None
        )
    if isinstance(value, list):
        if items := _items_of(kinds):
            return [
                fitting
                for item in cast("list[Any]", value)
                if (fitting := _fitting(item, items)) is not None
            ]
        return json.dumps(value) if value and Fields in kinds and str in kinds else None
    if isinstance(value, dict):
        document = cast("dict[str, Any]", value)
        if Fields in kinds:
            return {
                name: msgspec.Raw(json.dumps(inner).encode()) for name, inner in document.items()
            }
        if (kind := _struct_of(kinds)) is not None:
            return _fitted(kind, document)
        alone = _struct_of(_items_of(kinds))
        return (
            [_fitted(alone, document)]
            if alone is not None and not document.keys().isdisjoint(alone.__struct_fields__)
            else None
        )
    return None


def _items_of(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of the list among them."""
    return next((get_args(kind) for kind in kinds if get_origin(kind) is list), ())


def _struct_of(kinds: tuple[Any, ...]) -> type[msgspec.Struct] | None:
    return next(
        (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)),
        None,
    )
