"""Chat Completions, as vLLM speaks it."""

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
from treadle.models.providers.openai_chat import ChatModel, connect
from treadle.models.providers.openai_chat.servers import server_at
from treadle.types import StopReason

USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 7,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


class ChatSpeech:
    wire = "openai-chat"
    target = "/v1/chat/completions"
    headers: ClassVar[Mapping[str, str]] = {
        "authorization": f"Bearer {KEY}",
        "content-type": "application/json",
    }
    words: ClassVar[Mapping[StopReason, str]] = {
        StopReason.COMPLETE: "stop",
        StopReason.TOOL_USE: "tool_calls",
        StopReason.MAX_TOKENS: "length",
        StopReason.REFUSAL: "content_filter",
        StopReason.CONTEXT_OVERFLOW: "model_length",
    }
    ping = b": OPENROUTER PROCESSING\n\n"
    arguments_in_pieces = True

    @staticmethod
    def data(event: Json) -> bytes:
        return sse(event, named=False)

    def connection(self, url: str, *, timeout_s: float) -> Connection:
        return connect(api_key=KEY, base_url=f"{url}/v1", timeout_s=timeout_s)

    def model(self, connection: Connection, **options: Any) -> ChatModel:
        return ChatModel(
            MODEL, connection=connection, server=server_at("http://127.0.0.1", "vllm"), **options
        )

    def frames(self, *said: Said, end: StopReason | None = StopReason.COMPLETE) -> Sequence[bytes]:
        frames = [self.data(chunk) for chunk in self._chunks(said, end)]
        return frames if end is None else [*frames, b"data: [DONE]\n\n"]

    def _chunks(self, said: Sequence[Said], end: StopReason | None) -> Iterator[Json]:
        yield chunk({"role": "assistant", "content": ""})
        calls = 0
        for part in said:
            if isinstance(part, Call):
                yield chunk(
                    {
                        "tool_calls": [
                            {
                                "index": calls,
                                "id": part.id,
                                "type": "function",
                                "function": {"name": part.name, "arguments": ""},
                            }
                        ]
                    }
                )
            for piece in part.pieces:
                yield chunk(_delta(part, piece, calls))
            calls += isinstance(part, Call)
        if end is not None:
            yield chunk({}, finish=self.words[end])
            yield {**chunk({}), "choices": [], "usage": USAGE}

    def body(self, *said: Said, end: StopReason = StopReason.COMPLETE) -> Json:
        message: Json = {"role": "assistant", "content": None}
        for part in said:
            whole = "".join(part.pieces)
            match part:
                case Text():
                    message["content"] = whole
                case Reasoning():
                    message["reasoning"] = whole
                case Call():
                    function = {"name": part.name, "arguments": whole}
                    message.setdefault("tool_calls", []).append(
                        {"id": part.id, "type": "function", "function": function}
                    )
        choice = {"index": 0, "message": message, "finish_reason": self.words[end]}
        return {
            "id": ANSWER_ID,
            "model": ANSWERED_BY,
            "object": "chat.completion",
            "choices": [choice],
            "usage": USAGE,
        }

    def error(self, status: int, message: str) -> Json:
        kind = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
        return {"error": {"message": message, "type": "some_error", "param": None, "code": kind}}

    def broken_off(self, message: str) -> bytes:
        return self.data({"error": {"message": message, "code": 529}})

    def history(self, body: Json) -> list[Json]:
        return body["messages"]

    def count(self, tokens: int) -> Json | None:
        return {"count": tokens, "max_model_len": 4096, "tokens": [1] * tokens}


def chunk(delta: Json, *, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": ANSWER_ID,
        "object": "chat.completion.chunk",
        "model": ANSWERED_BY,
        "choices": [choice],
        "usage": None,
    }


def _delta(part: Said, piece: str, index: int) -> Json:
    match part:
        case Text():
            return {"content": piece}
        case Reasoning():
            return {"reasoning": piece}
        case Call():
            return {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
