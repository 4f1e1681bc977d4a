"""A model on loopback for the benchmark of the terminal chat: it answers in Claude's protocol, at
once or at a given rate of tokens.

The last message of the person selects the answer: `stream 600`, `run COMMAND`, or anything else.
Entry point: `chat_server.py RATE`, which prints its port.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SHORT = "Yes, **that** is it: see `config.py`.\n\n- it reads the file\n- it checks each value\n"
LONG = """\
## What it does

The parser reads *one line* at a time, and keeps what it has **not** understood yet: see `parser.py` and [there](https://example.org/parsing).
It never looks back further than a block, so that a long file costs as much for each line as a short one does.

1. a first point, which is long enough to be wrapped somewhere around here on the line, because it goes on
2. a second one
   - with something below it

```python
def parse(line: str) -> list[str]:
    \"\"\"The words of it.\"\"\"
    return [word.strip() for word in line.split(",")]  # empty ones too
```

| name | amount | note |
|:--|--:|---|
| first | 1 | short |
| second | 20000 | a longer cell |

"""
TOKEN = re.compile(r"\s*\S{1,5}|\s+")


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    per_second = 300.0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for data, waits in _events(body["messages"][-1]["content"]):
            if waits:
                time.sleep(max(waits, 0))
            text = f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _events(content: Any) -> Iterator[tuple[dict[str, Any], float]]:
    """Return the events to send, each with the delay before it."""
    said = (
        content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
    )
    usage = {"input_tokens": 1200, "output_tokens": 1}
    yield (
        {
            "type": "message_start",
            "message": {
                "id": "m",
                "type": "message",
                "role": "assistant",
                "content": [],
                "model": "m",
                "usage": usage,
            },
        },
        0,
    )
    if said.startswith("run "):
        yield from _block(
            {"type": "tool_use", "id": f"toolu_{time.monotonic_ns()}", "name": "bash", "input": {}},
            [_json({"command": said[4:]})],
        )
    elif said.startswith("stream "):
        tokens = int(said.split()[1])
        words = TOKEN.findall(LONG * (tokens // 100 + 1))[:tokens]
        yield from _block(
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": word} for word in words],
            paced=True,
        )
    else:
        yield from _block({"type": "text", "text": ""}, [{"type": "text_delta", "text": SHORT}])
    reason = "tool_use" if said.startswith("run ") else "end_turn"
    yield (
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 200},
        },
        0,
    )
    yield {"type": "message_stop"}, 0


def _json(value: object) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": json.dumps(value)}


def _block(
    block: dict[str, Any], deltas: list[dict[str, Any]], *, paced: bool = False
) -> Iterator[tuple[dict[str, Any], float]]:
    """Send a text at the given rate. Sleeps until absolute times, so that one late event does not
    delay all later ones.
    """
    yield {"type": "content_block_start", "index": 0, "content_block": block}, 0
    begun = time.monotonic()
    for n, delta in enumerate(deltas):
        yield (
            {"type": "content_block_delta", "index": 0, "delta": delta},
            begun + n / Answers.per_second - time.monotonic() if paced else 0,
        )
    yield {"type": "content_block_stop", "index": 0}, 0


if __name__ == "__main__":
    Answers.per_second = float(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    print(server.server_address[1], flush=True)
    server.serve_forever()
