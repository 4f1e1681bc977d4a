"""A provider on loopback whose every answer a test gives piece by piece, when it likes: nothing
depends on how fast anything is. Entry: `Provider`.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from tests.tui.terminal.terminal import DEADLINE_S

MODEL: Final = "local:m"


class Turn:
    """One request, as long as it is being answered. Nothing is said until the test says it."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self._chunks: queue.Queue[bytes | None] = queue.Queue()
        self.status = threading.Event()
        self.error: tuple[int, bytes] | None = None
        self._calls = 0

    @property
    def heard(self) -> str:
        """All that the model was told, as JSON."""
        return json.dumps(self.request["messages"], ensure_ascii=False)

    @property
    def last(self) -> str:
        """The message that it was told last."""
        content = self.request["messages"][-1]["content"]
        return (
            content
            if isinstance(content, str)
            else "".join(part.get("text", "") for part in content)
        )

    def says(self, text: str) -> Self:
        return self._delta(content=text)

    def thinks(self, text: str) -> Self:
        return self._delta(reasoning_content=text)

    def calls(self, name: str, call_id: str = "", /, **arguments: Any) -> Self:
        self._calls += 1
        function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
        return self._delta(
            tool_calls=[
                {
                    "index": self._calls - 1,
                    "id": call_id or f"call_{id(self)}_{self._calls}",
                    "type": "function",
                    "function": function,
                }
            ]
        )

    def ends(self) -> None:
        self._delta(finish="tool_calls" if self._calls else "stop")
        self._event(
            {
                "choices": [],
                "usage": {"prompt_tokens": 1_200, "completion_tokens": 34, "total_tokens": 1_234},
            }
        )
        self._chunks.put(b"data: [DONE]\n\n")
        self._chunks.put(None)

    def fails(self, status: int, message: str) -> None:
        """In the place of an answer."""
        self.error = (
            status,
            json.dumps({"error": {"message": message, "type": "test", "code": status}}).encode(),
        )
        self.status.set()

    def _delta(self, *, finish: str | None = None, **delta: object) -> Self:
        return self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _event(self, event: dict[str, object]) -> Self:
        self._chunks.put(
            f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'model': 'm', **event})}\n\n".encode()
        )
        self.status.set()
        return self

    def chunks(self) -> Iterator[bytes]:
        while (chunk := self._chunks.get()) is not None:
            yield chunk

    def left(self) -> None:
        """Nothing more will be said."""
        self._chunks.put(None)
        self.status.set()


class Provider:
    """A context. It speaks the wire of OpenAI's chat completions."""

    def __init__(self) -> None:
        self._turns: queue.Queue[Turn] = queue.Queue()
        self._all: list[Turn] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_error(404)

            def do_POST(self) -> None:
                turn = Turn(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                provider._all.append(turn)
                provider._turns.put(turn)
                turn.status.wait()
                status, body = turn.error or (200, b"")
                with suppress(OSError):  # the client has gone
                    self.send_response(status)
                    self.send_header(
                        "content-type", "application/json" if turn.error else "text/event-stream"
                    )
                    self.end_headers()
                    self.wfile.write(body)
                    for chunk in turn.chunks() if turn.error is None else ():
                        self.wfile.write(chunk)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for turn in self._all:
            turn.left()
        self._server.shutdown()
        self._server.server_close()

    @property
    def config(self) -> str:
        """For a config.yaml."""
        url = f"http://127.0.0.1:{self._server.server_port}/v1"
        return f"providers:\n  local: {{type: openai-chat, base_url: '{url}'}}\nmodels: {{large: '{MODEL}'}}\n"

    def asked(self) -> Turn:
        """Waits for the next request."""
        try:
            return self._turns.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError("the model was never asked") from None

    @property
    def is_idle(self) -> bool:
        """Nobody has asked what no test has taken."""
        return self._turns.empty()

    def answers(self, text: str) -> Turn:
        """The next request, with that."""
        turn = self.asked()
        turn.says(text).ends()
        return turn

    def wants(self, name: str, /, **arguments: Any) -> Turn:
        """The next request, with one call."""
        turn = self.asked()
        turn.calls(name, **arguments).ends()
        return turn
