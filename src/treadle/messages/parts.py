"""Parts of a message: text, reasoning, tool calls and results, media, and provider parts.

Entry points: `Part`.
"""

from __future__ import annotations

import os
from binascii import a2b_base64, b2a_base64
from typing import Any, Final, TypeAlias, cast

import msgspec

from treadle._internal.json_text import (
    JsonText,
    parse_json,
)
from treadle._internal.other_names import FieldHints
from treadle.errors import AgentError
from treadle.types import Value

PDF = "application/pdf"
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def media_type_of(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF, WebP, PDF, WAV, MP3, FLAC or Ogg, by its first
    bytes; else None.
    """
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


class TextPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="text"
):
    """Text of a message.

    Attributes:
        text: The text.
        provider: Name of the provider whose data `provider_data` holds, or None.
        provider_data: JSON object of fields specific to `provider`, such as citations. It is sent
            back verbatim, and only to that provider.
    """

    text: str
    provider: str | None = None
    provider_data: JsonText | None = None


class ReasoningPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="reasoning"
):
    """Reasoning of a model.

    Attributes:
        text: The reasoning as the provider shows it: often a summary, possibly empty.
        provider: Name of the provider whose signature `provider_data` holds, or None.
        provider_data: JSON object with the signature that the provider needs back within the same
            run.
    """

    text: str
    provider: str | None = None
    provider_data: JsonText | None = None


class ToolCall(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="tool_call"
):
    """A tool call requested by the model.

    Attributes:
        id: The provider's id of the call, unique within the conversation.
        name: Name of the tool.
        arguments_json: Arguments exactly as the model wrote them, possibly malformed.
        provider: Name of the provider whose data `provider_data` holds, or None.
        provider_data: JSON object that the provider needs back with the call, or None.
    """

    id: str
    name: str
    arguments_json: JsonText = "{}"
    provider: str | None = None
    provider_data: JsonText | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments, decoded into a new dict on each access.

        Raises ValueError if the text is not a JSON object or nests deeper than 200 levels.
        """
        parsed = parse_json(self.arguments_json or "{}")
        if not isinstance(parsed, dict):
            raise ValueError(f"the arguments must be a JSON object, not {type(parsed).__name__}")
        return cast("dict[str, Any]", parsed)


class MediaPart(
    Value,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="media",
    metaclass=FieldHints,
):
    """An image, a sound or a file, with exactly one of `data` and `url`.

    Attributes:
        media_type: MIME type, like `image/png`.
        data: Content in base64, or None.
        url: Address from which the provider loads the content, or None.
        name: File name, sent to providers that accept one.
        provider: Name of the provider whose model made it, or None.
        provider_data: JSON object that this provider needs back with it, or None.
    """

    media_type: str
    data: str | None = None
    url: str | None = None
    name: str | None = None
    provider: str | None = None
    provider_data: JsonText | None = None

    def __post_init__(self) -> None:
        if (self.data is None) == (self.url is None):
            raise AgentError(
                "invalid",
                (
                    f"a MediaPart needs either data or url: this one "
                    f"({self.media_type!r}) has {'both' if self.data else 'neither'}"
                ),
            )

    @classmethod
    def from_bytes(
        cls, data: bytes, media_type: str | None = None, *, name: str | None = None
    ) -> MediaPart:
        """Return a part with this content.

        `media_type`: None recognises PNG, JPEG, GIF, WebP, PDF, WAV, MP3, FLAC and Ogg. Raises
        AgentError(invalid) for other content.
        """
        kind = media_type or media_type_of(data)
        if kind is None:
            raise AgentError(
                "invalid",
                f"{name or 'the content'} is not a PNG, JPEG, GIF, WebP, PDF, WAV, MP3, FLAC or "
                "Ogg: give media_type=, or send text as a string",
            )
        return cls(media_type=kind, data=b2a_base64(data, newline=False).decode(), name=name)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], media_type: str | None = None) -> MediaPart:
        """Return a part with the content and the name of a file.

        `media_type`: None recognises the content, as `from_bytes`. Raises AgentError(invalid) if
        the file cannot be read, and the errors of `from_bytes`.
        """
        name = os.fspath(path)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as e:
            raise AgentError("invalid", f"cannot read {name!r}: {e.strerror or e}") from e
        return cls.from_bytes(data, media_type, name=os.path.basename(name))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the content to a file, and replace an existing one.

        Raises AgentError(invalid) if the part is only an address, its data are not base64, or the
        file cannot be written.
        """
        name = os.fspath(path)
        if self.data is None:
            raise AgentError(
                "invalid",
                f"a part with url= has no content to save to {name!r}: download {self.url}",
            )
        try:
            content = a2b_base64(self.data)
        except ValueError as e:
            raise AgentError("invalid", f"data= of the part is not base64: {e}") from e
        try:
            with open(path, "wb") as file:
                file.write(content)
        except OSError as e:
            raise AgentError("invalid", f"{name!r} cannot be written: {e.strerror or e}") from e

    @property
    def is_image(self) -> bool:
        """True if the media type is `image/*`."""
        return self.media_type.startswith("image/")


class ToolResult(
    Value,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_result",
):
    """Result of one tool call.

    Attributes:
        call_id: Id of the call.
        name: Name of the tool.
        content: Text, or text and media parts.
        is_error: True if the call failed or was not executed.
        unknown: True if the call started, but it is unknown whether it took effect.
        exit_code: Exit code of the command that the call ran; None if it ran no command, or if the
            command is still running.
    """

    call_id: str
    name: str
    content: str | tuple[TextPart | MediaPart, ...] = ""
    is_error: bool = False
    unknown: bool = False
    exit_code: int | None = None

    @property
    def failed(self) -> bool:
        """True for an error, and for a command that ended with a nonzero exit code."""
        return self.is_error or bool(self.exit_code)

    @property
    def text(self) -> str:
        """Text of the content, without its media."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(p.text for p in self.content if isinstance(p, TextPart))


class ProviderPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="provider"
):
    """A piece that only its provider understands: hosted tools, redacted thinking, compaction.

    Attributes:
        provider: Name of the provider.
        data: The piece as JSON, verbatim.
        shown: One-line description of a hosted tool call, for display; empty for other pieces.
    """

    provider: str
    data: JsonText
    shown: str = ""


class UnknownPart(
    Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="unknown"
):
    """A part of a type that this version does not know.

    Attributes:
        type: Type of the part.
        raw: The part as JSON, verbatim.
    """

    type: str = msgspec.field(name="kind")
    raw: JsonText


KnownPart: TypeAlias = TextPart | ReasoningPart | ToolCall | ToolResult | MediaPart | ProviderPart


Part: TypeAlias = KnownPart | UnknownPart
