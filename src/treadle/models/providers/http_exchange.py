"""A single HTTP exchange over aiohttp, with timeouts. Its end keeps or closes the connection.

http.py manages the connections. Importing this module imports aiohttp. Entry points: `Exchange`.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

import aiohttp
import anyio
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override

from treadle.errors import AgentError
from treadle.models.providers.connection import ReadTimeout

if TYPE_CHECKING:
    import ssl

    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from treadle.models.providers.http import Pool

END_GRACE_S = 0.25
"""Seconds that a complete response may take to end formally. After that, its connection is
closed.
"""
WITH_HEADERS_BYTES = 16 * 1024
AT_ONCE_BYTES = 1024 * 1024
"""Bytes of a large body written at once, so that other tasks can run in between."""
CHECK_PROXY = "check HTTPS_PROXY, or add the host to NO_PROXY"
CHECK_ADDRESS = "check base_url, and that the server runs"
CHECK_SCHEME = "check base_url: https where the server speaks TLS, http where it does not"


class Protocol(ResponseHandler):
    """A connection that records whether it has carried a request.

    aiohttp 3.14 restarts its parser after each read even if it was not paused, which costs a
    seventh of the time per delta.
    """

    carried = False

    @override
    def resume_reading(self, resume_parser: bool = True) -> None:
        if getattr(self, "_reading_paused", True):
            super().resume_reading(resume_parser)


class Connector(aiohttp.TCPConnector):
    """Records which connection an exchange got, and whether it was kept alive.

    (aiohttp's tracing can do this too, but costs 15 µs per request.)
    """

    def __init__(
        self, *, connections_per_host: int, keep_alive_s: float, tls: ssl.SSLContext | bool
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  aiohttp leaves a type open
            limit=0, limit_per_host=connections_per_host, keepalive_timeout=keep_alive_s, ssl=tls
        )
        self._factory = partial(Protocol, loop=self._loop)
        self.asking: dict[asyncio.Task[object] | None, Exchange] = {}
        """Exchanges by requesting task: aiohttp connects in it, and passes no context of the
        request.
        """

    @override
    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        exchange = self.asking[asyncio.current_task()]
        exchange.transport = connection.transport
        if isinstance(protocol := connection.protocol, Protocol):
            exchange.kept, protocol.carried = protocol.carried, True
        return connection


class LargeBody(aiohttp.Payload):
    """A body that is written in pieces. aiohttp joins a body to the headers, and asyncio copies
    what the socket does not accept: for a long history, more than half of the cost of sending.
    """

    _autoclose = True

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    @override
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    @override
    async def write(self, writer: AbstractStreamWriter) -> None:
        view = memoryview(self._value)
        await writer.write(view[:WITH_HEADERS_BYTES])
        for begin in range(WITH_HEADERS_BYTES, len(view), AT_ONCE_BYTES):
            await writer.write(view[begin : begin + AT_ONCE_BYTES])


class Exchange:
    """An exchange, both as the context of `Connection.post` or `get` and as the reply it
    returns.
    """

    __slots__ = (
        "_body",
        "_content",
        "_expired",
        "_headers",
        "_path",
        "_pool",
        "_response",
        "_silence",
        "_until",
        "kept",
        "status",
        "transport",
    )

    def __init__(
        self, pool: Pool, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        """A POST of `body`, or a GET if it is None."""
        self._pool = pool
        self._path = path
        self._body = body
        self._headers = headers
        self._silence = ReadTimeout(pool.timeout_s, pool.loop.time)
        self._until = math.inf if pool.total_s is None else pool.loop.time() + pool.total_s
        self._expired = ""
        """Reason why the exchange was ended locally; empty while it was not."""
        self._response: aiohttp.ClientResponse | None = None
        self._content: aiohttp.StreamReader
        self.transport: asyncio.Transport | None = None
        self.kept = False
        self.status = 0

    async def __aenter__(self) -> Self:
        session, connector = self._pool.opened or await self._pool.open()
        task = asyncio.current_task()
        connector.asking[task] = self
        self._pool.watch(self)
        self._silence.begin()
        try:
            self._response = response = await self._send(session)
        except (aiohttp.ClientError, OSError) as error:
            raise self._translated(error) from error
        finally:
            del connector.asking[task]
            self._silence.pause()
            if self._response is None:
                self._pool.unwatch(self)
        self._body = b""
        self._content = response.content
        self.status = response.status
        return self

    async def _send(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        url, proxy = self._pool.url(self._path), self._pool.proxy
        while True:
            body = (
                self._body
                if self._body is None or len(self._body) <= WITH_HEADERS_BYTES
                else LargeBody(self._body)
            )
            ask = session.get if body is None else session.post
            self.kept, self.transport = False, None
            try:
                return await ask(
                    url, data=body, headers=self._headers, proxy=proxy, allow_redirects=False
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The server closed a kept-alive connection before it received this request. A new
                # connection is not kept-alive, so the loop ends.
                if not self.kept or self._expired:
                    raise

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name) if self._response is not None else None

    async def read(self) -> bytes:
        if self._pool.loop.time() >= self._until:  # also where there always is something to read
            raise AgentError("timeout", self._too_long)
        self._silence.begin()
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
            raise self._translated(error) from error
        finally:
            self._silence.pause()

    def heard(self) -> None:
        self._silence.broken()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.unwatch(self)
        if self._response is None:
            return
        try:
            if error is None and not self._content.at_eof():
                await self._wait_for_end()
        finally:
            self._response.release()  # which closes its connection where the answer has not ended

    async def _wait_for_end(self) -> None:
        """Wait for the formal end of the response, without which the connection cannot be
        reused.
        """
        with (
            anyio.move_on_after(END_GRACE_S),
            suppress(aiohttp.ClientError, HttpProcessingError, OSError),
        ):
            while await self._content.readany():
                pass

    def look(self) -> None:
        """Close the connection if the server has been silent, or has taken in total, for too long.
        The pool calls this in rounds.
        """
        if not self._silence.waiting or self.transport is None:
            return
        if self._pool.loop.time() >= self._until:
            self._expired = self._too_long
        elif self._silence.left_s() <= 0:
            self._expired = f"{self._pool.host} said nothing for {self._silence.limit_s:g} s"
        else:
            return
        self.transport.abort()

    @property
    def _too_long(self) -> str:
        return f"{self._pool.host} had not answered in full after {self._pool.total_s:g} s"

    def _translated(self, error: BaseException) -> AgentError:
        """Translate an error. Messages name only the host, because URLs may contain private
        data.
        """
        host, proxy = (
            self._pool.host,
            " through the proxy of the environment" if self._pool.proxy else "",
        )
        check = CHECK_PROXY if self._pool.proxy else CHECK_ADDRESS
        if self._expired:
            return AgentError("timeout", self._expired)
        match error:
            case TimeoutError():
                return AgentError(
                    "timeout",
                    f"no connection to {host}{proxy} within the time allowed: {check}",
                    sent=False,
                )
            case aiohttp.ClientConnectorCertificateError():
                why = (
                    getattr(error.certificate_error, "verify_message", "")
                    or "it cannot be verified"
                )
                return AgentError(
                    "invalid",
                    (
                        f"the certificate of {host} is not trusted: {why}. For a private "
                        "authority, set SSL_CERT_FILE to its certificate"
                    ),
                )
            case aiohttp.ClientHttpProxyError():
                return AgentError(
                    "network" if error.status >= 500 else "invalid",
                    (
                        f"the proxy of the environment refused to connect to {host}: "
                        f"{error.status} {error.message}: {CHECK_PROXY}"
                    ),
                    sent=False,
                )
            case aiohttp.ClientConnectorDNSError():
                return AgentError(
                    "network",
                    f"{error.host!r} is not known: check the address, and that there is a network",
                    sent=False,
                )
            case aiohttp.ClientConnectorSSLError():
                return AgentError(
                    "network", f"cannot speak TLS with {host}{proxy}: {CHECK_SCHEME}", sent=False
                )
            case aiohttp.ClientConnectorError():
                where = (
                    f"the proxy {error.host}:{error.port}"
                    if isinstance(error, aiohttp.ClientProxyConnectionError)
                    else host
                )
                return AgentError(
                    "network",
                    f"cannot connect to {where}: {_why(error.os_error)}: {check}",
                    sent=False,
                )
            case aiohttp.ClientResponseError() | HttpProcessingError():
                if "content-encoding" in str(error):
                    return AgentError(
                        "network",
                        (
                            f"{host}{proxy} answered in an encoding that was not asked for and "
                            "cannot be read"
                        ),
                    )
                return AgentError(
                    "network",
                    (
                        f"{host}{proxy} answered with something that is not HTTP: "
                        f"{CHECK_PROXY if proxy else CHECK_SCHEME}"
                    ),
                )
            case _ if self._response is None:
                return AgentError(
                    "network", f"{host}{proxy} closed the connection before it answered"
                )
            case _:
                return AgentError(
                    "network",
                    f"the connection to {host}{proxy} was lost in the middle of the answer",
                )


def _why(error: OSError) -> str:
    """Return the system's message if asyncio replaced it with one that repeats the address."""
    words = error.strerror or str(error)
    return os.strerror(error.errno) if error.errno and "Connect call failed" in words else words
