"""Client connections with bounds in bytes and seconds in every state, and the table of a server's
connections with limits per address.

A connection rests, then receives the head of a request, then its body while the application
answers. A refused connection is still read for a short time. `ConnectionTable.sweep` closes
connections that stay too long in one state. Entry point: `ConnectionTable`.
"""

from __future__ import annotations

import ipaddress
from asyncio import AbstractEventLoop, Transport
from collections import OrderedDict
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, Final, Literal, cast

import msgspec
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from treadle.service.hosts import is_target_of_host
from treadle.service.problems import MEDIA_TYPE
from treadle.service.windows import network_of

HEADERS_S = 10.0
"""Seconds from the first byte of a request, or from the start of a connection, to the end of the
headers.
"""
IDLE_S = 20
"""Idle time between two requests, in seconds."""
BODY_S = 40.0
"""Seconds from the end of the headers to the end of the body. The shorter `bodies.BODY_S` responds
with 408; this limit applies if the application does not read the body.
"""
LINGERING_S = 2.0
LINGERING_BYTES: Final = 1 << 18
"""Maximum bytes read from a client that was refused while sending. Closing at once would reset the
connection and lose the response.
"""
READING_S = 30.0
READING_BYTES: Final = 16_384
"""Minimum number of bytes that a client must read within `READING_S`."""
HEAD_BYTES_MOST: Final = 32_768
FRAMING_TIMES: Final = 8
"""Allowed framing bytes of a chunked body (sizes, extensions, trailers) per content byte, in
addition to the size of one head. Chunks of one byte need five.
"""
PIPELINED_MOST: Final = 32
"""Maximum number of pipelined requests that wait for an earlier response on the same connection."""
CONNECTIONS_MOST = 4096
CONNECTIONS_OF_ADDRESS = 512
"""Maximum number of connections per IPv4 address or IPv6 /64, except loopback and configured
proxies.
"""

_LARGE: Final = "The request headers are too large."
_FRAMING: Final = "The chunked body has too much framing for its content."
_ELSEWHERE: Final = (
    "The request target must be a path, or a URL of the host that the Host header names."
)


