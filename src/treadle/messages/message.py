"""Messages and their parts, with a lossless binary encoding.

model.py holds histories, journal.py stores messages, and each provider has its own encoding. Entry
points: `Message`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeAlias, cast

import msgspec
from typing_extensions import override

from treadle._internal.json_text import (
    JsonText,
    decode_json,
    encode_json,
    items,
    members,
    object_of,
    parse_json,
)
from treadle.errors import AgentError
from treadle.types import Time, Value, new_id, now

SCHEMA = 1
"""Major version of the stored form. Higher versions are rejected."""

PDF = "application/pdf"
SUMMARY = "summary"
"""Id prefix of a message that replaces those it summarizes."""

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]


class TextPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="text"
):
    """Text of a message."""

    text: str
    provider: str | None = None
    provider_data: JsonText | None = None
    """JSON object of fields specific to `provider` (citations). It is sent back verbatim, and only
    to that provider.
    """


class ReasoningPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="reasoning"
):
    """Reasoning of a model, as far as its provider shows it, with the data that the provider needs
    back.
    """

    text: str
    provider: str | None = None
    provider_data: JsonText | None = None
    """JSON object with the signature that the provider needs back within the same run."""


class ToolCall(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="tool_call"
):
    """A tool call requested by the model."""

    id: str
    name: str
    arguments_json: JsonText = "{}"
    """Arguments exactly as the model wrote them; possibly malformed."""
    provider: str | None = None
    provider_data: JsonText | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments as a new dict each time.

        Raises ValueError if the text is not a JSON object, or is deeper than 200 levels.
        """
        parsed = parse_json(self.arguments_json or "{}")
        if not isinstance(parsed, dict):
            raise ValueError(f"the arguments must be a JSON object, not {type(parsed).__name__}")
        return cast("dict[str, Any]", parsed)


class MediaPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="media"
):
    """An image or a file: exactly one of `data` (base64) and `url`."""

    media_type: str
    data: str | None = None
    url: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise AgentError(
                "invalid",
                (
                    f"a MediaPart has exactly one of data and url, this one ({self.media_type!r}) "
                    f"has {'both' if self.data else 'neither'}"
                ),
            )

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")


class ToolResult(
    Value,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_result",
):
    """Result of one tool call."""

    call_id: str
    name: str
    content: str | tuple[TextPart | MediaPart, ...] = ""
    is_error: bool = False
    unknown: bool = False
    """True if the call started but its effect is unknown."""
    exit_code: int | None = None
    """Exit code of the command that the call ran; None for calls without a command, or whose
    command is still running.
    """

    @property
    def failed(self) -> bool:
        """True for an error, and for a command with a nonzero exit code."""
        return self.is_error or bool(self.exit_code)

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(p.text for p in self.content if isinstance(p, TextPart))


class ProviderPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="provider"
):
    """A block of `provider` (server tools, redacted thinking, compaction), kept verbatim."""

    provider: str
    data: JsonText
    shown: str = ""
    """One-line description of a hosted tool call, for display; empty for other blocks."""


class UnknownPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="unknown"
):
    """A part written by a newer version: its tag, and its JSON verbatim."""

    type: str = msgspec.field(name="kind")
    raw: JsonText


KnownPart: TypeAlias = TextPart | ReasoningPart | ToolCall | ToolResult | MediaPart | ProviderPart
Part: TypeAlias = KnownPart | UnknownPart


class Message(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of a conversation.

    An assistant message with tool calls is followed by one tool message with a result for each
    call.
    """

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: Time
    response_id: str = ""
    """Provider's id of the response; empty for messages that are not responses."""
    source: JsonText | None = None
    """Stored text, kept only if it has unknown fields, and written back verbatim."""

    @classmethod
    def of(cls, role: Role, content: str | Sequence[Part]) -> Message:
        """Create a message with a new id. A string becomes one text part."""
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
        """Return a copy with other parts, without any fields that this version does not know."""
        return Message(
            id=self.id,
            role=self.role,
            parts=tuple(parts),
            created_at=self.created_at,
            response_id=self.response_id,
        )

    @property
    def is_summary(self) -> bool:
        """True if the message replaces others that were removed from the visible conversation."""
        return self.id.startswith(f"{SUMMARY}_")

    @property
    def text(self) -> str:
        return "".join([p.text for p in self.parts if isinstance(p, TextPart)])

    @property
    def reasoning(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, ReasoningPart))

    @property
    def reasoning_metadata(self) -> tuple[JsonText, ...]:
        """Provider data of the reasoning parts (signatures), in order, each a JSON object."""
        return tuple(
            p.provider_data
            for p in self.parts
            if isinstance(p, ReasoningPart) and p.provider_data is not None
        )

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])

    @property
    def hosted_calls(self) -> tuple[str, ...]:
        """One-line descriptions of hosted tool calls, run by the provider."""
        return tuple(p.shown for p in self.parts if isinstance(p, ProviderPart) and p.shown)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolResult))

    @classmethod
    @override
    def from_json(cls, data: bytes | str) -> Self:
        """Decode a message. Raises AgentError(invalid) for invalid text, or for a higher major
        schema.
        """
        return cast(
            "Self",
            decode_message(
                data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
            ),
        )

    @override
    def to_json(self) -> bytes:
        return encode_message(self)


