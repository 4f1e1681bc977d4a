"""Responses of HTTP/1.1, whole, in pieces, cut and malformed, against h11 as an independent parser."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, cast

import anyio
import anyio.abc
import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.providers.loopback import listening
from treadle.errors import AgentError
from treadle.models.providers.http import HttpConnection
from treadle.models.providers.http_dialing import connect
from treadle.models.providers.http_protocol import (
    BUFFERED_BYTES,
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    HttpProtocol,
    NotHttp,
)

HEAD = b"HTTP/1.1 200 OK\r\n"
OK = HEAD + b"content-length: 2\r\n\r\nok"


class Wire:
    """Transport that nothing is connected to: a test feeds the protocol itself."""

    def __init__(self) -> None:
        self.is_reading = True
        self.is_aborted = False

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


class Read(NamedTuple):
    status: int
    body: bytes
    is_whole: bool
    keeps_alive: bool


async def fed(pieces: Sequence[bytes], *, closes: bool = False) -> Read:
    """What the protocol makes of the pieces."""
    protocol = HttpProtocol(asyncio.get_running_loop())
    protocol.connection_made(cast("asyncio.Transport", Wire()))
    for piece in pieces:
        protocol.data_received(piece)
    if closes:
        protocol.connection_lost(None)
    body = b""
    while piece := protocol.take():
        body += piece
    return Read(protocol.status, body, protocol.ended, protocol.keeps_alive)


def by_h11(data: bytes, *, closes: bool) -> Read:
    """The same by another parser. A response that it refuses has status 0."""
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=10_000_000)
    parser.send(
        h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")])
    )
    parser.send(h11.EndOfMessage())
    status, body, is_whole = 0, b"", False
    try:
        parser.receive_data(data)
        if closes:
            parser.receive_data(b"")
        while True:
            event = parser.next_event()
            match event:
                case h11.Response():
                    status = event.status_code
                case h11.Data():
                    body += bytes(event.data)
                case h11.EndOfMessage():
                    is_whole = True
                    break
                case h11.InformationalResponse():
                    pass
                case _:
                    break
    except h11.RemoteProtocolError:
        pass
    return Read(status, body, is_whole, parser.their_state is h11.DONE)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a != b]


NAMES = st.sampled_from(["server", "x-request-id", "date", "Retry-After", "via", "x"])
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
BODIES = st.binary(max_size=300)
CHUNKS = st.lists(st.binary(min_size=1, max_size=60), max_size=5)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A valid response, and whether its end is that of the connection."""
    out = b""
    for _ in range(draw(st.integers(0, 2))):
        out += draw(
            st.sampled_from(
                [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"]
            )
        )
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 429, 503]))
    out += b"HTTP/1.1 %d %s\r\n" % (status, draw(st.sampled_from([b"", b"OK", b"Not so good"])))
    for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=4)):
        out += f"{name}: {value}\r\n".encode()
    if draw(st.booleans()):
        out += b"connection: close\r\n"
    if status in (204, 304):
        return out + b"\r\n", False
    match draw(st.sampled_from(["length", "chunked", "close"])):
        case "length":
            body = draw(BODIES)
            return out + b"Content-Length: %d\r\n\r\n" % len(body) + body, False
        case "chunked":
            out += b"transfer-encoding: chunked\r\n\r\n"
            extension = draw(st.sampled_from([b"", b";a=b", b';name="quoted"']))
            for chunk in draw(CHUNKS):
                out += b"%x%s\r\n" % (len(chunk), extension) + chunk + b"\r\n"
            trailer = draw(st.sampled_from([b"", b"x-checksum: abc\r\n"]))
            return out + b"0\r\n" + trailer + b"\r\n", False
        case _:
            return out + b"\r\n" + draw(BODIES), True


@settings(deadline=None)
@given(response=responses(), places=st.lists(st.integers(0, 2000), max_size=12))
def test_a_response_is_the_same_however_it_is_cut_and_by_another_parser(
    response: tuple[bytes, bool], places: list[int]
) -> None:
    data, closes = response
    read = asyncio.run(fed(cut(data, places), closes=closes))
    other = by_h11(data, closes=closes)
    assert read[:3] == other[:3]
    assert read.is_whole
    assert read.keeps_alive <= other.keeps_alive


