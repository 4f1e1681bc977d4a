"""The two sides of a connection through the proxy, with backpressure in both directions.

Entry points: `ProxyClient`, `ProxyServer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from typing_extensions import override

from treadle.policy.sandboxes.connections import SHARES, ProxyConnection
from treadle.policy.sandboxes.request_head import (
    HEAD_BYTES_MAX,
    BadRequest,
    RequestBody,
    RequestHead,
    read_head,
)

CONNECTIONS_MAX = 128
"""Maximum number of connections of one proxy; connections.py limits those of all."""

_PIECE = 64 * 1024

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class _End(asyncio.Protocol):
    """Protocol of one side of a connection. Its input is passed on no faster than the other side
    accepts it.
    """

    transport: asyncio.Transport
    other: _End | None = None
    has_ended = False
    """True after the end of its input."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        # larger buffers, such as 256 KiB, are mapped and unmapped by the allocator for each read: a
        # fifth of the CPU time
        if hasattr(transport, "max_size"):
            setattr(transport, "max_size", _PIECE)  # noqa: B010  asyncio's own, which its interface leaves out

    @override
    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    @override
    def eof_received(self) -> bool:
        """Close one direction of the connection. The other stays open."""
        self.has_ended = True
        if self.other is None:
            return False
        if self.other.has_ended or not self.other.transport.can_write_eof():
            self.other.transport.close()
            return False
        self.other.transport.write_eof()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close() if exc is None else self.other.transport.abort()


class ProxyClient(_End):
    """Protocol of the command's side, which reads one request, connects it, and then relays."""

    def __init__(
        self, connections: set[ProxyClient], open_for: Callable[[ProxyClient, RequestHead], object]
    ) -> None:
        """Create a proxy client. `connections` counts it while it is open. `open_for` connects a
        request or refuses it.
        """
        self._connections, self._open_for = connections, open_for
        self._received = b""
        """Input received before the connection to the host is open."""
        self._head: RequestHead | None = None
        self.body: RequestBody | None = None
        """Body of a plain request."""
        self._answered = False
        self.now = asyncio.get_running_loop().time
        self.moved_at = self.now()

    def abort(self) -> None:
        self.transport.abort()
        if self.other is not None:
            self.other.transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if SHARES.is_full(cast("set[ProxyConnection]", self._connections), CONNECTIONS_MAX):
            self.answer(
                503, f"{len(self._connections)} connections are open, and there can be no more"
            )
            self.transport.close()
        else:
            self._connections.add(self)

    @override
    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.moved_at = self.now()
            self._relay(data)
        elif not self._answered:
            self._received += data
            if self._head is None:
                self._begin()

    def _begin(self) -> None:
        """Connect in a task once the head is complete, and read nothing until then."""
        end = self._received.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX) + 4
        if end < 4:
            if len(self._received) >= HEAD_BYTES_MAX:
                self.answer(431, "The head of the request is too long")
            return
        try:
            self._head = head = read_head(self._received[:end])
        except BadRequest as e:
            self.answer(400, str(e))
            return
        self._received = self._received[end:]
        self.body = None if head.is_tunnel else RequestBody(head.length)
        self.transport.pause_reading()
        self._open_for(self, head)

    def connected(self, server: ProxyServer, first: bytes) -> None:
        """Start relaying. `first`: the head for the server; empty for a tunnel."""
        if self.transport.is_closing() or self.other is not None:
            server.transport.abort()
            return
        self.moved_at = self.now()
        self.other, server.other = server, self
        if first:
            server.transport.write(first)
        else:
            self.transport.write(_ESTABLISHED)
        waiting, self._received = self._received, b""
        if waiting:
            self._relay(waiting)
        self.transport.resume_reading()

    def _relay(self, data: bytes) -> None:
        assert self.other is not None, "it relays once it is connected"
        if self.body is None:
            self.other.transport.write(data)
            return
        try:
            size = self.body.take(data)
        except BadRequest:
            self.abort()
            return
        # bytes after the body would be another, unchecked request: they are discarded
        if size:
            self.other.transport.write(data[:size])

    @override
    def eof_received(self) -> bool:
        if self.body is None or self.other is None:
            return super().eof_received()
        if not self.body.is_over:
            self.abort()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        super().connection_lost(exc)

    def answer(self, status: int, text: str) -> None:
        """Send a response of the proxy itself. Further input is discarded, so that the client can
        read the response before the connection closes.
        """
        if self._answered or self.other is not None or self.transport.is_closing():
            return
        self._answered = True
        body = f"treadle: {text}.\n".encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        try:
            self.transport.write_eof()
        except OSError:  # the client reset the connection since
            self.transport.abort()
            return
        self.transport.resume_reading()


class ProxyServer(_End):
    """Protocol of the host's side: the connection from the proxy to the requested host."""

    def __init__(self, client: ProxyClient, first: bytes) -> None:
        self._client, self._first = client, first

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.connected(self, self._first)

    @override
    def data_received(self, data: bytes) -> None:
        client = self._client
        client.moved_at = client.now()
        client.transport.write(data)

    @override
    def eof_received(self) -> bool:
        if self._client.body is None:
            return super().eof_received()
        return False  # the end of a plain response; `connection_lost` closes the client's side
