"""Prompts, responses and tool calls as span attributes, by the GenAI conventions: truncated, and
with secrets masked. Off by default.

Source: gen-ai-input-messages.json and related files, open-telemetry/semantic-conventions-genai,
November 2026. Entry point: `SpanContent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle._internal.json_text import encode_json, parse_json
from treadle.events.telemetry import names
from treadle.messages.message import (
    MediaPart,
    Message,
    Part,
    ProviderPart,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from treadle.models.model import ModelResponse, ToolDefinition
from treadle.types import SystemBlock

MESSAGES_CHARS_MAX = 65_536
"""Maximum size of the messages in one span. The newest that fit are kept."""
TEXT_CHARS_MAX = 16_384
CUT = "…"


class SpanContent:
    """Encoder of one run's content for its spans. Encodes each message only once."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        """Create an encoder. `clean`: function that masks secrets in a text."""
        self._clean = clean
        self._known: dict[str, str] = {}
        """Encoded messages by id."""
        self._fixed: tuple[object, str] = (None, "")
        """Tool definitions of the last request, with their encoding."""

    def messages(self, messages: Sequence[Message]) -> tuple[str, int]:
        """Return the newest messages as JSON, and the number of older ones that did not fit."""
        pieces: list[str] = []
        left = MESSAGES_CHARS_MAX
        for i in range(len(messages) - 1, -1, -1):
            piece = self._message(messages[i])
            left -= len(piece)
            if left < 0 and pieces:
                break
            pieces.append(piece)
        return f"[{','.join(reversed(pieces))}]", len(messages) - len(pieces)

    def answer(self, response: ModelResponse) -> str:
        said = {
            "role": "assistant",
            "parts": self._parts(response.parts),
            "finish_reason": names.FINISH[response.stop_reason],
        }
        return _json([said])

    def instructions(self, blocks: Sequence[SystemBlock]) -> str:
        return _json([{"type": "text", "content": self.text(block.text)} for block in blocks])

    def definitions(self, tools: Sequence[ToolDefinition]) -> str:
        """Encode tool definitions. Caches the result for the same object."""
        if self._fixed[0] is not tools:
            told = [
                {
                    "type": "function",
                    "name": t.name,
                    "description": self.text(t.description),
                    "parameters": t.parameters,
                }
                for t in tools
            ]
            self._fixed = (tools, self._clean(encode_json(told).decode()))
        return self._fixed[1]

    def text(self, text: str) -> str:
        """Mask the secrets in a text, then truncate it. In the other order, a truncated secret
        would not be recognized.
        """
        text = sendable(self._clean(text))
        return text if len(text) <= TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX] + CUT

    def _message(self, message: Message) -> str:
        if (known := self._known.get(message.id)) is None:
            known = self._known[message.id] = _json(
                {"role": message.role, "parts": self._parts(message.parts)}
            )
        return known

    def _parts(self, parts: Sequence[Part]) -> list[dict[str, object]]:
        return [self._part(part) for part in parts]

    def _part(self, part: Part) -> dict[str, object]:
        match part:
            case TextPart():
                return {"type": "text", "content": self.text(part.text)}
            case ReasoningPart():
                return {"type": "reasoning", "content": self.text(part.text)}
            case ToolCall():
                return {
                    "type": "tool_call",
                    "id": part.id,
                    "name": part.name,
                    "arguments": _parsed(self.text(part.arguments_json)),
                }
            case ToolResult():
                return {
                    "type": "tool_call_response",
                    "id": part.call_id,
                    "response": self.text(part.text),
                }
            case MediaPart():
                return {
                    "type": "media",
                    "mime_type": part.media_type,
                    "name": self.text(part.name or ""),
                    "uri": self.text(part.url or ""),
                }
            case ProviderPart() | UnknownPart():
                return {"type": "provider"}


def sendable(text: str) -> str:
    """Escape lone surrogates. UTF-8 cannot encode them, so exporters would lose a whole batch."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _parsed(text: str) -> object:
    """Return arguments as a JSON value, or as text if they are not valid JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return text


def _json(value: object) -> str:
    return encode_json(value).decode()
