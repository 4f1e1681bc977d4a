"""Conversion of an MCP tool result into content for the model: text and valid images.

Entry point: `output_of`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator

import mcp_types

from treadle._internal.json_text import encode_json
from treadle.messages.images import FILE_BYTES_MAX
from treadle.messages.message import MediaPart, TextPart
from treadle.tools.builtin.text import image_type
from treadle.tools.tool import ToolContent

BLOCKS_MOST = 1_000
IMAGES_MOST = 20


def output_of(result: mcp_types.CallToolResult) -> ToolContent:
    """Convert a result. Adjacent texts are merged; a line describes content that models do not
    support.
    """
    parts = _joined(_parts(result))
    if not any(isinstance(part, MediaPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart)) or "(no output)"
    return parts


def text_of(result: mcp_types.CallToolResult) -> str:
    return (
        "\n".join(part.text for part in _joined(_parts(result)) if isinstance(part, TextPart))
        or "(no reason given)"
    )


def _parts(result: mcp_types.CallToolResult) -> Iterator[TextPart | MediaPart]:
    images = 0
    for block in result.content[:BLOCKS_MOST]:
        part = _part(block)
        if isinstance(part, MediaPart):
            images += 1
            if images > IMAGES_MOST:
                part = (
                    f"[an image, {part.media_type}: not shown, because it is one of more than "
                    f"{IMAGES_MOST}]"
                )
        yield TextPart(text=part) if isinstance(part, str) else part
    if (more := len(result.content) - BLOCKS_MOST) > 0:
        yield TextPart(text=f"[{more:,} more pieces are not shown]")
    if result.structured_content is not None and not any(
        isinstance(block, mcp_types.TextContent) for block in result.content
    ):
        yield TextPart(text=encode_json(result.structured_content).decode())


def _part(block: mcp_types.ContentBlock) -> str | MediaPart:
    match block:
        case mcp_types.TextContent():
            return block.text
        case mcp_types.ImageContent():
            return _image(block.data, block.mime_type, "an image")
        case mcp_types.AudioContent():
            return _unseen("a sound", block.mime_type, block.data)
        case mcp_types.ResourceLink():
            what = ", ".join(
                text
                for text in (
                    block.mime_type,
                    None if block.size is None else f"{block.size:,} bytes",
                )
                if text
            )
            said = f": {block.description}" if block.description else ""
            return f"[resource {block.name!r} at {block.uri}{f' ({what})' if what else ''}{said}]"
        case mcp_types.EmbeddedResource():
            inner = block.resource
            if isinstance(inner, mcp_types.TextResourceContents):
                return f"[resource {inner.uri}]\n{inner.text}"
            return _image(inner.blob, inner.mime_type or "", f"the resource {inner.uri}")


def _image(data: str, said: str, what: str) -> str | MediaPart:
    """Return the image with the media type of its bytes. A provider rejects the whole request for
    an invalid or mislabelled image.
    """
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return f"[{what}, {said}: its data is not valid base64]"
    media_type = image_type(decoded)
    if media_type is None or len(decoded) > FILE_BYTES_MAX:
        return _unseen(what, said, data)
    return MediaPart(media_type=media_type, data=data)


def _unseen(what: str, media_type: str, data: str) -> str:
    return (
        f"[{what}, {media_type or 'of an unknown type'}, {len(data) * 3 // 4:,} bytes: not "
        "shown, because models take none of the kind, or none so large]"
    )


def _joined(parts: Iterable[TextPart | MediaPart]) -> list[TextPart | MediaPart]:
    joined: list[TextPart | MediaPart] = []
    for part in parts:
        if isinstance(part, TextPart) and joined and isinstance(last := joined[-1], TextPart):
            joined[-1] = TextPart(text=f"{last.text}\n{part.text}")  # at most BLOCKS_MOST times
        else:
            joined.append(part)
    return joined
