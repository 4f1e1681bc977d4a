"""About how many tokens a request has, where nobody can be asked.

Asking is each wire's own; what a run may still spend is budget.py's. Entry: `estimated_tokens`.
"""

from __future__ import annotations

from collections.abc import Iterable

from treadle.budget import BYTES_PER_TOKEN
from treadle.message import MediaPart, Part, ProviderPart, ReasoningPart, TextPart, ToolCall, ToolResult
from treadle.model import ModelRequest
from treadle.providers.encoding import dumped

MEDIA_TOKENS = 1500
"""Of one image or page: what vendors count for a picture of about a million pixels."""
MESSAGE_TOKENS = 4
"""What stands around one."""


def estimated_tokens(request: ModelRequest) -> int:
    """Rather too many than too few for prose and code; pictures are counted by the piece, whatever they weigh."""
    size_bytes = sum(_bytes(block.text) for block in request.system)
    size_bytes += sum(_bytes(tool.name) + _bytes(tool.description) + len(dumped(tool.parameters)) for tool in request.tools)
    media = 0
    for message in request.messages:
        size_bytes += MESSAGE_TOKENS * BYTES_PER_TOKEN
        for part in _flat(message.parts):
            if isinstance(part, MediaPart):
                media += 1
            else:
                size_bytes += _size(part)
    return -(-size_bytes // BYTES_PER_TOKEN) + media * MEDIA_TOKENS


def _flat(parts: Iterable[Part]) -> Iterable[Part]:
    for part in parts:
        if isinstance(part, ToolResult) and not isinstance(part.content, str):
            yield from part.content
        else:
            yield part


def _size(part: Part) -> int:
    match part:
        case TextPart() | ReasoningPart():
            return _bytes(part.text)
        case ToolCall():
            return _bytes(part.name) + _bytes(part.arguments_json)
        case ToolResult():
            return _bytes(part.text)
        case ProviderPart():
            return _bytes(part.data)
        case _:
            return 0


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
