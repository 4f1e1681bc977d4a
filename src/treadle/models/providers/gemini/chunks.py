"""Chunks of a response as typed values. Fields that are not interpreted stay raw.

stream.py interprets them. Entry points: `decode_bare`, `decode_chunk` for what that rejects, and
`decode_rare` for the rest. Source: https://ai.google.dev/api/generate-content, and the types of
google-genai 3.4 (2026-11).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from treadle.messages.message import MediaPart
from treadle.models.providers.decoding import as_object, json_object
from treadle.models.providers.encoding import Fields
from treadle.models.providers.surrogates import mended_json

P = TypeVar("P")

NOTHING = msgspec.Raw()


class PartialArgument(msgspec.Struct, gc=False, rename="camel"):
    """A fragment of one value in a call's arguments."""

    json_path: str = ""
    string_value: str | None = None
    number_value: msgspec.Raw = NOTHING
    bool_value: bool | None = None
    null_value: msgspec.Raw = NOTHING


class FunctionCall(msgspec.Struct, gc=False, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NOTHING
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class ContentPart(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """A part with known fields only. Any other part is kept as raw fields."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class GeminiContent(msgspec.Struct, Generic[P], gc=False):
    parts: list[P] | None = None


class SafetyRating(msgspec.Struct):
    category: str = ""
    blocked: bool | None = None


class Candidate(msgspec.Struct, Generic[P], gc=False, rename="camel"):
    content: GeminiContent[P] | None = None
    index: int | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    safety_ratings: list[SafetyRating] | None = None
    continuation_token: str | None = None
    grounding_metadata: msgspec.Raw = NOTHING
    citation_metadata: msgspec.Raw = NOTHING
    url_context_metadata: msgspec.Raw = NOTHING


class BarePiece(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    text: str
    thought: bool = False


class BareContent(msgspec.Struct, gc=False):
    parts: tuple[BarePiece]


class BareCandidate(msgspec.Struct, gc=False, rename="camel"):
    content: BareContent
    index: Literal[0] = 0
    finish_reason: None = None
    continuation_token: None = None
    grounding_metadata: None = None
    citation_metadata: None = None
    url_context_metadata: None = None


class BareChunk(msgspec.Struct, gc=False, rename="camel"):
    """The most frequent chunk: a single fragment of unsigned text, and nothing else of interest."""

    candidates: tuple[BareCandidate]
    usage_metadata: msgspec.Raw = NOTHING
    prompt_feedback: None = None
    error: None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None
    block_reason_message: str | None = None
    safety_ratings: list[SafetyRating] | None = None


class GeminiChunk(msgspec.Struct, Generic[P], gc=False, rename="camel"):
    candidates: list[Candidate[P]] | None = None
    usage_metadata: msgspec.Raw = NOTHING
    prompt_feedback: PromptFeedback | None = None
    model_version: str | None = None
    response_id: str | None = None
    error: msgspec.Raw = NOTHING


class Grounding(msgspec.Struct, rename="camel"):
    web_search_queries: list[str] = []


class Counts(msgspec.Struct, rename="camel"):
    """Totals so far."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


_rare = msgspec.json.Decoder(GeminiChunk[Fields], strict=False)
_array = msgspec.json.Decoder(list[msgspec.Raw])
_string = msgspec.json.Decoder(str)
_counts = msgspec.json.Decoder(Counts, strict=False)
_grounding = msgspec.json.Decoder(Grounding)
_partial = msgspec.json.Decoder(list[PartialArgument], strict=False)
_calls = msgspec.json.Decoder(FunctionCall, strict=False)

decode_bare = msgspec.json.Decoder(BareChunk).decode
"""Decoder for nearly all chunks of a long response. Raises ValueError or RecursionError for others.
This is a bare decoder because it runs for every chunk.
"""

decode_chunk = msgspec.json.Decoder(GeminiChunk[ContentPart], strict=False).decode
"""Decoder for any chunk whose parts have only known fields. Raises ValueError or RecursionError for
others.
"""


def decode_rare(data: bytes) -> GeminiChunk[Fields]:
    """Decode a chunk that `decode_chunk` rejects.

    Raises ValueError or RecursionError if the text is not a chunk.
    """
    try:
        return _rare.decode(data)
    except (ValueError, RecursionError):
        if data.strip() == b"[DONE]":  # end marker of other wires, which gateways pass on
            return GeminiChunk()
        return _parsed(data)


def _parsed(data: bytes) -> GeminiChunk[Fields]:
    """Parse text that msgspec rejects but Python's parser accepts, such as lone surrogates."""
    document = json_object(data)
    said = [as_object(candidate) for candidate in _list(document.pop("candidates", None))]
    contents = [as_object(candidate.pop("content", None) or {}) for candidate in said]
    usage, error = document.pop("usageMetadata", None), document.pop("error", None)
    chunk = msgspec.convert(document, GeminiChunk[Fields], strict=False)
    if usage is not None:
        chunk.usage_metadata = _raw(usage)
    if error is not None:
        chunk.error = _raw(error)
    chunk.candidates = [
        _candidate(candidate, content) for candidate, content in zip(said, contents, strict=True)
    ]
    return chunk


def _candidate(said: dict[str, Any], content: dict[str, Any]) -> Candidate[Fields]:
    kept = {
        name: said.pop(name)
        for name in ("groundingMetadata", "citationMetadata", "urlContextMetadata")
        if said.get(name) is not None
    }
    candidate = msgspec.convert(said, Candidate[Fields], strict=False)
    candidate.grounding_metadata = (
        _raw(kept["groundingMetadata"]) if "groundingMetadata" in kept else NOTHING
    )
    candidate.citation_metadata = (
        _raw(kept["citationMetadata"]) if "citationMetadata" in kept else NOTHING
    )
    candidate.url_context_metadata = (
        _raw(kept["urlContextMetadata"]) if "urlContextMetadata" in kept else NOTHING
    )
    candidate.content = GeminiContent(
        [
            {name: _raw(value) for name, value in as_object(part).items()}
            for part in _list(content.get("parts"))
        ]
    )
    return candidate


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def _list(document: object) -> list[Any]:
    return cast("list[Any]", document) if isinstance(document, list) else []


def chunks_of(body: bytes) -> Iterator[bytes]:
    """Yield the chunks of a response in one JSON document: a chunk, or a list of chunks if a stream
    was requested without server-sent events.

    Raises ValueError or RecursionError if it is neither.
    """
    if not body.lstrip().startswith(b"["):
        yield body
        return
    try:
        yield from (bytes(chunk) for chunk in _array.decode(body))
    except (ValueError, RecursionError):
        yield from (
            json.dumps(chunk).encode() for chunk in json.loads(body.decode("utf-8", "replace"))
        )


# ---------------------------------------------------------------- pieces of chunks


def is_said(raw: msgspec.Raw) -> bool:
    return bytes(raw) not in (b"", b"null")


def counts_of(usage: msgspec.Raw) -> Counts:
    """Return the usage; empty counts if it is invalid, so that the response is not lost."""
    try:
        return _counts.decode(usage)
    except (ValueError, RecursionError):
        return Counts()


def searches_of(grounding: msgspec.Raw, *, by_query: bool) -> int:
    """Return the number of billed web searches: each query, or one per response with any."""
    try:
        queries = len(_grounding.decode(grounding).web_search_queries)
    except (ValueError, RecursionError):
        return 0
    return queries if by_query else min(queries, 1)


def call_of(fields: Fields) -> FunctionCall:
    """Return the call of a part. Raises ValueError or RecursionError if it holds no valid one."""
    raw = bytes(fields["functionCall"])
    try:
        return _calls.decode(raw)
    except (ValueError, RecursionError):
        document = json_object(raw)
        args, partial = document.pop("args", None), document.pop("partialArgs", None)
        call = msgspec.convert(document, FunctionCall, strict=False)
        call.args = NOTHING if args is None else _raw(args)
        call.partial_args = (
            None if partial is None else _partial.decode(mended_json(json.dumps(partial)))
        )
        return call


class _Inline(msgspec.Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""


_inline = msgspec.json.Decoder(_Inline)


def media_of(fields: Mapping[str, object]) -> MediaPart | None:
    """Return an image or a sound of an answer; None for other parts, and for thoughts."""
    raw = fields.get("inlineData")
    if not isinstance(raw, msgspec.Raw) or "thought" in fields:
        return None
    try:
        found = _inline.decode(raw)
    except (ValueError, RecursionError):
        return None
    is_whole = found.mime_type and found.data
    return MediaPart(media_type=found.mime_type, data=found.data) if is_whole else None


def text_of(fields: Fields, name: str) -> str | None:
    """Return the string under `name`, or None."""
    if (raw := fields.get(name)) is None:
        return None
    try:
        return _string.decode(raw)
    except ValueError:
        value: object = json.loads(bytes(raw).decode("utf-8", "replace"))
        return value if isinstance(value, str) else None