@settings(deadline=None)
@given(response=responses(), end=st.integers(0, 2000))
def test_a_response_that_breaks_off_is_never_whole_unless_its_end_is_that_of_the_connection(
    response: tuple[bytes, bool], end: int
) -> None:
    data, _closes = response
    begun = data[: end % len(data)]
    read, other = asyncio.run(fed([begun], closes=True)), by_h11(begun, closes=True)
    assert (read.is_whole, read.body if read.is_whole else b"") == (
        other.is_whole,
        other.body if other.is_whole else b"",
    )


@settings(deadline=None)
@given(
    data=st.binary(max_size=400)
    | st.lists(
        st.sampled_from(
            [
                HEAD,
                b"\r\n",
                b"content-length: 3\r\n",
                b"transfer-encoding: chunked\r\n",
                b"5\r\n",
                b"abc",
                b"0\r\n\r\n",
                b": ",
                b"\n",
                OK,
            ]
        ),
        max_size=8,
    ).map(b"".join),
    places=st.lists(st.integers(0, 400), max_size=4),
)
def test_bytes_without_meaning_never_make_a_whole_response_that_the_other_parser_refuses(
    data: bytes, places: list[int]
) -> None:
    read = asyncio.run(fed(cut(data, places), closes=True))
    if read.is_whole:
        # llhttp passes over empty lines before a response, as RFC 9112 2.2 allows
        assert read[:3] == by_h11(data.lstrip(b"\r\n"), closes=True)[:3]


