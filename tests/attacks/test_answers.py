"""Answers of hostile servers that have no end, in any part of HTTP: whoever asks, a model or `fetch`,
stops reading (C5). Streams that MCP servers close are not reopened at their pace (B10).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import anyio
import pytest

from tests.attacks import SEEDS, chance
from tests.models.providers.conftest import ModelOn, own
from tests.models.providers.speech import HELLO
from treadle.errors import AgentError
from treadle.models.model import fold_stream
from treadle.models.providers import exchange
from treadle.tools.builtin import web
from treadle.tools.mcp.http import AGAIN_MOST_S, CALM_S, Pace
from treadle.tools.tool import ToolFailed

__all__ = ["own"]

SENT_MOST = 24 << 20
"""What a server sends before it counts as endless: far more than any buffer holds."""
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: 9999999999\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\n\r\n"


def in_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(random: Random) -> tuple[bytes, bytes]:
    """The beginning of an answer, and what is repeated after it for ever."""
    filling = (
        random.choice([b"x", b"\xff", b" ", b"\t", b";", b"0", b"%", b"\xf0\x9f\x98\x80"]) * 9_000
    )
    kind = random.choice([b"text/event-stream", b"application/json", b"text/html", b""])
    ok = b"HTTP/1.1 200 OK\r\n"
    events = [
        b": comment\n\n",
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b"data:\n\n",
        b"data: {}\n\n",
        b"id: 1\nretry: 0\n\n",
        b"data: " + filling,
        b"\n" * 9_000,
        b"[" * 9_000,
        b'{"a":' * 2_000,
        b'"' + filling,
    ]
    event = random.choice(events)
    packed = zlib.compressobj(wbits=31)
    zeros = packed.compress(b"\0" * (8 << 20)) + packed.flush(zlib.Z_SYNC_FLUSH)
    gzip = b"content-encoding: gzip\r\n\r\n"
    return random.choice(
        [
            (b"HTTP/1.1 200 ", filling),
            (ok, b"x%d: y\r\n" % random.randint(1, 9)),
            (ok + b"x: ", filling),
            (ok, filling),
            (b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            (CHUNKED, b"0" * 9_000),
            (CHUNKED + b"1;", filling),
            (CHUNKED, b"1;" + b"e" * 50 + b"\r\nx\r\n"),
            (CHUNKED + b"0\r\n", b"a: b\r\n"),
            (CHUNKED + b"0\r\na: ", filling),
            (CHUNKED + in_chunk(b"x" * random.randint(1, 99)) + b"0\r\n", filling),
            (CHUNKED, in_chunk(event)),
            (CHUNKED, in_chunk(b"\n")),
            (PLAIN % kind, event),
            (CLOSING % kind, event),
            (ok + gzip, zeros),
            (ok + b"transfer-encoding: chunked\r\n" + gzip, in_chunk(zeros)),
            (b"HTTP/1.1 500 No\r\n\r\n", filling),
            (b"HTTP/1.1 302 No\r\nlocation: /x\r\n\r\n", filling),
            (b"HTTP/1.1 204 No\r\n\r\n", filling),
            (b"", filling),
        ]
    )


@asynccontextmanager
async def serving(begin: bytes, more: bytes) -> AsyncIterator[tuple[int, list[int]]]:
    """A port, and the sizes of all answers so far."""
    sizes = list[int]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(sizes)
        sizes.append(0)
        piece = more * max(50_000 // len(more), 1)
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(begin)
            while sizes[number] < SENT_MOST:
                writer.write(piece)
                await writer.drain()
                sizes[number] += len(piece)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], sizes
    finally:
        server.close()


async def fetched(port: int) -> None:
    async def resolve(host: str, _: int) -> list[str]:
        return ["93.184.216.34"]

    url = web.parse_url("http://evil.example/")
    await web.get(url, resolve=resolve, route=lambda *_: ("127.0.0.1", port))


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_answer_without_end_is_left_wherever_it_goes_on(
    own: ModelOn, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for name in ("RESPONSE_BYTES_MAX", "BODY_BYTES_MAX"):
        monkeypatch.setattr(exchange, name, 1 << 20)
    monkeypatch.setattr(web, "MAX_BYTES", 1 << 20)
    random = chance(seed, "answers")

    async def asked(port: int) -> None:
        await fold_stream(own(f"http://127.0.0.1:{port}").stream(HELLO))

    for _ in range(4):
        begin, more = answer(random)
        for ask in (asked, fetched):
            await _left(ask, begin, more)


async def _left(ask: Callable[[int], Awaitable[None]], begin: bytes, more: bytes) -> None:
    async with serving(begin, more) as (port, sizes):
        with anyio.fail_after(30), suppress(AgentError, ToolFailed):
            await ask(port)
        assert max(sizes) < SENT_MOST, (begin, more[:50], ask)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_of_closing_streams_sets_the_pace_of_requests(seed: int) -> None:
    random, pace, now, requests = chance(seed, "streams"), Pace(), 0.0, list[float]()
    longest = random.choice([0.0, 0.1, 4.0, 61.0])
    for _ in range(400):
        now += random.uniform(0, longest)
        now += pace.wait_s(now)
        requests.append(now)
    for begin in requests:
        within = sum(begin <= at < begin + CALM_S for at in requests)
        assert within <= CALM_S / AGAIN_MOST_S + 6
