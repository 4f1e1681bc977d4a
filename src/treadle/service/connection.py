"""Client connections with limits on bytes and time in every state.

A connection is idle, then receives the head of a request, then its body while the application
responds. After a refusal it is still read for a short time. connection_table.py closes connections
that stay too long in one state. Entry point: `BoundedConnection`.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Transport
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec
import uvicorn
from typing_extensions import override
from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable
from uvicorn._types import Scope as ASGIScope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from treadle.service.hosts import is_target_of_host
from treadle.service.problems import MEDIA_TYPE
from treadle.service.windows import network_of

if TYPE_CHECKING:
    from treadle.service.connection_table import ConnectionTable

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
"""Seconds for which a refused client is kept open and read at each sweep. Closing immediately would
reset the connection and lose the response, and the client would reconnect immediately.
"""
READ_BYTES: Final = 65_536
"""Maximum bytes read from a client before others are served."""
READING_S = 30.0
READING_BYTES: Final = 16_384
"""Minimum number of bytes that a client must read within `READING_S`."""
HEAD_BYTES_MOST: Final = 32_768
FRAMING_TIMES: Final = 8
"""Allowed framing bytes of a chunked body (sizes, extensions, trailers) per content byte, in
addition to the size of one head. Chunks of one byte need five.
"""
PIPELINED_MOST: Final = 8
"""Maximum number of pipelined requests that wait for an earlier response on the same connection."""


_LARGE: Final = "The request headers are too large."
_FRAMING: Final = "The chunked body has too much framing for its content."
_PIPELINED: Final = "Too many requests were sent before a response: wait for responses."
_ELSEWHERE: Final = (
    "The request target must be a path, or a URL of the host that the Host header names."
)


class BoundedConnection(HttpToolsProtocol):
    """uvicorn connection with limits. `table`: the table of its server."""

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
        """Time at which the state was entered, or at which the first byte after an idle period
        arrived.
        """
        self._has_begun = True
        """True if a request has begun while the connection was idle. A new connection must send its
        first request immediately.
        """
        self._framing = self._content = self._trailers = 0
        """Counted bytes of the current request: of its head, or of its body's framing."""
        self._answering: RequestResponseCycle | None = None
        """Newest request that the application is handling."""
        self._unread: tuple[float, int] | None = None
        """Time at which the client last read enough of the response, and the number of bytes that
        were left then.
        """

    # ------------------------------------------------------------ bounds

    @property
    def is_waiting(self) -> bool:
        """True if the client must send something next, because no response is pending."""
        cycle = self._latest
        if cycle is None or cycle.response_complete or self._at == "refused":
            return True
        return self._at == "body" and not self.pipeline and not cycle.response_started

    @property
    def _latest(self) -> RequestResponseCycle | None:
        """Newest request and its response."""
        return cast("RequestResponseCycle | None", self.cycle)  # None before the first request

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
        if hasattr(transport, "max_size"):  # asyncio's own would allocate 256 KiB at each read
            transport.max_size = READ_BYTES  # pyright: ignore[reportAttributeAccessIssue]  it has one
        self.network = network_of(self.client[0]) if self.client else ""
        if not self._table.admit(self):
            transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request that is being answered, and drop waiting ones. Leave no reference
        cycles, because frequent reconnects would keep the garbage collector busy.
        """
        self._table.discard(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if (cycle := self._answering) is not None and not cycle.response_complete:
            cycle.disconnected = True  # uvicorn notifies only the newest request
            cycle.message_event.set()
        self.pipeline.clear()
        self.cycle = self._answering = None  # pyright: ignore[reportAttributeAccessIssue]  as before the first

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._at == "refused":
            self.flow.pause_reading()
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

    @override
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, partial(_answer_if_open, cycle, app))

    # ------------------------------------------------------------ the parser

    @override
    def on_message_begin(self) -> None:
        self._at, self._framing, self._content, self._trailers = "head", 0, 0, 0
        super().on_message_begin()

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header field. Trailers are dropped: nothing uses them, and RFC 9110 6.5.1 forbids
        merging them into the headers.
        """
        if self._at != "body":
            super().on_header(name, value)
            return
        self._trailers += len(name) + len(value)
        if self._trailers > HEAD_BYTES_MOST:
            self._refuse(431, _FRAMING)
            raise ValueError(_FRAMING)

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
            self._refuse(400, _PIPELINED)
            raise ValueError(_PIPELINED)
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
        """Keep the connection open, unless part of the request's body is still expected, which
        would never be read.
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

    def linger(self) -> None:
        """Read once more from a refused client. Called at each sweep."""
        if self._at == "refused":
            self.flow.resume_reading()

    def _refuse(self, status: int, detail: str) -> None:
        """Respond without the application, and let the connection linger.

        If a response is in progress or pending, send none: it belongs to another request, and two
        responses must not mix.
        """
        is_due = False
        if (cycle := self._answering) is not None and not cycle.response_complete:
            is_due = cycle is not self.cycle or self._at != "body" or cycle.response_started
            cycle.disconnected = True  # stops the application
            cycle.waiting_for_100_continue = False  # nothing is written after the response
            cycle.message_event.set()
        self.pipeline.clear()
        self._at, self._framing, self._since = "refused", 0, self.loop.time()
        self.flow.pause_reading()
        if is_due:
            return
        title = HTTPStatus(status).phrase
        body = msgspec.json.encode(
            {"type": "about:blank", "title": title, "status": status, "detail": detail}
        )
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: "
            f"{len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()


async def _answer_if_open(
    cycle: RequestResponseCycle,
    app: ASGI3Application,
    scope: ASGIScope,
    receive: ASGIReceiveCallable,
    send: ASGISendCallable,
) -> None:
    """Call the application, unless the connection was closed in the meantime."""
    if cycle.transport.is_closing():
        cycle.disconnected = True  # as for a refused client
    if not cycle.disconnected:
        await app(scope, receive, send)