# ---------------------------------------------------------------- bytes


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stored form of a message in which every field is known."""

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: Time
    response_id: str = ""
    schema: int = SCHEMA
    source: JsonText | None = None
    """Set only for a message inside another value."""


_HEAD = {"id", "role", "created_at", "response_id"}
_KNOWN: dict[str, type[KnownPart]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "media": MediaPart,
    "provider": ProviderPart,
}


def encode_message(message: Message) -> bytes:
    """Return the stored form."""
    return encode_json(message) if message.source is None else message.source.encode()


def decode_message(data: bytes) -> Message:
    """Decode the stored form. Fields of a newer version survive a round trip.

    Raises AgentError(invalid) if the bytes are not a message, or have a higher major schema.
    """
    try:
        stored = decode_json(data, _Stored)
    except ValueError:
        return _decode_strange(data)
    _check_schema(stored.schema)
    # only the source counts, or a message could change its content when it is stored
    if stored.source is not None:
        return decode_message(stored.source.encode())
    return Message(
        id=stored.id,
        role=stored.role,
        parts=stored.parts,
        created_at=stored.created_at,
        response_id=stored.response_id,
    )


def _decode_strange(data: bytes) -> Message:
    """Decode a message from a newer version piece by piece, so that unknown pieces stay
    untouched.
    """
    try:
        text = data.decode()
        fields = members(text)
        _check_schema(decode_json(fields.get("schema", "1").encode(), int))
        parts = [decode_part(piece) for piece in items(fields["parts"])]
        head = decode_json(
            object_of(
                {name: fields[name] for name in fields.keys() & _HEAD} | {"parts": "[]"}
            ).encode(),
            _Stored,
        )
    except KeyError as e:
        raise AgentError("invalid", f"this is not a readable message: it has no {e}") from e
    except ValueError as e:
        raise AgentError("invalid", f"this is not a readable message: {_short(e)}") from e
    return Message(
        id=head.id,
        role=head.role,
        parts=tuple(parts),
        created_at=head.created_at,
        response_id=head.response_id,
        source=text,
    )


def decode_part(piece: JsonText) -> Part:
    """Decode a part, dropping unknown fields. Raises ValueError if it is not a part."""
    try:
        return decode_json(piece.encode(), cast("type[Part]", Part))
    except ValueError:
        fields = members(piece)
        kind = parse_json(fields.get("type", "null"))
        if not isinstance(kind, str):
            raise
        if kind not in _KNOWN:
            return UnknownPart(type=kind, raw=piece)
    if kind == "tool_result" and fields.get("content", "").startswith("["):
        shown = [
            encode_json(_shown(decode_part(inner))).decode() for inner in items(fields["content"])
        ]
        fields["content"] = f"[{','.join(shown)}]"
    known = {"type", *_KNOWN[kind].__struct_encode_fields__}
    return decode_json(
        object_of({name: value for name, value in fields.items() if name in known}).encode(),
        _KNOWN[kind],
    )


def _shown(part: Part) -> Part:
    """Return a part that may be nested in a tool result: unknown parts become a line of text."""
    kind = part.type if isinstance(part, UnknownPart) else None
    return (
        part
        if kind is None
        else TextPart(text=f"[a part of type {kind!r}, which this version cannot show]")
    )


def _check_schema(schema: int) -> None:
    if schema > SCHEMA:
        raise AgentError(
            "invalid",
            (
                f"this message was written by a newer Treadle (schema {schema}; this version reads "
                f"{SCHEMA}): upgrade to read it"
            ),
        )


def _short(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 300 else text[:300] + "…"