class ConnectionTable:
    """Open connections of one server."""

    def __init__(self, proxies: Collection[str]) -> None:
        self._proxies = frozenset(network_of(one) for one in proxies)
        self._by_network: dict[str, OrderedDict[BoundedConnection, None]] = {}
        """Connections by network, least recently used first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def protocol(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> BoundedConnection:
        """Create a connection registered in this table. Called by uvicorn for each connection."""
        return BoundedConnection(config, server_state, app_state, _loop, table=self)

    def admit(self, connection: BoundedConnection) -> bool:
        """Register a new connection. Return False if there is no place for it.

        If its network or the server is full, the least recently used connection without a complete
        request is closed: one of that network, or of the largest one.
        """
        network = connection.network
        mine = self._by_network.get(network, ())
        if len(mine) >= CONNECTIONS_OF_ADDRESS and not self._is_exempt(network):
            if not self._evict(network):
                return False
        elif self._size >= CONNECTIONS_MOST:
            largest = max(self._by_network, key=lambda name: len(self._by_network[name]))
            if not self._evict(largest):
                return False
        self._by_network.setdefault(network, OrderedDict())[connection] = None
        self._size += 1
        return True

    def used(self, connection: BoundedConnection) -> None:
        """Record that a connection has had a request or a response."""
        mine = self._by_network.get(connection.network, OrderedDict())
        if connection in mine:
            mine.move_to_end(connection)

    def discard(self, connection: BoundedConnection) -> None:
        mine = self._by_network.get(connection.network, OrderedDict())
        if connection in mine:
            del mine[connection]
            self._size -= 1
            if not mine:
                del self._by_network[connection.network]

    def sweep(self) -> None:
        """Close each connection that has been in one state for too long. Called about twice a
        second.
        """
        overdue = [
            connection
            for mine in self._by_network.values()
            for connection in mine
            if connection.is_overdue()
        ]
        for connection in overdue:
            self._close(connection)

    def _evict(self, network: str) -> bool:
        waiting = (one for one in self._by_network[network] if one.is_waiting)
        if (found := next(waiting, None)) is None:
            return False
        self._close(found)
        return True

    def _close(self, connection: BoundedConnection) -> None:
        self.discard(connection)
        connection.transport.abort()

    def _is_exempt(self, network: str) -> bool:
        return network in self._proxies or _is_loopback(network)


class BoundedConnection(HttpToolsProtocol):
    """uvicorn connection with bounds. `table`: the table of its server."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
        *,
        table: ConnectionTable,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.network = ""
        self._table = table
        self._at: Literal["rest", "head", "body", "refused"] = "rest"
        self._since = self.loop.time()
        """Time at which the state was entered, or at which the first byte after a rest arrived."""
        self._has_begun = True
        """True if a request has begun while at rest. A new connection must send its first request
        at once.
        """
        self._framing = self._content = 0
        """Bytes of the current request that count: of its head, or of its body's framing."""
        self._unread: tuple[float, int] | None = None
        """Time at which the client last read enough of the response, and the number of bytes left
        then.
        """

    # ------------------------------------------------------------ bounds

    @property
    def is_waiting(self) -> bool:
        """True if the client must send something next, because no response is due."""
        cycle = self._latest
        if cycle is None or cycle.response_complete:
            return True
        return self._at == "body" and not self.pipeline and not cycle.response_started

    @property
    def _latest(self) -> RequestResponseCycle | None:
        """Newest request and its response."""
        return cast("RequestResponseCycle | None", self.cycle)  # None before the first

    def is_overdue(self) -> bool:
        at = self.loop.time()
        if self._reads_too_slowly(at):
            return True
        if self._at == "refused":
            return at - self._since > LINGERING_S
        if self._at == "head" or (self._at == "rest" and self._has_begun):
            return at - self._since > HEADERS_S
        if self._at == "body":
            return not self.pipeline and at - self._since > BODY_S
        return self.is_waiting and at - self._since > IDLE_S + 1  # uvicorn's own timer comes first

    def _reads_too_slowly(self, at: float) -> bool:
        left = self.transport.get_write_buffer_size()
        if not left or not (self.flow.write_paused or self.transport.is_closing()):
            self._unread = None
            return False
        if self._unread is None or left <= self._unread[1] - READING_BYTES:
            self._unread = (at, left)
        return at - self._unread[0] > READING_S

    # ------------------------------------------------------------ the connection

    @override
    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else ""
        if not self._table.admit(self):
            transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._table.discard(self)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._at == "refused":
            self._framing += len(data)
            if self._framing > LINGERING_BYTES:
                self.transport.abort()
            return
        before, content = self._at, self._content
        if before == "rest" and not self._has_begun and data.strip(b"\r\n"):
            self._has_begun, self._since = True, self.loop.time()
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._at == "head" and before != "body":
            self._framing += len(data)
            if self._framing > HEAD_BYTES_MOST:
                self._refuse(431, _LARGE)
        elif self._at == "body" and before == "body":
            self._framing += len(data) - (self._content - content)
            if self._framing > HEAD_BYTES_MOST + FRAMING_TIMES * self._content:
                self._refuse(431, _FRAMING)

    # ------------------------------------------------------------ the parser

    @override
    def on_message_begin(self) -> None:
        self._at, self._framing, self._content = "head", 0, 0
        super().on_message_begin()

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header field. Trailers are dropped: nothing uses them, and RFC 9110 6.5.1 forbids
        merging them into the headers.
        """
        if self._at != "body":
            super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        # Headers received in one piece.
        if (
            len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            > HEAD_BYTES_MOST
        ):
            self._refuse(431, _LARGE)
            raise ValueError(_LARGE)  # the parser stops here
        if not is_target_of_host(self.url, self.headers):
            self._refuse(421, _ELSEWHERE)
            raise ValueError(_ELSEWHERE)
        if len(self.pipeline) >= PIPELINED_MOST:
            self.transport.abort()
            raise ValueError("too many requests at once")
        self._at, self._framing, self._since = "body", 0, self.loop.time()
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        self._content += len(body)
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        self._rest()
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        """Keep the connection open unless part of the request's body is still to come, which would
        never be read.
        """
        super().on_response_complete()
        if self._at == "body" and self.cycle.response_complete:
            self.transport.close()
        elif self._at == "rest" and not self._has_begun:
            self._rest()

    @override
    def send_400_response(self, msg: str) -> None:
        if self._at != "refused" and not self.transport.is_closing():
            self._refuse(400, "This is not an HTTP request.")

    def _rest(self) -> None:
        self._at, self._has_begun, self._since = "rest", False, self.loop.time()
        self._table.used(self)

    def _refuse(self, status: int, detail: str) -> None:
        """Respond without the application, and close the connection.

        If a response is in progress, only close: the response belongs to another request, and two
        responses must not mix.
        """
        if (cycle := self._latest) is not None and not cycle.response_complete:
            if self._at != "body" or self.pipeline or cycle.response_started:
                self.transport.abort()
                return
            cycle.disconnected = True  # makes the application stop
            cycle.waiting_for_100_continue = False  # nothing is written after the response
            cycle.message_event.set()
        title = HTTPStatus(status).phrase
        body = msgspec.json.encode(
            {"type": "about:blank", "title": title, "status": status, "detail": detail}
        )
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: "
            f"{len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._at, self._framing, self._since = "refused", 0, self.loop.time()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


def _is_loopback(network: str) -> bool:
    try:
        return ipaddress.ip_network(network).is_loopback or network == "::/64"
    except ValueError:
        return False
