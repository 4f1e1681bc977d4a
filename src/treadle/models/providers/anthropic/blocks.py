"""Content blocks of a streamed response: each kind turns its fragments into deltas and attaches its
opaque data.

stream.py handles the order of blocks. Entry points: `open_block`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from treadle.messages.message import ProviderPart
from treadle.models.model import (
    ArgumentsDelta,
    Delta,
    PartEnd,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    TextStart,
    ToolCallStart,
    WholePart,
)
from treadle.models.providers.anthropic.events import JsonPiece, TextDeltaPiece, ThinkingPiece
from treadle.models.providers.decoding import left_out, text_of, verbatim
from treadle.models.providers.encoding import Fields, is_object
from treadle.models.providers.hosted import shown_call
from treadle.models.providers.surrogates import mended

PROVIDER = "anthropic"

PREFIX = "prefix"
"""Key of our own digest of the conversation prefix, stored with a thinking signature and never
sent.
"""

Piece: TypeAlias = TextDeltaPiece | JsonPiece | ThinkingPiece

_PLAIN_END = PartEnd()
_NULL = b"null"
_DELTAS = frozenset(
    {"", "text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta"}
)


class ContentBlock(Protocol):
    def add(self, piece: Piece, deltas: list[Delta]) -> None: ...

    def add_other(self, fields: Fields, deltas: list[Delta]) -> None:
        """Add a delta of a rare kind, or of an unusual form."""
        ...

    def close(self, deltas: list[Delta]) -> None: ...


def open_block(fields: Fields, deltas: list[Delta], prefix: str = "") -> ContentBlock:
    """Return the block that begins with these fields, which may contain all of its content.

    `prefix`: digest of everything before the response.
    """
    match text_of(fields, "type"):
        case "text":
            return _Text(fields, deltas)
        case "thinking":
            return _Thinking(fields, deltas, prefix)
        case "tool_use":
            return _Call(fields, deltas)
        case _:
            return _Other(fields)


class _Caller(msgspec.Struct):
    type: str = "direct"
    tool_id: str = ""


_caller = msgspec.json.Decoder(_Caller)


def program_of(fields: Fields) -> str | None:
    """Return the id of the program that made the call in this block; None if the model made it, and
    for other blocks.
    """
    if "caller" not in fields:
        return None
    try:
        caller = _caller.decode(fields["caller"])
    except (ValueError, RecursionError):
        return None
    return None if caller.type == "direct" or not caller.tool_id else caller.tool_id


def _pass_over(fields: Fields, deltas: list[Delta]) -> None:
    """Report a delta that the open block does not support. Empty deltas of known kinds are
    ignored.
    """
    if (kind := text_of(fields, "type")) not in _DELTAS and len(fields) > 1:
        deltas.append(left_out(f"a delta of type {kind!r}"))


class _Text:
    __slots__ = ("_citations",)

    def __init__(self, fields: Fields, deltas: list[Delta]) -> None:
        given = bytes(fields.get("citations", b""))
        self._citations: list[msgspec.Raw] = (
            msgspec.json.decode(given, type=list[msgspec.Raw]) if given.startswith(b"[") else []
        )
        deltas.append(TextStart())
        if text := text_of(fields, "text"):
            deltas.append(TextDelta(text))

    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        if type(piece) is TextDeltaPiece:
            deltas.append(TextDelta(piece.text))

    def add_other(self, fields: Fields, deltas: list[Delta]) -> None:
        if "citation" in fields:
            self._citations.append(fields["citation"])
        elif text := text_of(fields, "text"):
            deltas.append(TextDelta(text))
        else:
            _pass_over(fields, deltas)

    def close(self, deltas: list[Delta]) -> None:
        deltas.append(
            PartEnd(PROVIDER, verbatim({"citations": self._citations}))
            if self._citations
            else _PLAIN_END
        )


class _Thinking:
    __slots__ = ("_prefix", "_signature")

    def __init__(self, fields: Fields, deltas: list[Delta], prefix: str) -> None:
        self._prefix = {PREFIX: prefix} if prefix else {}
        self._signature = text_of(fields, "signature")
        deltas.append(ReasoningStart())
        if text := text_of(fields, "thinking"):
            deltas.append(ReasoningDelta(text))

    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        if type(piece) is ThinkingPiece:
            deltas.append(ReasoningDelta(piece.thinking))

    def add_other(self, fields: Fields, deltas: list[Delta]) -> None:
        if "signature" in fields:
            self._signature = text_of(fields, "signature")
        elif text := text_of(fields, "thinking"):
            deltas.append(ReasoningDelta(text))
        else:
            _pass_over(fields, deltas)

    def close(self, deltas: list[Delta]) -> None:
        deltas.append(
            PartEnd(
                PROVIDER,
                verbatim({"signature": mended(self._signature), **self._prefix})
                if self._signature
                else None,
            )
        )


class _Call:
    __slots__ = ("_extra", "_whole_input")

    def __init__(self, fields: Fields, deltas: list[Delta]) -> None:
        self._whole_input = bytes(fields.get("input", b""))
        """Input from the block's start, dropped when fragments arrive: the input is in one place or
        the other.
        """
        self._extra = {
            name: raw
            for name, raw in fields.items()
            if name not in ("type", "id", "name", "input") and bytes(raw) != _NULL
        }
        deltas.append(ToolCallStart(text_of(fields, "id"), text_of(fields, "name")))

    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        if type(piece) is JsonPiece and piece.partial_json:
            self._whole_input = b""
            deltas.append(ArgumentsDelta(piece.partial_json))

    def add_other(self, fields: Fields, deltas: list[Delta]) -> None:
        if text := text_of(fields, "partial_json"):
            self._whole_input = b""
            deltas.append(ArgumentsDelta(text))
        else:
            _pass_over(fields, deltas)

    def close(self, deltas: list[Delta]) -> None:
        if self._whole_input not in (b"", b"{}", _NULL):
            deltas.append(ArgumentsDelta(self._whole_input.decode("utf-8", "replace")))
        deltas.append(PartEnd(PROVIDER, verbatim(self._extra)) if self._extra else _PLAIN_END)


class _Other:
    """A block that is returned verbatim and not interpreted. Deltas are merged into its fields."""

    __slots__ = ("_citations", "_fields", "_input", "_texts")

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._citations: list[msgspec.Raw] = []

    def add(self, piece: Piece, deltas: list[Delta]) -> None:
        match piece:
            case JsonPiece():
                self._input.append(piece.partial_json)
            case TextDeltaPiece():
                self._add_text("text", piece.text)
            case ThinkingPiece():
                self._add_text("thinking", piece.thinking)

    def add_other(self, fields: Fields, deltas: list[Delta]) -> None:
        for name, raw in fields.items():
            if name == "partial_json":
                self._input.append(text_of(fields, name))
            elif name == "citation":
                self._citations.append(raw)
            elif name == "type" or (bytes(raw) == _NULL and name in self._fields):
                continue
            elif bytes(raw).startswith(b'"'):
                self._add_text(name, text_of(fields, name))
            else:
                self._fields[name] = raw

    def _add_text(self, name: str, text: str) -> None:
        if name not in self._texts:
            self._texts[name] = [text_of(self._fields, name)]
        self._texts[name].append(text)

    def close(self, deltas: list[Delta]) -> None:
        block: dict[str, object] = {
            **self._fields,
            **{name: mended("".join(pieces)) for name, pieces in self._texts.items()},
        }
        if self._citations:
            block["citations"] = self._citations
        if is_object(whole_input := "".join(self._input)):
            block["input"] = msgspec.Raw(whole_input)
        shown = (
            shown_call(text_of(self._fields, "name"), msgspec.json.encode(block.get("input")))
            if text_of(self._fields, "type") == "server_tool_use"
            else ""
        )
        deltas.append(WholePart(ProviderPart(provider=PROVIDER, data=verbatim(block), shown=shown)))
