"""Encoding of messages as contents of Gemini's API. Each message is encoded once.

request.py encodes the rest of the request. Entry points: `MessageEncoder`. Source:
https://ai.google.dev/gemini-api/docs/function-calling and /thought-signatures (2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from treadle.config.model_profile import UNKNOWN, Abilities
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
)
from treadle.models.providers.encoding import (
    UNSENT,
    Fields,
    Json,
    arguments_of,
    described,
    dumped,
    identifier,
    own_fields,
    raw,
    shown,
    text_in,
)
from treadle.models.providers.gemini.naming import GENERATION_OF_LEVELS, is_older
from treadle.models.providers.gemini.stream import MODEL, PREFIX, PROVIDER, SIGNATURE

ANY_SIGNATURE = "skip_thought_signature_validator"
"""Placeholder that the vendor accepts as the signature of a call that another model made.

Source: /docs/thought-signatures, its questions.
"""
GO_ON = dumped({"role": "user", "parts": [{"text": "Go on."}]})
"""Content inserted where the model would speak first, or twice in a row: the API rejects calls that
do not follow a user content.
"""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})
_IN_RESULTS = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
_BESIDE = frozenset({"groundingMetadata", "citationMetadata", "urlContextMetadata"})
"""Fields that accompany a response and do not exist in requests."""

Content: TypeAlias = Json | msgspec.Raw


class MessageEncoder:
    """Encoder of one history's messages, in order, for one model. Signatures of other models are
    not sent.
    """

    __slots__ = ("_abilities", "_called", "_model_id", "_newer", "speaker")

    def __init__(self, model_id: str, abilities: Abilities = UNKNOWN) -> None:
        self._model_id = model_id
        self._abilities = abilities
        self._newer = not is_older(model_id, GENERATION_OF_LEVELS)
        self._called: dict[str, str] = {}
        """Names of the last calls by id: a result must have the same name."""
        self.speaker = ""
        """Role of the last content: "user" or "model", or "" before any."""

    def encode(self, message: Message, settled: bool) -> bytes:
        """Return the contents, joined by commas; b"" if nothing of the message is sent."""
        message = shown(message, self._abilities)
        if message.role != "assistant":
            contents = [
                dumped({"role": "user", "parts": parts})
                for parts in self._said_to_model(message)
                if parts
            ]
            self.speaker = "user" if contents else self.speaker
            return b",".join(contents)
        without_thoughts = settled and not self._abilities.earlier_thinking
        parts = [piece for part in self._model_parts(message, without_thoughts) for piece in part]
        if not parts:
            return b""
        before = [] if self.speaker == "user" else [GO_ON]
        self.speaker = "model"
        return b",".join([*before, dumped({"role": "model", "parts": parts})])

    # ------------------------------------------------------------ the model

    def _model_parts(self, message: Message, settled: bool) -> Iterator[Iterator[Content]]:
        unsigned = self._newer and not settled
        self._called = {}
        for part in message.parts:
            match part:
                case TextPart():
                    yield self._text(part, settled)
                case ReasoningPart() if not settled:
                    yield self._thought(part)
                case ToolCall():
                    yield iter([self._call(part, settled, unsigned=unsigned)])
                    unsigned = False  # only the first of a step is checked
                case ProviderPart(provider="gemini"):
                    yield self._own(part, settled)
                case MediaPart(provider="gemini"):
                    yield iter([{**_inline(part), **self._kept(part, settled)}])
                case MediaPart():
                    yield iter([{"text": described(part)}])
                case _:
                    pass

    def _kept(self, part: TextPart | ReasoningPart | ToolCall | MediaPart, settled: bool) -> Fields:
        return self._sendable(own_fields(part, PROVIDER), settled)

    def _sendable(self, fields: Fields, settled: bool) -> Fields:
        """Remove our own fields, and a signature that belongs to another model or to an ended
        run.
        """
        signer = fields.pop(MODEL, None)
        if settled or (signer is not None and msgspec.json.decode(signer) != self._model_id):
            fields.pop(SIGNATURE, None)
        return fields

    def _text(self, part: TextPart, settled: bool) -> Iterator[Content]:
        return _pieces(part.text, self._kept(part, settled))

    def _thought(self, part: ReasoningPart) -> Iterator[Content]:
        """Return a thought if it has a signature. Others are not sent back."""
        kept = self._kept(part, settled=False)
        return (
            _pieces(part.text, {**kept, "thought": msgspec.Raw(b"true")})
            if SIGNATURE in kept
            else iter(())
        )

    def _call(self, part: ToolCall, settled: bool, *, unsigned: bool) -> Content:
        name = _name(part.name)
        self._called[part.id] = name
        signature = {SIGNATURE: ANY_SIGNATURE} if unsigned else {}
        call = {
            "id": identifier(part.id),
            "name": name,
            "args": raw(arguments_of(part.arguments_json)),
        }
        return {"functionCall": call, **signature, **self._kept(part, settled)}

    def _own(self, part: ProviderPart, settled: bool) -> Iterator[Content]:
        try:
            fields = msgspec.json.decode(part.data, type=Fields)
        except (ValueError, RecursionError):
            return
        if fields.keys() & _BESIDE or (settled and bytes(fields.get("thought", b"")) == b"true"):
            return
        fields = self._sendable(fields, settled)
        if fields.keys() - {"text", "thought"} or bytes(fields.get("text", b'""')) != b'""':
            yield dict(fields)

    # ------------------------------------------------------------ to the model

    def _said_to_model(self, message: Message) -> Iterator[list[Content]]:
        """Yield the results separately, one for each call as the API requires, then media that
        results cannot contain.
        """
        results, others = list[Content](), list[Content]()
        for part in message.parts:
            if isinstance(part, ToolResult):
                results.append(self._result(part, others))
            else:
                others += _told(part)
        yield results
        yield others

    def _result(self, part: ToolResult, others: list[Content]) -> Content:
        response: Json = {
            "id": identifier(part.call_id),
            "name": self._called.get(part.call_id) or _name(part.name),
        }
        text, held = part.text, list[Content]()
        if not isinstance(part.content, str):
            media = [inner for inner in part.content if isinstance(inner, MediaPart)]
            inside = [
                m
                for m in media
                if self._newer and m.data is not None and m.media_type in _IN_RESULTS
            ]
            held = [_inline(m) for m in inside]
            below = [piece for m in media if m not in inside for piece in _told(m)]
            text = "\n".join(filter(None, [text, "Its result is shown below." if below else ""]))
            others += below
        response["response"] = (
            {"error": text or "It failed without saying why."}
            if part.is_error
            else {"output": text}
        )
        return {"functionResponse": {**response, "parts": held} if held else response}


def _name(name: str) -> str:
    """Return a valid function name. Declared names are valid, but others may come from anywhere."""
    return name if _NAME.fullmatch(name) else f"_{identifier(name, longest=63)}"


def _pieces(text: str, fields: Fields) -> Iterator[Content]:
    """Split a text into the parts in which it arrived, signed apart from unsigned."""
    before = msgspec.json.decode(fields.pop(PREFIX, b"0"), type=int)
    thought = {name: value for name, value in fields.items() if name == "thought"}
    if SIGNATURE not in fields:
        before, fields = 0, {}
    if text[:before]:
        yield {"text": text[:before], **thought}
    if text[before:] or fields:
        yield {"text": text[before:], **fields}


def _told(part: Part) -> list[Content]:
    match part:
        case TextPart() if part.text:
            return [{"text": part.text}]
        case MediaPart():
            return [_media(part)]
        case _:
            return []


def unsent(part: MediaPart) -> str:
    """Return advice about a part that the API does not accept; "" for others."""
    return "" if _is_inline(part.media_type) or text_in(part) is not None else UNSENT


def _is_inline(kind: str) -> bool:
    return kind in _IMAGES or kind == "application/pdf" or kind.startswith(("audio/", "video/"))


def _media(part: MediaPart) -> Content:
    kind = part.media_type
    if _is_inline(kind):
        return (
            _inline(part)
            if part.url is None
            else {"fileData": {"mimeType": kind, "fileUri": part.url}}
        )
    text = text_in(part)
    return {
        "text": described(part) if text is None else f"{part.name or 'A file'} ({kind}):\n{text}"
    }


def _inline(part: MediaPart) -> Json:
    return {"inlineData": {"mimeType": part.media_type, "data": part.data or ""}}