async def test_headers_without_an_end_are_refused() -> None:
    for data in (b"x" * 100, b"x: " + b"y" * 1000 + b"\r\n", b"a: b\r\n"):
        protocol = HttpProtocol(asyncio.get_running_loop())
        protocol.connection_made(cast("asyncio.Transport", Wire()))
        protocol.data_received(HEAD)
        for _ in range(HEADERS_BYTES_MAX // len(data) + 2):
            if not protocol.is_usable:
                break
            protocol.data_received(data)
        assert isinstance(protocol.error, NotHttp)


async def test_reading_pauses_while_much_waits_to_be_read() -> None:
    protocol, wire = HttpProtocol(asyncio.get_running_loop()), Wire()
    protocol.connection_made(cast("asyncio.Transport", wire))
    protocol.data_received(HEAD + b"content-length: %d\r\n\r\n" % (2 * BUFFERED_BYTES))
    protocol.data_received(b"x" * BUFFERED_BYTES)
    assert wire.is_reading
    protocol.data_received(b"x")
    assert not wire.is_reading
    assert len(await protocol.read()) == BUFFERED_BYTES + 1
    assert wire.is_reading


@pytest.mark.parametrize("surplus", [b"x", OK, b"\x00", b"HTTP/1.1 200"])
async def test_a_connection_that_carries_more_than_the_response_is_not_kept(surplus: bytes) -> None:
    for pieces in ([OK + surplus], [OK, surplus]):
        read = await fed(pieces)
        assert read[:3] == (200, b"ok", True)
        assert not read.keeps_alive


async def test_bytes_on_a_kept_connection_close_it() -> None:
    protocol, wire = HttpProtocol(asyncio.get_running_loop()), Wire()
    protocol.connection_made(cast("asyncio.Transport", wire))
    protocol.data_received(OK)
    assert protocol.is_usable
    protocol.data_received(OK)
    assert not protocol.is_usable


Serve = Callable[[anyio.abc.ByteStream], Awaitable[None]]


async def head_of(stream: anyio.abc.ByteStream) -> bytes:
    """Read a request up to the end of its headers."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    return data


async def test_a_response_that_comes_before_the_whole_request_is_read() -> None:
    async def refuse(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await head_of(stream)
            await stream.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
            with anyio.move_on_after(5):
                await anyio.sleep_forever()

    async with listening(refuse) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {})
        with anyio.fail_after(20):
            async with connection.post("/", b"x" * 50_000_000, {}) as reply:
                assert (reply.status, await reply.read()) == (413, b"big")
            await connection.aclose()


async def test_a_connection_whose_request_was_not_sent_whole_is_not_kept() -> None:
    """The rest of the request would be read as the beginning of the next one."""

    async def refuse(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await head_of(stream)
            await stream.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\n")
            await seen.wait()
            await stream.send(b"big")
            await over.wait()  # closing it would make the client try another connection

    seen, over = anyio.Event(), anyio.Event()
    async with listening(refuse) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {})
        try:
            with anyio.fail_after(20):
                for _ in range(2):
                    async with connection.post("/", b"x" * 50_000_000, {}) as reply:
                        seen.set()
                        assert (reply.status, await reply.read()) == (413, b"big")
                await connection.aclose()
        finally:
            over.set()


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\n\r\n",
        HEAD + b"".join(b"x-%d: 1\r\n" % n for n in range(HEADERS_MAX + 1)) + b"\r\n",
    ],
    ids=["another protocol", "no status", "too many headers"],
)
async def test_a_head_that_is_no_response_is_refused(head: bytes) -> None:
    protocol = HttpProtocol(asyncio.get_running_loop())
    protocol.connection_made(cast("asyncio.Transport", Wire()))
    protocol.data_received(head)
    with anyio.fail_after(20), pytest.raises(NotHttp):
        await protocol.respond()


@pytest.mark.parametrize(
    "after",
    [
        b"",
        HEAD,
        HEAD + b"content-length: 9\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nab",
    ],
)
async def test_cancelling_at_any_moment_leaves_no_descriptor(after: bytes) -> None:
    async def hang(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await head_of(stream)
            if after:
                await stream.send(after)
            reached.set()
            await anyio.sleep_forever()

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    reached = anyio.Event()
    async with listening(hang) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {})

        async def ask() -> None:
            async with connection.post("/", b"{}", {}) as reply:
                while await reply.read():
                    pass

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            with anyio.fail_after(20):
                await reached.wait()
            open_then = descriptors()
            group.cancel_scope.cancel()
        await connection.aclose()
        assert descriptors() < open_then


async def test_closing_ends_an_exchange_that_waits_for_its_response() -> None:
    async def hang(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await head_of(stream)
            await stream.send(HEAD + b"content-length: 9\r\n\r\nbegun")
            reached.set()
            await anyio.sleep_forever()

    async def ask() -> None:
        async with connection.post("/", b"{}", {}) as reply:
            while await reply.read():
                pass

    async def fail() -> None:
        with pytest.raises(AgentError, match="was lost during the response"):
            await ask()

    reached = anyio.Event()
    async with listening(hang) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {})
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(fail)
                await reached.wait()
                await connection.aclose()


class OtherLoop:
    """An event loop with the signature of uvloop's, which lacks happy eyeballs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def create_future(self) -> asyncio.Future[None]:
        return self._loop.create_future()

    async def create_connection(
        self,
        factory: Callable[[], HttpProtocol],
        host: str,
        port: int,
        *,
        ssl: None,
        server_hostname: None,
    ) -> tuple[asyncio.Transport, HttpProtocol]:
        return await self._loop.create_connection(
            factory, host, port, ssl=ssl, server_hostname=server_hostname
        )


async def test_a_connection_opens_on_an_event_loop_without_happy_eyeballs() -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await head_of(stream)
            await stream.send(OK)

    async with listening(answer) as port:
        loop = cast("asyncio.AbstractEventLoop", OtherLoop())
        with anyio.fail_after(20):
            protocol = await connect(loop, "127.0.0.1", port, None)
            await protocol.send(b"GET / HTTP/1.1\r\n\r\n", b"")
            await protocol.respond()
            assert await protocol.read() == b"ok"
            protocol.abort()
            await protocol.wait_closed()


async def test_a_half_closed_connection_ends_a_response_without_a_length() -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            await head_of(stream)
            await stream.send(HEAD + b"\r\nall of it")
            await cast("anyio.abc.SocketStream", stream).send_eof()
            with anyio.move_on_after(5):
                await stream.receive()

    async with listening(answer) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {})
        with anyio.fail_after(20):
            async with connection.get("/", {}) as reply:
                assert await reply.read() == b"all of it"
                assert await reply.read() == b""
            await connection.aclose()


async def test_a_connection_that_is_reset_before_the_answer_is_a_network_error() -> None:
    async def reset(stream: anyio.abc.ByteStream) -> None:
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        await stream.receive()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await stream.aclose()

    async with listening(reset) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {})
        with (
            anyio.fail_after(20),
            pytest.raises(AgentError, match="closed the connection before it answered"),
        ):
            async with connection.post("/", b"{}", {}):
                pass
        await connection.aclose()


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b"])
async def test_a_header_with_a_line_break_is_never_sent(value: str) -> None:
    async def answer(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            seen.append(await stream.receive())

    seen: list[bytes] = []
    async with listening(answer) as port:
        connection = HttpConnection(f"http://127.0.0.1:{port}", {"x-own": value})
        with pytest.raises(AgentError, match="line break"):
            async with connection.post("/", b"{}", {}):
                pass
        await connection.aclose()
    assert seen == []
