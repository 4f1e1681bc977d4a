"""Hostile HTTP clients: requests that are nearly right, wrong in the middle, or without end. Entry:
`hostile`.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from tests.attacks.names import hostile as hostile_name

PATHS: Final = (
    "/auth/login",
    "/auth/register",
    "/auth/refresh",
    "/chat",
    "/conversations/1",
    "/tasks",
    "/tasks/1",
    "/runs",
    "/runs/run_1/events?after=1",
    "/v1/models",
    "/v1/chat/completions",
    "/v1/responses",
    "/mcp",
    "/metrics",
    "/openapi.json",
    "/",
)
METHODS: Final = (
    "GET",
    "POST",
    "PATCH",
    "DELETE",
    "PUT",
    "HEAD",
    "OPTIONS",
    "CONNECT",
    "TRACE",
    "x",
)
ODD: Final = ("\x00", "\r\n", "é", "%00", "%2e%2e/", "..;/", "//evil.example", "\t", "?" * 50, "#")


def _value(chance: Random, depth: int = 4) -> Any:
    if depth and chance.random() < 0.5:
        keys = [chance.choice(("message", "username", "password", "agent", "prompt", "id")), "x"]
        return chance.choice(
            [
                [_value(chance, depth - 1)] * chance.randint(0, 3),
                {key: _value(chance, depth - 1) for key in keys},
            ]
        )
    return chance.choice(
        [None, True, -1, 2**70, 1e308, "", "a" * 2_000, hostile_name(chance, lines=True), "\ud800"]
    )


def _body(chance: Random) -> bytes:
    return chance.choice(
        [
            b"",
            json.dumps(_value(chance)).encode(),
            json.dumps({"username": _value(chance), "password": _value(chance)}).encode(),
            b"[" * 20_000,
            b'{"a":' * 3_000,
            b'{"username": NaN, "password": Infinity}',
            b"\xff\xfe\x00",
            b'{"username": "a", "username": "b", "password": "' + b"p" * 200 + b'"}',
            b"1" * 5_000,
        ]
    )


def _headers(chance: Random, body: bytes) -> list[str]:
    found = [
        f"Host: {chance.choice(['localhost', 'localhost', 'evil.example', '', '[::1]', 'a' * 300])}"
    ]
    odd = [
        "Content-Type: application/json",
        "Content-Type: multipart/form-data; boundary=",
        "Authorization: Bearer " + "a." * chance.randint(0, 40),
        "Authorization: Basic YTpi",
        "Origin: null",
        "Origin: http://evil.example",
        "Cookie: treadle_refresh=x; treadle_refresh=y; " + "c=d; " * chance.randint(0, 200),
        "X-Forwarded-For: 1.2.3.4, " * chance.randint(1, 20) + "::1",
        "Accept: text/event-stream",
        f"Last-Event-ID: {chance.choice(['-1', '9' * 40, '1.1.1', 'é'])}",
        "Mcp-Session-Id: " + "f" * chance.randint(0, 300),
        "Upgrade: websocket\r\nConnection: upgrade",
        "Expect: 100-continue",
        "X" * chance.randint(1, 200) + ": " + "y" * chance.randint(0, 9_000),
        "no colon",
        " folded: x",
    ]
    found += [chance.choice(odd) for _ in range(chance.randint(0, 6))]
    length = chance.choice([str(len(body))] * 5 + ["0", "-1", "1e3", str(len(body) + 1), "9" * 30])
    found += chance.choice(
        [
            [f"Content-Length: {length}"],
            ["Transfer-Encoding: chunked"],
            [f"Content-Length: {length}", "Transfer-Encoding: chunked"],
            [f"Content-Length: {length}", "Content-Length: 3"],
            [],
        ]
    )
    return found


def hostile(chance: Random) -> bytes:
    """Bytes for one connection; the client closes its side after them."""
    body = _body(chance)
    path = chance.choice(PATHS) + (chance.choice(ODD) if chance.random() < 0.2 else "")
    version = chance.choice(["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/2.0", "HTTP/9", ""])
    lines = [f"{chance.choice(METHODS)} {path} {version}", *_headers(chance, body)]
    head = "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n"
    if b"chunked" in head and chance.random() < 0.8:
        size = chance.choice(
            [f"{len(body):x}", "-1", "fffffffff", "0" * 50, f"{len(body):x};{'e' * 500}"]
        )
        body = size.encode() + b"\r\n" + body + b"\r\n0\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n"
    data = head + body
    match chance.randint(0, 5):
        case 0:  # cut off
            return data[: chance.randint(0, len(data))]
        case 1:  # a byte changed
            place = chance.randrange(len(data))
            return data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        case 2:  # one behind the other
            return data * chance.randint(2, 20)
        case _:
            return data
