"""Claude's Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tests.models.providers.loopback import PING, sse
from tests.models.providers.speech import (
    ANSWER_ID,
    ANSWERED_BY,
    KEY,
    MODEL,
    Call,
    Json,
    Reasoning,
    Said,
    Text,
)
from treadle.models.providers.anthropic import AnthropicModel, connect
from treadle.models.providers.connection import Connection
from treadle.types import StopReason

USAGE = {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 1}
ENDED = {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}}


class AnthropicSpeech:
    wire = "anthropic"
    target = "/v1/messages"
    headers: ClassVar[Mapping[str, str]] = {
        "authorization": f"Bearer {KEY}",
        "anthropic-version": "2026-10-21",
        "content-type": "application/json",
    }
    words: ClassVar[Mapping[StopReason, str]] = {
        StopReason.COMPLETE: "end_turn",
        StopReason.TOOL_USE: "tool_use",
        StopReason.MAX_TOKENS: "max_tokens",
        StopReason.STOP_SEQUENCE: "stop_sequence",
        StopReason.REFUSAL: "refusal",
        StopReason.PAUSE: "pause_turn",
        StopReason.CONTEXT_OVERFLOW: "model_context_window_exceeded",
    }
    ping = PING
    arguments_in_pieces = True

    def connection(self, url: str, *, timeout_s: float) -> Connection:
        return connect(api_key=KEY, base_url=url, timeout_s=timeout_s)

    def model(self, connection: Connection, **options: Any) -> AnthropicModel:
        return AnthropicModel(MODEL, connection=connection, **options)

    def frames(self, *said: Said, end: StopReason | None = StopReason.COMPLETE) -> Sequence[bytes]:
        return [sse(event) for event in self._events(said, end)]

    def _events(self, said: Sequence[Said], end: StopReason | None) -> Iterator[Json]:
        yield {
            "type": "message_start",
            "message": {"id": ANSWER_ID, "model": ANSWERED_BY, "content": [], "usage": USAGE},
        }
        for index, part in enumerate(said):
            empty = _block(part, "")
            yield {
                "type": "content_block_start",
                "index": index,
                "content_block": {k: v for k, v in empty.items() if k != "signature"},
            }
            for piece in part.pieces:
                yield {"type": "content_block_delta", "index": index, "delta": _delta(part, piece)}
            if isinstance(part, Reasoning):
                yield {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": {"type": "signature_delta", "signature": empty["signature"]},
                }
            if end is not None or index + 1 < len(said):
                yield {"type": "content_block_stop", "index": index}
        if end is not None:
            yield {
                "type": "message_delta",
                "delta": {"stop_reason": self.words[end]},
                "usage": ENDED,
            }
            yield {"type": "message_stop"}

    def body(self, *said: Said, end: StopReason = StopReason.COMPLETE) -> Json:
        blocks = [_block(part, "".join(part.pieces)) for part in said]
        return {
            "type": "message",
            "id": ANSWER_ID,
            "model": ANSWERED_BY,
            "content": blocks,
            "stop_reason": self.words[end],
            "usage": {**USAGE, **ENDED},
        }

    def error(self, status: int, message: str) -> Json:
        kind = {
            401: "authentication_error",
            404: "not_found_error",
            429: "rate_limit_error",
            529: "overloaded_error",
        }.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def broken_off(self, message: str) -> bytes:
        return sse(self.error(529, message))

    def history(self, body: Json) -> list[Json]:
        return body["messages"]

    def count(self, tokens: int) -> Json | None:
        return {"input_tokens": tokens}


def _block(part: Said, whole: str) -> Json:
    match part:
        case Text():
            return {"type": "text", "text": whole}
        case Reasoning():
            return {"type": "thinking", "thinking": whole, "signature": "sig=="}
        case Call():
            return {
                "type": "tool_use",
                "id": part.id,
                "name": part.name,
                "input": json.loads(whole or "{}"),
            }


def _delta(part: Said, piece: str) -> Json:
    match part:
        case Text():
            return {"type": "text_delta", "text": piece}
        case Reasoning():
            return {"type": "thinking_delta", "thinking": piece}
        case Call():
            return {"type": "input_json_delta", "partial_json": piece}
