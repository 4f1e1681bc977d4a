"""An HTTP/1.1 connection: an `asyncio.Protocol` over llhttp (httptools), for one exchange at a
time.

It parses responses, limits buffering and reports how a connection ended. http_dialing.py connects,
http_exchange.py raises errors for callers. Entry point: `HttpProtocol`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import httptools
from anyio.lowlevel import checkpoint
from typing_extensions import override

HEADERS_BYTES_MAX = 128 * 1024
"""Maximum size of the status line and headers of a response."""
FRAMING_TIMES = 8
"""Allowed bytes of a chunked body's framing (sizes, extensions, trailers) per byte of content, in
addition to the size of the headers. Chunks of one byte need five.
"""
HEADERS_MAX = 500
BUFFERED_BYTES = 256 * 1024
"""Size of unread data in bytes above which reading pauses."""
WITH_HEADERS_BYTES = 16 * 1024
AT_ONCE_BYTES = 1024 * 1024
"""Size in bytes of the pieces in which a large body is written, so that other tasks can run and
asyncio copies at most one piece.
"""


class NotHttp(Exception):
    """Raised if the server's response is not valid HTTP/1.1."""


class ConnectionLost(ConnectionError):
    """Raised if the connection ends before the response is complete."""


class HttpProtocol(asyncio.Protocol):
    """A connection. `begin` and `send` start an exchange; `read` and the attributes provide its
    response.

    Only one task may use it at a time.
    """

    __slots__ = (
        "_content",
        "_informational",
        "_is_cut",
        "_loop",
        "_paused",
        "_pieces",
        "_received",
        "_size",
        "_until_close",
        "_unwritable",
        "_waiter",
        "carried",
        "ended",
        "error",
        "headers",
        "is_closed",
        "keeps_alive",
        "parser",
        "reason",
        "status",
        "transport",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.transport: asyncio.Transport
        self.carried = False
        """True if the connection was kept after an earlier exchange."""
        self.is_closed = False
        self.error: Exception | None = None
        """Reason why the connection can no longer be used."""
        self._waiter: asyncio.Future[None] | None = None
        self._unwritable = False
        self.begin()

    def begin(self) -> None:
        """Prepare for the next response."""
        self.parser = httptools.HttpResponseParser(self)
        self.status = 0
        """Status code, once all headers have arrived."""
        self.reason = ""
        self.headers: dict[str, str] = {}
        """First value of each header, by its name in lower case."""
        self.ended = self.keeps_alive = False
        self._informational = self._until_close = self._paused = self._is_cut = False
        self._pieces: list[bytes] = []
        self._size = self._received = self._content = 0

    # ------------------------------------------------------------ for the exchange

    async def send(self, head: bytes, body: bytes) -> None:
        """Write a request. Returns early if the response begins first. Raises ConnectionLost."""
        if len(body) <= WITH_HEADERS_BYTES:
            self.transport.write(head + body)
        else:
            view = memoryview(body)
            self.transport.write(head + bytes(view[:WITH_HEADERS_BYTES]))
            for begin in range(WITH_HEADERS_BYTES, len(view), AT_ONCE_BYTES):
                await self._writable()
                if self.status:
                    self._is_cut, self.keeps_alive = True, False
                    return
                self.transport.write(view[begin : begin + AT_ONCE_BYTES])
        if self._unwritable:
            await self._writable()

    async def _writable(self) -> None:
        while self._unwritable and not self.status:
            await self._wait()

    async def respond(self) -> None:
        """Wait for the headers of the response. Raises ConnectionLost or NotHttp."""
        while not self.status:
            await self._wait()

    async def read(self) -> bytes:
        """Return the bytes of the body that have arrived; b"" at its end. Raises as `respond`."""
        while not (piece := self.take()) and not self.ended:
            await self._wait()
        return piece

    def take(self) -> bytes:
        """Return the unread bytes of the body, if any."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def is_usable(self) -> bool:
        """True if another request can be sent."""
        return self.error is None and not self.transport.is_closing()

    @property
    def has_received(self) -> bool:
        """True if any byte of the response has arrived."""
        return self._received > 0

    def abort(self) -> None:
        self.transport.abort()

    async def wait_closed(self) -> None:
        """Wait until an aborted connection has closed, which takes a few cycles of the event
        loop.
        """
        while not self.is_closed:
            await checkpoint()

    def _wait(self) -> asyncio.Future[None]:
        """Return a future of the next change. Raises the error that ended the connection."""
        if self.error is not None:
            raise self.error
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # ------------------------------------------------------------ from asyncio

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        if self.ended:  # bytes after a response: the connection is out of sync
            self.keeps_alive = False
            self.abort()
            return
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.ended:
                self._fail(NotHttp(str(error)))
            self.keeps_alive = False
        else:
            framing = self._received - self._content
            if framing > HEADERS_BYTES_MAX + FRAMING_TIMES * self._content:
                self._fail(NotHttp("too much of it is headers, trailers or framing"))
        if self._size > BUFFERED_BYTES and not self._paused and not self.ended:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._until_close and exc is None:
            self.ended = True
        self.is_closed = True
        if self.error is None:
            self.error = ConnectionLost("the connection was lost")
            self.error.__cause__ = exc
        self._wake()

    @override
    def pause_writing(self) -> None:
        self._unwritable = True

    @override
    def resume_writing(self) -> None:
        self._unwritable = False
        self._wake()

    def _fail(self, error: Exception) -> None:
        self.error = error
        self.abort()

    # ------------------------------------------------------------ from llhttp

    def on_status(self, status: bytes) -> None:
        self.reason = status.decode("latin-1")

    def on_message_begin(self) -> None:
        if self.ended:
            raise NotHttp("bytes follow the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:  # a trailer
            return
        if len(self.headers) >= HEADERS_MAX:
            raise NotHttp("too many headers")
        self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip())

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status < 100 or status == 101:
            raise NotHttp(f"status {status}")
        if status < 200:
            self._informational = True
            return
        headers = self.headers
        self._until_close = (
            status not in (204, 304)
            and "content-length" not in headers
            and "chunked" not in headers.get("transfer-encoding", "").lower()
        )
        self.status = status

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._size += len(body)
        self._content += len(body)

    def on_message_complete(self) -> None:
        if self._informational:
            self._informational, self.headers = False, {}
            return
        self.ended = True
        # a server that has not read the whole request would read the next one as its remainder
        self.keeps_alive = self.parser.should_keep_alive() and not self._is_cut


def request_head(method: str, target: str, host: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Request line and headers; more headers or a blank line must follow.

    Raises ValueError for a header with a line break.
    """
    lines = [f"{method} {target} HTTP/1.1\r\nhost: {host}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers]
    head = "".join(lines)
    ends = len(lines) + 1  # the first of them contains two
    if head.count("\r") != ends or head.count("\n") != ends or "\0" in head:
        raise ValueError("a header or the path contains a line break")
    return head.encode("utf-8", "surrogateescape")
