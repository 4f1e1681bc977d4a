"""Messages and their parts, and how they become bytes and back without loss.

Histories (context.py), storage (journal.py) and each provider's own encoding live elsewhere. Entry: `Message`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias, TypeVar, cast

import msgspec
from typing_extensions import override

from treadle.errors import AgentError
from treadle.types import Value, new_id, now

SCHEMA = 1
"""Major version of what is stored; a higher one is refused."""

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]
JsonText: TypeAlias = str
"""JSON kept as the text it came as: 1e400, NaN, duplicate keys and any depth survive, and nothing is parsed twice."""


class TextPart(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str
    provider: str | None = None
    provider_data: JsonText | None = None
    """An object of fields that only `provider` understands (citations); sent back verbatim, to it alone."""


class ReasoningPart(Value, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    text: str
    provider: str | None = None
    provider_data: JsonText | None = None
    """An object with the signature that the provider wants back inside the same run."""


class ToolCall(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    """The model's wish."""

    id: str
    name: str
    arguments_json: JsonText = "{}"
    """Exactly as the model wrote it; it may be malformed."""
    provider: str | None = None
    provider_data: JsonText | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """A fresh dict each time. Raises ValueError where the text is no JSON object or is nested too deeply."""
        try:
            parsed: object = json.loads(self.arguments_json or "{}")
        except RecursionError as e:
            raise ValueError("the arguments are nested too deeply") from e
        if not isinstance(parsed, dict):
            raise ValueError(f"the arguments must be a JSON object, not {type(parsed).__name__}")
        return cast("dict[str, Any]", parsed)


class MediaPart(Value, frozen=True, kw_only=True, tag_field="type", tag="media"):
    """An image or a file: exactly one of `data` (base64) and `url`."""

    media_type: str
    data: str | None = None
    url: str | None = None
    name: str | None = None


class ToolResult(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    """Our answer to one call."""

    call_id: str
    name: str
    content: str | tuple[TextPart | MediaPart, ...] = ""
    is_error: bool = False
    unknown: bool = False
    """The call started, and nobody knows whether it happened."""

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(p.text for p in self.content if isinstance(p, TextPart))


class ProviderPart(Value, frozen=True, kw_only=True, tag_field="type", tag="provider"):
    """A block that only `provider` understands (server tools, redacted thinking, compaction), kept verbatim."""

    provider: str
    data: JsonText


class UnknownPart(Value, frozen=True, kw_only=True, tag_field="type", tag="unknown"):
    """A part written by a newer version: its tag, and its JSON verbatim."""

    type: str = msgspec.field(name="kind")
    raw: JsonText


KnownPart: TypeAlias = TextPart | ReasoningPart | ToolCall | ToolResult | MediaPart | ProviderPart
Part: TypeAlias = KnownPart | UnknownPart


class Message(Value, frozen=True, kw_only=True):
    """One role's contribution. An assistant message with tool calls is followed by one tool message with a result for each."""

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime
    source: JsonText | None = None
    """The stored text, kept only where it holds a word that this version does not know; it is written back as it was."""

    @classmethod
    def of(cls, role: Role, content: str | Sequence[Part]) -> Message:
        """A new message with an id of its own; a text becomes one text part."""
        parts = (TextPart(text=content),) if isinstance(content, str) else tuple(content)
        return cls(id=new_id("msg"), role=role, parts=parts, created_at=now())

    @classmethod
    def user(cls, content: str | Sequence[Part]) -> Message:
        return cls.of("user", content)

    @classmethod
    def assistant(cls, content: str | Sequence[Part]) -> Message:
        return cls.of("assistant", content)

    @classmethod
    def system(cls, content: str | Sequence[Part]) -> Message:
        return cls.of("system", content)

    @classmethod
    def tool(cls, results: Sequence[ToolResult]) -> Message:
        return cls.of("tool", results)

    def with_parts(self, parts: Sequence[Part]) -> Message:
        """The same message, saying something else: words this version does not know are let go."""
        return Message(id=self.id, role=self.role, parts=tuple(parts), created_at=self.created_at)

    @property
    def text(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, TextPart))

    @property
    def reasoning(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, ReasoningPart))

    @property
    def reasoning_metadata(self) -> tuple[JsonText, ...]:
        """What the provider attached to its reasoning (signatures), in order, each a JSON object."""
        return tuple(p.provider_data for p in self.parts if isinstance(p, ReasoningPart) and p.provider_data is not None)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolResult))

    @classmethod
    @override
    def from_json(cls, data: bytes | str) -> Self:
        """Raises AgentError(invalid) where the text is no message, or one of a higher major schema."""
        return cast("Self", decode_message(data.encode() if isinstance(data, str) else data))

    @override
    def to_json(self) -> bytes:
        return encode_message(self)


# ---------------------------------------------------------------- bytes


def encode_json(value: object) -> bytes:
    """Any value as JSON. Lone surrogates, for which UTF-8 has no place, are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


T = TypeVar("T")


def decode_json(data: bytes, kind: type[T]) -> T:
    """The inverse of `encode_json`. Raises msgspec.ValidationError, or another ValueError where it is no JSON."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data), kind)


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message as it is stored, when this version knows every word of it."""

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime
    schema: int = SCHEMA


class _Envelope(msgspec.Struct):
    """The same, of another version: its parts are looked at one by one."""

    id: str
    role: Role
    parts: list[dict[str, Any]]
    created_at: datetime
    schema: int = SCHEMA


_stored = msgspec.json.Decoder(_Stored)
_KNOWN = {"text": TextPart, "reasoning": ReasoningPart, "tool_call": ToolCall, "tool_result": ToolResult, "media": MediaPart, "provider": ProviderPart}


def encode_message(message: Message) -> bytes:
    """The stored form."""
    return encode_json(message) if message.source is None else message.source.encode()


def decode_message(data: bytes) -> Message:
    """The inverse of `encode_message`; what a newer version wrote survives the way back.

    Raises AgentError(invalid) where the bytes are no message, or one of a higher major schema.
    """
    try:
        stored = _stored.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return _decode_strange(data)
    _check_schema(stored.schema)
    return Message(id=stored.id, role=stored.role, parts=stored.parts, created_at=stored.created_at)


def _decode_strange(data: bytes) -> Message:
    """Unknown parts and fields, and text that UTF-8 cannot hold: slower, through Python's own parser."""
    try:
        document: object = json.loads(data)
        envelope = msgspec.convert(document, _Envelope)
        _check_schema(envelope.schema)
        parts = tuple(_strange_part(p) for p in envelope.parts)
    except (ValueError, RecursionError, KeyError) as e:
        raise AgentError("invalid", f"this is no message that can be read: {e}") from e
    known = Message(id=envelope.id, role=envelope.role, parts=parts, created_at=envelope.created_at)
    if json.loads(encode_json(known)) == document:
        return known
    return msgspec.structs.replace(known, source=data.decode())


def _strange_part(part: dict[str, Any]) -> Part:
    kind = part["type"]
    if kind not in _KNOWN:
        return UnknownPart(type=str(kind), raw=json.dumps(part, ensure_ascii=False))
    return msgspec.convert(part, _KNOWN[kind])


def _check_schema(schema: int) -> None:
    if schema > SCHEMA:
        raise AgentError("invalid", f"this message was written by a newer Treadle (schema {schema}; this version reads {SCHEMA}): upgrade to read it")
