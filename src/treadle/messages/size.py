"""Local estimates of the tokens in texts, messages and media.

Entry points: `Size`, `size_of`, `tokens_in`, `text_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

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

BYTES_PER_TOKEN = 3
"""Assumed bytes per token. It is below the average of every tokenizer for prose and code, so that
estimates err on the high side.
"""
MEDIA_TOKENS = 1500
"""Assumed tokens of one image or file. Vendors count about as many for an image of a million
pixels.
"""
MESSAGE_TOKENS = 4
"""Assumed overhead of one message, in tokens."""


class Size(NamedTuple):
    size_bytes: int
    media: int = 0

    @property
    def tokens(self) -> int:
        """Estimated tokens: high for prose and code, and `MEDIA_TOKENS` for each image or file."""
        return tokens_in(self.size_bytes) + self.media * MEDIA_TOKENS


def tokens_in(size_bytes: int) -> int:
    return -(-size_bytes // BYTES_PER_TOKEN)


def size_of(messages: Iterable[Message]) -> Size:
    size_bytes = media = 0
    for message in messages:
        size_bytes += MESSAGE_TOKENS * BYTES_PER_TOKEN
        for part in message.parts:
            inner, pictures = _part_size(part)
            size_bytes, media = size_bytes + inner, media + pictures
    return Size(size_bytes, media)


def _part_size(part: Part) -> Size:
    match part:
        case TextPart() | ReasoningPart():
            return Size(text_bytes(part.text))
        case ToolCall():
            return Size(text_bytes(part.name) + text_bytes(part.arguments_json))
        case ToolResult():
            return result_size(part)
        case ProviderPart():
            return Size(text_bytes(part.data))
        case MediaPart():
            return Size(0, 1)
        case _:
            return Size(0)


def result_size(result: ToolResult) -> Size:
    if isinstance(result.content, str):
        return Size(text_bytes(result.content))
    said = sum(text_bytes(part.text) for part in result.content if isinstance(part, TextPart))
    return Size(said, sum(isinstance(part, MediaPart) for part in result.content))


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
