"""Content blocks of the Messages API, from the parts of messages.

Entry points: `blocks_of`, `sendable`, `unsent`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

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
from treadle.models.providers.anthropic.blocks import PREFIX, PROVIDER
from treadle.models.providers.encoding import (
    UNSENT,
    arguments_of,
    described,
    identifier,
    own_fields,
    raw,
    text_in,
)

Block: TypeAlias = dict[str, object]
Typed: TypeAlias = tuple[str, Block | msgspec.Raw]
"""A block, with its type in front."""
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
REASONING = frozenset({"thinking", "redacted_thinking"})
ID_CHARS_MAX = 128


def blocks_of(message: Message, settled: bool) -> list[Typed]:
    match message.role:
        case "assistant":
            return [
                typed
                for part in message.parts
                if (typed := _assistant_block(part, settled)) is not None
            ]
        case "system":
            return [
                _text(part) for part in message.parts if isinstance(part, TextPart) and part.text
            ]
        case "user" | "tool":
            return [typed for part in message.parts if (typed := _user_block(part)) is not None]


def sendable(blocks: list[Typed]) -> list[Typed]:
    """Drop blocks that the API rejects: blank texts, and reasoning at the end of a message or with
    nothing else in it.
    """
    blocks = _without_blanks(blocks)
    while blocks and blocks[-1][0] in REASONING:
        blocks.pop()
    return blocks


def _without_blanks(blocks: list[Typed]) -> list[Typed]:
    """Drop text blocks if all are blank. The API accepts a blank text only next to another."""
    has_text = False
    for kind, block in blocks:
        if kind == "text" and isinstance(block, dict) and str(block["text"]).strip():
            return blocks
        has_text |= kind == "text"
    return [typed for typed in blocks if typed[0] != "text"] if has_text else blocks


def _assistant_block(part: Part, settled: bool) -> Typed | None:
    match part:
        case TextPart():
            return (
                ("text", {"type": "text", "text": part.text, **own_fields(part, PROVIDER)})
                if part.text
                else None
            )
        case ToolCall():
            return "tool_use", {
                "type": "tool_use",
                "id": identifier(part.id, longest=ID_CHARS_MAX),
                "name": identifier(part.name, longest=ID_CHARS_MAX),
                "input": raw(arguments_of(part.arguments_json)),
                **own_fields(part, PROVIDER),
            }
        case ReasoningPart():
            given = {} if settled else own_fields(part, PROVIDER)
            given.pop(PREFIX, None)
            return (
                ("thinking", {"type": "thinking", "thinking": part.text, **given})
                if "signature" in given
                else None
            )
        case ProviderPart(provider="anthropic"):
            kind = head_of(part).type
            return None if settled and kind in REASONING else (kind, raw(part.data))
        case MediaPart():
            return "text", {"type": "text", "text": described(part)}
        case _:
            return None


def _text(part: TextPart) -> Typed:
    return "text", {"type": "text", "text": part.text}


class _Head(msgspec.Struct):
    """The identifying fields of a block that is returned verbatim."""

    type: str = ""
    id: str = ""
    tool_use_id: str = ""


_head = msgspec.json.Decoder(_Head)


def head_of(part: ProviderPart) -> _Head:
    try:
        return _head.decode(part.data)
    except (ValueError, RecursionError):
        return _Head()


def _user_block(part: Part) -> Typed | None:
    match part:
        case ToolResult():
            return "tool_result", _tool_result(part)
        case TextPart() if part.text:
            return _text(part)
        case MediaPart():
            return "image", _media(part)
        case _:
            return None


def _tool_result(part: ToolResult) -> Block:
    block: Block = {
        "type": "tool_result",
        "tool_use_id": identifier(part.call_id, longest=ID_CHARS_MAX),
    }
    if isinstance(part.content, str):
        content = part.content if part.content.strip() else ""
    else:
        blocks = [typed for p in part.content if (typed := _user_block(p)) is not None]
        content = [block for _, block in _without_blanks(blocks)]
    if not content and part.is_error:
        content = "It failed without saying why."  # the API rejects an error without content
    if content:
        block["content"] = content
    if part.is_error:
        block["is_error"] = True
    return block


def unsent(part: MediaPart) -> str:
    """Return advice about a part that the API does not accept; "" for others."""
    return "" if _media(part)["type"] != "text" else UNSENT


def _media(part: MediaPart) -> Block:
    source: Block | None = None
    title: Block = {"title": part.name} if part.name else {}
    if part.media_type in _IMAGES:
        source, title = _source(part), {}
    elif part.media_type == "application/pdf":
        source = _source(part)
    elif (text := text_in(part)) is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
    if source is None:
        return {"type": "text", "text": described(part)}
    return {
        "type": "image" if part.media_type in _IMAGES else "document",
        "source": source,
        **title,
    }


def _source(part: MediaPart) -> Block:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": part.media_type, "data": part.data or ""}
