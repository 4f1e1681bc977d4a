"""Messages and their parts, and how they become bytes and back without loss.

Histories (model.py), storage (journal.py) and each provider's own encoding live elsewhere. Entry:
`Message`.
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
"""Major version of what is stored; a higher one is refused."""

SUMMARY = "summary"
"""With what the id of a message begins that stands for those which it sums up."""

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]


class TextPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="text"
):
    """What was said, or is to be read."""

    text: str
    provider: str | None = None
    provider_data: JsonText | None = None
    """An object of fields that only `provider` understands (citations); sent back verbatim, to it
    alone.
    """


class ReasoningPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="reasoning"
):
    """What a model thought, as far as its provider shows it, with what the provider wants back."""

    text: str
    provider: str | None = None
    provider_data: JsonText | None = None
    """An object with the signature that the provider wants back inside the same run."""


class ToolCall(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="tool_call"
):
    """The model's wish."""

    id: str
    name: str
    arguments_json: JsonText = "{}"
    """Exactly as the model wrote it; it may be malformed."""
    provider: str | None = None
    provider_data: JsonText | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """A fresh dict each time.

        Raises ValueError where the text is no JSON object, or deeper than 200 levels.
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
    """Our answer to one call."""

    call_id: str
    name: str
    content: str | tuple[TextPart | MediaPart, ...] = ""
    is_error: bool = False
    unknown: bool = False
    """The call started, and nobody knows whether it happened."""
    exit_code: int | None = None
    """Exit code of the command that the call ran; None for calls that run no command, or whose
    command has not ended.
    """

    @property
    def failed(self) -> bool:
        """True for an error, and for a command with an exit code other than 0."""
        return self.is_error or bool(self.exit_code)

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(p.text for p in self.content if isinstance(p, TextPart))


class ProviderPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="provider"
):
    """A block that only `provider` understands (server tools, redacted thinking, compaction), kept
    verbatim.
    """

    provider: str
    data: JsonText
    shown: str = ""
    """One line for people, where it is the call of a tool that the provider ran."""


class UnknownPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="unknown"
):
    """A part written by a newer version: its tag, and its JSON verbatim."""

    type: str = msgspec.field(name="kind")
    raw: JsonText


KnownPart: TypeAlias = TextPart | ReasoningPart | ToolCall | ToolResult | MediaPart | ProviderPart
Part: TypeAlias = KnownPart | UnknownPart


class Message(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One role's contribution.

    An assistant message with tool calls is followed by one tool message with a result for each.
    """

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: Time
    response_id: str = ""
    """The provider's id of the response that it was; "" for what no provider said."""
    source: JsonText | None = None
    """The stored text, kept only where it holds a word that this version does not know; it is
    written back as it was.
    """

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
        return Message(
            id=self.id,
            role=self.role,
            parts=tuple(parts),
            created_at=self.created_at,
            response_id=self.response_id,
        )

    @property
    def is_summary(self) -> bool:
        """Whether it stands for others, which left the view of their conversation."""
        return self.id.startswith(f"{SUMMARY}_")

    @property
    def text(self) -> str:
        return "".join([p.text for p in self.parts if isinstance(p, TextPart)])

    @property
    def reasoning(self) -> str:
        return "".join(p.text for p in self.parts if isinstance(p, ReasoningPart))

    @property
    def reasoning_metadata(self) -> tuple[JsonText, ...]:
        """What the provider attached to its reasoning (signatures), in order, each a JSON object."""  # noqa: E501
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
        """Calls of tools that the provider ran, one line each."""
        return tuple(p.shown for p in self.parts if isinstance(p, ProviderPart) and p.shown)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(p for p in self.parts if isinstance(p, ToolResult))

    @classmethod
    @override
    def from_json(cls, data: bytes | str) -> Self:
        """Raises AgentError(invalid) where the text is no message, or one of a higher major schema."""  # noqa: E501
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
    """A message as it is stored, when this version knows every word of it."""

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: Time
    response_id: str = ""
    schema: int = SCHEMA
    source: JsonText | None = None
    """Written only where a message stands inside another value."""


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
    """The stored form."""
    return encode_json(message) if message.source is None else message.source.encode()


def decode_message(data: bytes) -> Message:
    """The inverse of `encode_message`; what a newer version wrote survives the way back.

    Raises AgentError(invalid) where the bytes are no message, or one of a higher major schema.
    """
    try:
        stored = decode_json(data, _Stored)
    except ValueError:
        return _decode_strange(data)
    _check_schema(stored.schema)
    # it alone counts, else a message could show one thing now and another once it was stored
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
    """Words of a newer version: taken apart piece by piece, so that what is not known is not
    touched.
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
        raise AgentError("invalid", f"this is no message that can be read: it has no {e}") from e
    except ValueError as e:
        raise AgentError("invalid", f"this is no message that can be read: {_short(e)}") from e
    return Message(
        id=head.id,
        role=head.role,
        parts=tuple(parts),
        created_at=head.created_at,
        response_id=head.response_id,
        source=text,
    )


def decode_part(piece: JsonText) -> Part:
    """One part, without what this version does not know of it. Raises ValueError where it is none."""  # noqa: E501
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
    """What can stand inside a tool result; for anything else a line that says what was there."""
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
