"""The application in a server of its own process: from an address that is bound to a shutdown that
leaves no run half done. Entry: `bound`, `serve_app`.

Slow and idle clients are shown out by `BoundedConnection`; what a request may be is the border's to
check.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import signal
import socket
import sys
from asyncio import TimerHandle, Transport
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Literal, cast

import msgspec
import uvicorn
from fastapi import FastAPI
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from treadle.errors import AgentError
from treadle.service.problems import MEDIA_TYPE
from treadle.service.state import Service

logger = logging.getLogger("treadle.service")

HEADERS_S: Final = 10.0
"""From the first byte of a request, or a new connection, to the end of its headers."""
IDLE_S: Final = 20
"""Between two requests."""
HEAD_BYTES_MOST: Final = 32_768
_LARGE: Final = "The head of the request is too large."
_ELSEWHERE: Final = (
    "The target of the request is not a path, nor an address of the host that its Host header "
    "names."
)
CONNECTIONS_MOST: Final = 4096
CONNECTIONS_OF_ADDRESS: Final = 512
"""Of one address that is no loopback and no proxy of ours."""
CLOSING_S: Final = 1
"""For answers that are under way when everything else has ended."""


def bound(host: str, port: int) -> socket.socket:
    """Listens. `port` 0 takes a free one. Raises AgentError(invalid) where it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio looks at the protocol, and only then lets small answers go at once
        listening = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # where it would let two have one port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise AgentError(
            "invalid", f"nothing can be served at {host} port {port}: {why}: {_way_out(e)}"
        ) from e
    listening.setblocking(False)
    return listening


def _way_out(error: OSError | OverflowError) -> str:
    if isinstance(error, socket.gaierror) or (
        isinstance(error, OSError) and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    ):
        return "give --host an address or a name of this machine"
    if isinstance(error, PermissionError):
        return "take a --port from 1024 on"
    return "take another --port, or end what has it"


async def serve_app(
    app: FastAPI, listening: socket.socket, *, ready: Callable[[], None] = lambda: None
) -> None:
    """Until SIGINT or SIGTERM, or `service.stopping` is set. Raises AgentError where the service
    cannot be opened.

    `ready`: called when requests are answered.
    """
    service: Service = app.state.service
    _allow_files()
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=CLOSING_S,
    )
    async with app.router.lifespan_context(app):
        await _Server(config, service, ready).serve([listening])


class _Server(uvicorn.Server):
    """Signals end it in peace; what it serves is told before connections close."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @override
    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._service.stopping.is_set()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:  # nobody new comes in
            server.close()
        self._service.stopping.set()
        await self._service.live.drained()
        await super().shutdown(sockets)

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """The first begins the end; a third finds the process as it would be without us."""
        if not hasattr(signal, "SIGTERM"):
            yield
            return
        heard = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {number: signal.signal(number, self._heard) for number in heard}
        except ValueError:  # not in the main thread: somebody else hears them
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, frame: object) -> None:
        if self.should_exit:
            signal.signal(number, signal.SIG_DFL)
        self.should_exit = True


class BoundedConnection(HttpToolsProtocol):
    """With a limit on how long and how large the head of a request may be, and how many connections
    there are.
    """

    _timer: TimerHandle | None = None
    _at: Literal["rest", "head", "body"] = "rest"
    _head_bytes = 0

    @override
    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MOST or self._is_one_too_many():
            transport.abort()
            return
        self._timer = self.loop.call_later(HEADERS_S, self._too_slow)

    def _is_one_too_many(self) -> bool:
        """Only looked at where there are many at all."""
        if len(self.connections) <= CONNECTIONS_OF_ADDRESS or self.client is None:
            return False
        app, here = cast("Any", self.config.app), self.client[0]
        if here in ("127.0.0.1", "::1") or here in app.state.service.settings.proxies:
            return False
        return (
            sum(
                1
                for one in cast("set[Any]", self.connections)
                if one.client is not None and one.client[0] == here
            )
            > CONNECTIONS_OF_ADDRESS
        )

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._at == "rest" and self._timer is None:
            self._timer = self.loop.call_later(HEADERS_S, self._too_slow)
        super().data_received(data)
        if self._at == "head":
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MOST and not self.transport.is_closing():
                self._refuse(431, _LARGE)

    @override
    def on_message_begin(self) -> None:
        self._at = "head"
        super().on_message_begin()

    @override
    def on_headers_complete(self) -> None:
        self._at, self._head_bytes = "body", 0
        self._stop_timer()
        # that came in one piece
        if (
            len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            > HEAD_BYTES_MOST
        ):
            self._refuse(431, _LARGE)
            raise ValueError(_LARGE)  # the parser stops here
        if not is_target_of_host(self.url, self.headers):
            self._refuse(421, _ELSEWHERE)
            raise ValueError(_ELSEWHERE)
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._at = "rest"
        super().on_message_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            self._refuse(400, "This is no HTTP request.")

    def _too_slow(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, detail: str) -> None:
        self._stop_timer()
        title = {
            400: "Bad Request",
            421: "Misdirected Request",
            431: "Request Header Fields Too Large",
        }[status]
        body = msgspec.json.encode(
            {"type": "about:blank", "title": title, "status": status, "detail": detail}
        )
        head = (
            f"HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: "
            f"{len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()


def is_target_of_host(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """True for a path, for `*`, and for an absolute address whose authority is the one in each Host
    header.

    RFC 9112 3.2.2 lets the target's authority replace Host. Everything behind this line looks at
    Host alone, so the two must agree.
    """
    if target.startswith(b"/") or target == b"*":
        return True
    scheme, separator, rest = target.lower().partition(b"://")
    port = {b"http": b":80", b"https": b":443"}.get(scheme)
    if not separator or port is None:
        return False
    authority = re.split(rb"[/?#]", rest, maxsplit=1)[0].removesuffix(port)
    return all(
        value.strip(b" \t").lower().removesuffix(port) == authority
        for name, value in headers
        if name.lower() == b"host"
    )


def _allow_files() -> None:
    """As many open files as the system allows this process: each connection is one."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 16_384) if hard != resource.RLIM_INFINITY else 16_384
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
