"""Chunks of a Chat Completions stream, and its plain JSON body, as typed values with the fields of
interest.

stream.py interprets them. Entry points: `decode_chunk` (and `decode_rare` for what it rejects).
Source: https://platform.openai.com/docs/api-reference/chat-streaming (2026-11), and extensions of
compatible servers.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Literal, cast, get_args, get_origin

import msgspec

from treadle._internal.units import usd
from treadle.models.providers.decoding import json_object, tokens
from treadle.models.providers.encoding import Fields
from treadle.types import Usage

ABSENT = msgspec.Raw()


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | Fields | None = None
    """JSON text; some servers send an object instead."""


class CallPiece(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    custom: msgspec.Raw = ABSENT
    """A call of a custom tool, which requests never offer."""
    extra_content: Fields | None = None
    """Extensions such as Google's thought signatures."""


class ContentPart(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | list[ContentPart] | None = None


def text_of(parts: str | list[ContentPart]) -> str:
    return parts if isinstance(parts, str) else "".join(part.text or "" for part in parts)


class ImageUrl(msgspec.Struct, gc=False):
    url: str = ""


class ImagePiece(msgspec.Struct, gc=False):
    image_url: ImageUrl | None = None


class ChatMessage(msgspec.Struct, gc=False):
    """The `delta` of a chunk, or the `message` of a body."""

    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Fields] | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: Function | None = None
    """Legacy form of a single call."""
    refusal: str | None = None
    audio: msgspec.Raw = ABSENT
    images: list[ImagePiece] | None = None
    """Images that the model made. OpenRouter and gateways only."""


class Choice(msgspec.Struct, gc=False):
    delta: ChatMessage | None = None
    message: ChatMessage | None = None
    text: str | None = None
    """Text of a completion that is not a chat."""
    index: int | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    """vLLM: the stop text, if one ended the response."""
    error: Fields | str | None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_tokens: int | None = None
    """LiteLLM's name for the same."""


class CostDetails(msgspec.Struct, gc=False):
    upstream_inference_cost: float | None = None
    """Cost billed by the vendor to the caller's own key."""


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
    """DeepSeek only."""
    cached_tokens: int | None = None
    """Moonshot only."""
    cost: float | None = None
    """OpenRouter only, as are the next two."""
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
    """Error message of a gateway, with or without an error field; so is `detail`."""
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
    """The most frequent chunk: nothing but a fragment of text."""

    choices: tuple[TextChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


decode_text = msgspec.json.Decoder(TextChunk).decode
"""Decode the most frequent chunk. Raises ValueError or RecursionError for any other."""


def is_text(chunk: Chunk) -> bool:
    """Return True if `decode_text` would have accepted the chunk."""
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
"""Decoder for the chunks of nearly every stream. Raises ValueError or RecursionError for others.
This is a bare decoder because it runs for every chunk.
"""


def decode_rare(data: bytes) -> Chunk:
    """Decode the valid fields of a chunk that `decode_chunk` rejects.

    Raises ValueError or RecursionError if it is not a JSON object.
    """
    return cast("Chunk", _fitted(Chunk, json_object(data)))


def _fitted(kind: type[msgspec.Struct], given: dict[str, Any]) -> msgspec.Struct:
    """Build a struct from the fields that fit: an invalid one is no reason to lose the rest."""
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
    """Return the item types of the list type among `kinds`."""
    return next((get_args(kind) for kind in kinds if get_origin(kind) is list), ())


def _struct_of(kinds: tuple[Any, ...]) -> type[msgspec.Struct] | None:
    return next(
        (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)),
        None,
    )


# ---------------------------------------------------------------- what they add up to


def cost_usd(counts: Counts) -> float | None:
    """Return OpenRouter's charge, plus the vendor's if the vendor's key is the caller's own."""
    own = (
        counts.cost_details.upstream_inference_cost
        if counts.is_byok and counts.cost_details is not None
        else None
    )
    return usd(counts.cost, own) if counts.cost is not None and counts.cost >= 0 else None


def usage_of(counts: Counts) -> Usage:
    """Convert usage. The prompt count is all input, and the rest of the total is output, even if a
    server's output count excludes reasoning.

    A router may report the same tokens as both written and read.
    """
    prompt, completion = tokens(counts.prompt_tokens), tokens(counts.completion_tokens)
    of_prompt, of_completion = (
        counts.prompt_tokens_details or PromptDetails(),
        counts.completion_tokens_details or CompletionDetails(),
    )
    read = tokens(of_prompt.cached_tokens or counts.prompt_cache_hit_tokens or counts.cached_tokens)
    written = min(
        tokens(of_prompt.cache_write_tokens or of_prompt.cache_creation_tokens),
        max(0, prompt - read),
    )
    return Usage(
        input_tokens=max(0, prompt - read - written),
        output_tokens=max(completion, tokens(counts.total_tokens) - prompt),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=tokens(of_completion.reasoning_tokens),
    )
