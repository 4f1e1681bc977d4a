"""One message as the Messages API wants it: parts to content blocks, encoded once.

What stands around the messages is anthropic_request.py's. Entry: `MessageEncoder`.
Source: https://platform.claude.com/docs/en/api/messages, version 2026-10-21: no documents in assistant messages, citations only there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import msgspec

from treadle.message import JsonText, MediaPart, Message, Part, ProviderPart, ReasoningPart, TextPart, ToolCall, ToolResult
from treadle.providers.anthropic_blocks import PROVIDER
from treadle.providers.anthropic_events import Fields
from treadle.providers.surrogates import mended, mended_json

Block: TypeAlias = dict[str, object]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
_REASONING = frozenset({"thinking", "redacted_thinking"})
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class MessageEncoder:
    """Encodes the messages of one history in order, and remembers where cache breakpoints may be put: positions in the joined bytes."""

    __slots__ = ("_length", "asked", "end")

    def __init__(self) -> None:
        self.end = 0
        """Where the last block of all ends, before the brackets that close its message; 0 where it can carry no breakpoint."""
        self.asked = 0
        """The same at the time of the request that the newest assistant message answers."""
        self._length = 0

    def encode(self, message: Message, settled: bool) -> bytes:
        """b"" where nothing of the message is sent."""
        if message.role == "assistant":
            blocks = [block for part in message.parts if (block := _assistant_block(part, settled)) is not None]
        elif message.role == "system":
            blocks = [block for part in message.parts if isinstance(part, TextPart) and (block := _text(part)) is not None]
        else:
            blocks = [block for part in message.parts for block in _user_blocks(part)]
        if not blocks:
            return b""
        encoded = dumped({"role": "user" if message.role == "tool" else message.role, "content": blocks})
        if message.role == "assistant":
            self.asked = self.end
        self._length += len(encoded) + (self._length > 0)
        self.end = self._length - 3 if _kind(blocks[-1]) in _MARKABLE else 0
        return encoded


def dumped(value: object) -> bytes:
    """As JSON. Raises TypeError for what JSON cannot hold."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mended(value))


def _mended(value: object) -> object:
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, dict):
        return {mended(str(name)): _mended(inner) for name, inner in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_mended(inner) for inner in cast("list[object]", value)]
    return value


def _raw(text: JsonText) -> msgspec.Raw:
    try:
        return msgspec.Raw(text.encode())
    except UnicodeEncodeError:
        return msgspec.Raw(mended(text).encode())


def _kind(block: Block | msgspec.Raw) -> object:
    return block["type"] if isinstance(block, dict) else None


def _extra(part: TextPart | ReasoningPart | ToolCall) -> Fields:
    """What we were given to send back with this part."""
    if part.provider != PROVIDER or part.provider_data is None:
        return {}
    return msgspec.json.decode(part.provider_data, type=Fields)


# ---------------------------------------------------------------- assistant


def _assistant_block(part: Part, settled: bool) -> Block | msgspec.Raw | None:
    match part:
        case TextPart():
            block = _text(part)
            return block if block is None or part.provider_data is None else {**block, **_extra(part)}
        case ToolCall():
            return {"type": "tool_use", "id": _name(part.id), "name": _name(part.name), "input": _arguments(part.arguments_json), **_extra(part)}
        case ReasoningPart():
            given = {} if settled else _extra(part)
            return {"type": "thinking", "thinking": part.text, **given} if "signature" in given else None
        case ProviderPart(provider="anthropic"):
            return None if settled and _provider_kind(part) in _REASONING else _raw(part.data)
        case MediaPart():
            return {"type": "text", "text": _described(part)}
        case _:
            return None


def _text(part: TextPart) -> Block | None:
    """The API refuses empty ones."""
    return {"type": "text", "text": part.text} if part.text else None


def _name(name: str) -> str:
    """Ids and names as the API takes them: another provider, or a model's mistake, may have put other characters into a history."""
    return name if _NAME.fullmatch(name) else _NOT_IN_NAME.sub("_", name)[:128] or "_"


def _arguments(text: JsonText) -> msgspec.Raw | dict[str, str]:
    """The model's own text where it is a JSON object; else a JSON object that says what it was."""
    for candidate in (text or "{}", mended_json(text)):
        try:
            msgspec.json.decode(candidate, type=Fields)
        except (ValueError, RecursionError):
            continue
        return msgspec.Raw(candidate.encode())
    return {"INVALID_JSON": text}


def _provider_kind(part: ProviderPart) -> object:
    try:
        return msgspec.json.decode(part.data, type=dict[str, Any]).get("type")
    except (ValueError, RecursionError):
        return None


# ---------------------------------------------------------------- user


def _user_blocks(part: Part) -> Iterator[Block]:
    match part:
        case ToolResult():
            yield _tool_result(part)
        case TextPart() if (block := _text(part)) is not None:
            yield block
        case MediaPart():
            yield _media(part)
        case _:
            pass


def _tool_result(part: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _name(part.call_id)}
    content = part.content if isinstance(part.content, str) else [inner for p in part.content for inner in _user_blocks(p)]
    if not content and part.is_error:
        content = "It failed without saying why."  # the API refuses an error without content
    if content:
        block["content"] = content
    if part.is_error:
        block["is_error"] = True
    return block


def _media(part: MediaPart) -> Block:
    source: Block | None = None
    title: Block = {"title": part.name} if part.name else {}
    if part.media_type in _IMAGES:
        source, title = _source(part), {}
    elif part.media_type == "application/pdf":
        source = _source(part)
    elif part.data is not None and (part.media_type.startswith("text/") or part.media_type in ("application/json", "application/xml")):
        source = {"type": "text", "media_type": "text/plain", "data": base64.b64decode(part.data).decode("utf-8", "replace")}
    if source is None:
        return {"type": "text", "text": _described(part)}
    return {"type": "image" if part.media_type in _IMAGES else "document", "source": source, **title}


def _source(part: MediaPart) -> Block:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data or ""}


def _described(part: MediaPart) -> str:
    """Where the API takes no such thing, the model reads what was there."""
    where = f" at {part.url}" if part.url is not None else ""
    return f"[{part.name or 'a file'} ({part.media_type}){where}: not shown, since it cannot be sent to this model]"
