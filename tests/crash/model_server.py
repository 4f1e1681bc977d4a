"""A model on loopback that speaks Anthropic's wire, answers by the history alone, and tells the
witness what it was told. Entry: `ModelServer`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.crash.stories import THE_END, World
from treadle.types import new_id

Call = Mapping[str, Any]
"""`name` and `arguments`."""


class ModelServer:
    """A context."""

    def __init__(self, turns: Sequence[Sequence[Call]], world: World) -> None:
        self._turns, self._world = turns, world
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = b"".join(server.answer(body["messages"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self._server.server_port}",
            "ANTHROPIC_API_KEY": "sk-ant-none",
        }

    def answer(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
        self._world.saw("asked")
        for block in [
            b
            for m in messages
            if m["role"] == "user" and not isinstance(m["content"], str)
            for b in m["content"]
        ]:
            if block["type"] == "tool_result":
                content = block.get("content", "")
                text = (
                    content
                    if isinstance(content, str)
                    else "".join(part.get("text", "") for part in content)
                )
                self._world.saw(
                    "told",
                    json.dumps(
                        {
                            "call": block["tool_use_id"],
                            "is_error": block.get("is_error", False),
                            "content": text,
                        }
                    ),
                )
        turn = sum(message["role"] == "assistant" for message in messages)
        calls = self._turns[turn] if turn < len(self._turns) else ()
        yield _event(
            "message_start",
            message={
                "id": new_id("msg"),
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "usage": _USED,
            },
        )
        for index, call in enumerate(calls):
            yield _event(
                "content_block_start",
                index=index,
                content_block={
                    "type": "tool_use",
                    "id": new_id("toolu"),
                    "name": call["name"],
                    "input": {},
                },
            )
            arguments = {"type": "input_json_delta", "partial_json": json.dumps(call["arguments"])}
            yield _event("content_block_delta", index=index, delta=arguments)
            yield _event("content_block_stop", index=index)
        if not calls:
            yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
            yield _event(
                "content_block_delta", index=0, delta={"type": "text_delta", "text": THE_END}
            )
            yield _event("content_block_stop", index=0)
        yield _event(
            "message_delta",
            delta={"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None},
            usage=_USED,
        )
        yield _event("message_stop")


_USED = {"input_tokens": 1, "output_tokens": 1}


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
