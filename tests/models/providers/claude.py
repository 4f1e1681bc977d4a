"""Claude's events one by one, for tests that take an answer apart."""

from __future__ import annotations

USAGE = {"input_tokens": 3, "output_tokens": 1}
START = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "claude-test-1", "content": [], "usage": USAGE},
}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STOP_0 = {"type": "content_block_stop", "index": 0}
STOP = {"type": "message_stop"}


def text(piece: str) -> dict[str, object]:
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": piece},
    }


def ending(reason: str, **delta: object) -> dict[str, object]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, **delta},
        "usage": {"output_tokens": 7},
    }


WHOLE = (START, TEXT, text("Good "), text("day"), STOP_0, ending("end_turn"), STOP)
