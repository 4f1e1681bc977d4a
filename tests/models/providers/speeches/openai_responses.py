"""OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tests.models.providers.loopback import sse
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
from treadle.models.providers.connection import Connection
from treadle.models.providers.openai_responses import OpenAIResponsesModel, connect
from treadle.types import StopReason

USAGE = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 12,
}


class OpenAIResponsesSpeech:
    wire = "openai"
    target = "/responses"
    headers: ClassVar[Mapping[str, str]] = {
        "authorization": f"Bearer {KEY}",
        "content-type": "application/json",
    }
    words: ClassVar[Mapping[StopReason, str]] = {
        StopReason.COMPLETE: "completed",
        StopReason.TOOL_USE: "completed",
        StopReason.MAX_TOKENS: "max_output_tokens",
        StopReason.REFUSAL: "content_filter",
    }
    ping = sse({"type": "keepalive", "sequence_number": 9})
    arguments_in_pieces = True

    def connection(self, url: str, *, timeout_s: float) -> Connection:
        return connect(api_key=KEY, base_url=url, timeout_s=timeout_s)

    def model(self, connection: Connection, **options: Any) -> OpenAIResponsesModel:
        return OpenAIResponsesModel(MODEL, connection=connection, **{"own_host": True, **options})

    def frames(self, *said: Said, end: StopReason | None = StopReason.COMPLETE) -> Sequence[bytes]:
        return [
            sse({**event, "sequence_number": number})
            for number, event in enumerate(self._events(said, end))
        ]

    def _events(self, said: Sequence[Said], end: StopReason | None) -> Iterator[Json]:
        begun = {
            "id": ANSWER_ID,
            "object": "response",
            "status": "in_progress",
            "model": ANSWERED_BY,
            "output": [],
            "error": None,
            "usage": None,
        }
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, part in enumerate(said):
            yield from self._item(index, part, ended=end is not None or index + 1 < len(said))
        if end is not None:
            kind = "response.completed" if self.words[end] == "completed" else "response.incomplete"
            yield {"type": kind, "response": self.body(*said, end=end)}

    def _item(self, index: int, part: Said, *, ended: bool) -> Iterator[Json]:
        item, begun = _items(index, part)
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        match part:
            case Text():
                kind, of, rest = (
                    "response.output_text",
                    {"content_index": 0},
                    {"logprobs": [], "obfuscation": "x" * 9},
                )
                empty = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
                yield {"type": "response.content_part.added", **place, **of, "part": empty}
            case Reasoning():
                kind, of, rest = (
                    "response.reasoning_summary_text",
                    {"summary_index": 0},
                    {"obfuscation": "x" * 9},
                )
                yield {
                    "type": "response.reasoning_summary_part.added",
                    **place,
                    **of,
                    "part": {"type": "summary_text", "text": ""},
                }
            case Call():
                kind, of, rest = "response.function_call_arguments", {}, {"obfuscation": "x" * 9}
        for piece in part.pieces:
            yield {"type": f"{kind}.delta", **place, **of, "delta": piece, **rest}
        if not ended:
            return
        whole = "".join(part.pieces)
        match part:
            case Text():
                yield {
                    "type": "response.output_text.done",
                    **place,
                    **of,
                    "text": whole,
                    "logprobs": [],
                }
                yield {
                    "type": "response.content_part.done",
                    **place,
                    **of,
                    "part": item["content"][0],
                }
            case Reasoning():
                yield {"type": "response.reasoning_summary_text.done", **place, **of, "text": whole}
                yield {
                    "type": "response.reasoning_summary_part.done",
                    **place,
                    **of,
                    "part": item["summary"][0],
                }
            case Call():
                yield {"type": "response.function_call_arguments.done", **place, "arguments": whole}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def body(self, *said: Said, end: StopReason = StopReason.COMPLETE) -> Json:
        word = self.words[end]
        complete = word == "completed"
        return {
            "id": ANSWER_ID,
            "object": "response",
            "status": "completed" if complete else "incomplete",
            "incomplete_details": None if complete else {"reason": word},
            "error": None,
            "model": ANSWERED_BY,
            "output": [_items(index, part)[0] for index, part in enumerate(said)],
            "usage": USAGE,
        }

    def error(self, status: int, message: str) -> Json:
        code = {
            401: "invalid_api_key",
            404: "model_not_found",
            429: "rate_limit_exceeded",
            529: "server_is_overloaded",
        }.get(status)
        kind = "server_error" if status >= 500 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def broken_off(self, message: str) -> bytes:
        return sse(
            {
                "type": "error",
                "code": "server_is_overloaded",
                "message": message,
                "param": None,
                "sequence_number": 9,
            }
        )

    def history(self, body: Json) -> list[Json]:
        return body["input"]

    def count(self, tokens: int) -> Json | None:
        return {"object": "response.input_tokens", "input_tokens": tokens}


def _items(index: int, part: Said) -> tuple[Json, Json]:
    """In the end, and in the beginning."""
    whole = "".join(part.pieces)
    match part:
        case Text():
            item = {
                "type": "message",
                "id": f"msg_{index}",
                "role": "assistant",
                "phase": "final_answer",
            }
            content = {"type": "output_text", "annotations": [], "logprobs": [], "text": whole}
            return {**item, "status": "completed", "content": [content]}, {
                **item,
                "status": "in_progress",
                "content": [],
            }
        case Reasoning():
            item = {
                "type": "reasoning",
                "id": f"rs_{index}",
                "summary": [],
                "encrypted_content": "half",
            }
            return {
                **item,
                "summary": [{"type": "summary_text", "text": whole}],
                "encrypted_content": "enc==",
            }, item
        case Call():
            item = {
                "type": "function_call",
                "id": f"fc_{index}",
                "call_id": part.id,
                "name": part.name,
                "arguments": "",
            }
            return {**item, "status": "completed", "arguments": whole}, {
                **item,
                "status": "in_progress",
            }
