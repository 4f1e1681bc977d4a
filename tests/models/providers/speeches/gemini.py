"""Google's generateContent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

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
from treadle.models.providers.gemini import GeminiModel, connect
from treadle.types import StopReason

COUNTS = {
    "promptTokenCount": 5,
    "cachedContentTokenCount": 2,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 4,
    "totalTokenCount": 12,
}
STATUSES = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiSpeech:
    wire = "gemini"
    target = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
    headers: ClassVar[Mapping[str, str]] = {
        "x-goog-api-key": KEY,
        "content-type": "application/json",
    }
    words: ClassVar[Mapping[StopReason, str]] = {
        StopReason.COMPLETE: "STOP",
        StopReason.TOOL_USE: "STOP",
        StopReason.MAX_TOKENS: "MAX_TOKENS",
        StopReason.REFUSAL: "PROHIBITED_CONTENT",
        StopReason.PAUSE: "TOO_MANY_TOOL_CALLS",
    }
    ping = b": still there\n\n"
    arguments_in_pieces = False

    def connection(self, url: str, *, timeout_s: float) -> Connection:
        return connect(api_key=KEY, base_url=url, timeout_s=timeout_s)

    def model(self, connection: Connection, **options: Any) -> GeminiModel:
        return GeminiModel(MODEL, connection=connection, **options)

    def frames(self, *said: Said, end: StopReason | None = StopReason.COMPLETE) -> Sequence[bytes]:
        return [sse(chunk) for chunk in self._chunks(said, end)]

    def _chunks(self, said: Sequence[Said], end: StopReason | None) -> Iterator[Json]:
        calls = 0
        for part in said:
            for piece in (
                [part.pieces] if isinstance(part, Call) else [[piece] for piece in part.pieces]
            ):
                yield _chunk(
                    [_part(part, "".join(piece), first=not calls)],
                    usageMetadata={"trafficType": "ON_DEMAND"},
                )
            calls += isinstance(part, Call)
        if end is not None:
            yield _chunk([{"text": ""}], self.words[end], usageMetadata=COUNTS)

    def body(self, *said: Said, end: StopReason = StopReason.COMPLETE) -> Json:
        first = next((part for part in said if isinstance(part, Call)), None)
        return _chunk(
            [_part(part, "".join(part.pieces), first=part is first) for part in said],
            self.words[end],
            usageMetadata=COUNTS,
        )

    def error(self, status: int, message: str) -> Json:
        return {
            "error": {
                "code": status,
                "message": message,
                "status": STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"),
            }
        }

    def broken_off(self, message: str) -> bytes:
        return sse(self.error(503, message))

    def history(self, body: Json) -> list[Json]:
        return body["contents"]

    def count(self, tokens: int) -> Json | None:
        return {
            "totalTokens": tokens,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
        }


def sse(chunk: Json) -> bytes:
    return f"data: {json.dumps(chunk)}\r\n\r\n".encode()


def _chunk(parts: Sequence[Json], finish: str | None = None, **around: object) -> Json:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0} | (
        {"finishReason": finish} if finish else {}
    )
    return {
        "candidates": [candidate],
        "modelVersion": ANSWERED_BY,
        "responseId": ANSWER_ID,
        **around,
    }


def _part(part: Said, whole: str, *, first: bool) -> Json:
    """Thoughts are not signed, but the first call of an answer is."""
    match part:
        case Text():
            return {"text": whole}
        case Reasoning():
            return {"text": whole, "thought": True}
        case Call():
            call = {
                "name": part.name,
                "args": json.loads(whole or "{}"),
                **({"id": part.id} if part.id else {}),
            }
            return {"functionCall": call, **({"thoughtSignature": "c2lnbmF0dXJl"} if first else {})}
