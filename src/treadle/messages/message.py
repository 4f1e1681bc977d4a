"""Messages, and their stored form as JSON, which keeps the fields of newer versions.

Each wire has its own encoding. Entry points: `Message`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, Self, TypeAlias, cast

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
from treadle.messages.parts import PDF as PDF
from treadle.messages.parts import KnownPart as KnownPart
from treadle.messages.parts import MediaPart as MediaPart
from treadle.messages.parts import Part as Part
from treadle.messages.parts import ProviderPart as ProviderPart
from treadle.messages.parts import ReasoningPart as ReasoningPart
from treadle.messages.parts import TextPart as TextPart
from treadle.messages.parts import ToolCall as ToolCall
from treadle.messages.parts import ToolResult as ToolResult
from treadle.messages.parts import UnknownPart as UnknownPart
from treadle.types import Time, Value, new_id, now

SCHEMA = 1
"""Major version of the stored form. Messages with a higher one are rejected."""

SUMMARY = "summary"
"""Id prefix of a message that replaces those it summarizes."""

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]


Prompt: TypeAlias = "str | Sequence[str | os.PathLike[str] | Part]"
"""Input of a run: text, or a list of texts, media, and paths of files that are read when it starts.
"""


class Message(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of a conversation.

    An assistant message with tool calls is followed by one tool message with a result for each
    call.

    Attributes:
        id: Unique id, beginning with `msg_`.
        role: Author: `user`, `assistant`, `system` or `tool`.
        parts: Content, in order.
        created_at: Time of creation, in UTC.
        response_id: Provider's id of the response; empty for messages that are not responses.
        source: Stored JSON of a message that a newer version wrote, written back verbatim.
    """

    id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: Time
    response_id: str = ""
    source: JsonText | None = None

    @classmethod
    def of(cls, role: Role, content: str | Sequence[Part]) -> Message:
        """Create a message with a new id. A string becomes one text part."""
        parts = (TextPart(text=content),) if isinstance(content, str) else tuple(content)
        return cls(id=new_id("msg"), role=role, parts=parts, created_at=now())

    @classmethod
    def user(cls, content: str | Sequence[Part]) -> Message:
        """Create a message of the user from text or parts."""
        return cls.of("user", content)

    @classmethod
    def assistant(cls, content: str | Sequence[Part]) -> Message:
        """Create a message of the model from text or parts."""
        return cls.of("assistant", content)

    @classmethod
    def system(cls, content: str | Sequence[Part]) -> Message:
        """Create a system message from text or parts."""
        return cls.of("system", content)

    @classmethod
    def tool(cls, results: Sequence[ToolResult]) -> Message:
        """Create the message that holds the results of the preceding calls."""
        return cls.of("tool", results)

    def with_parts(self, parts: Sequence[Part]) -> Message:
        """Return a copy with other parts. Fields of a newer version are lost."""
        return Message(
            id=self.id,
            role=self.role,
            parts=tuple(parts),
            created_at=self.created_at,
            response_id=self.response_id,
        )

    @property
    def is_summary(self) -> bool:
        """True if the message summarizes others that a compaction removed."""
        return self.id.startswith(f"{SUMMARY}_")

    @property
    def text(self) -> str:
        """Text of all text parts, joined."""
        return "".join([p.text for p in self.parts if isinstance(p, TextPart)])

    @property
    def reasoning(self) -> str:
        """Text of all reasoning parts, joined."""
        return "".join(p.text for p in self.parts if isinstance(p, ReasoningPart))

    @property
    def reasoning_metadata(self) -> tuple[JsonText, ...]:
        """Provider data of the reasoning parts, such as signatures: JSON objects, in order."""
        return tuple(
            p.provider_data
            for p in self.parts
            if isinstance(p, ReasoningPart) and p.provider_data is not None
        )

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls of the message, in order."""
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])

    @property
    def hosted_calls(self) -> tuple[str, ...]:
        """One-line descriptions of tool calls that the provider ran."""
        return tuple(p.shown for p in self.parts if isinstance(p, ProviderPart) and p.shown)

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Media parts, in order."""
        return tuple([p for p in self.parts if isinstance(p, MediaPart)])

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Tool results of the message, in order."""
        return tuple(p for p in self.parts if isinstance(p, ToolResult))

    @classmethod
    @override
    def from_json(cls, data: bytes | str) -> Self:
        """Decode a message. Raises AgentError(invalid) for invalid JSON or a newer schema."""
        return cast(
            "Self",
            decode_message(
                data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
            ),
        )

    @override
    def to_json(self) -> bytes:
        """Encode the message as JSON. `from_json` is the inverse."""
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
    """Original JSON, set only if the message is a field of another value."""


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
    """Return the stored form of a message, as JSON."""
    return encode_json(message) if message.source is None else message.source.encode()


def decode_message(data: bytes) -> Message:
    """Return the message for its stored form. Fields of a newer version survive a round trip.

    Raises AgentError(invalid) if the bytes are not a message, or have a newer schema.
    """
    try:
        stored = decode_json(data, _Stored)
    except ValueError:
        return _decode_strange(data)
    _check_schema(stored.schema)
    # use the source alone, else its content could differ from the decoded fields
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
    """Decode a message of a newer version field by field, keeping unknown parts unchanged."""
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
    """Decode a part without its unknown fields. Raises ValueError if it is not a part."""
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
    """Replace an unknown part with a line of text, since tool results cannot contain one."""
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
