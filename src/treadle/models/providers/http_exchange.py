"""A request and its response: sending, reading within timeouts, and keeping or closing the
connection.

http.py decides which connection is used. Entry points: `Exchange`.
"""

from __future__ import annotations

import errno
import math
import os
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Self

import anyio

from treadle.errors import AgentError
from treadle.models.providers.connection import ONLY_ONCE, ReadTimeout
from treadle.models.providers.http_dialing import ProxyRefused, ProxyUnreachable, Route
from treadle.models.providers.http_pool import Pool
from treadle.models.providers.http_protocol import HttpProtocol, NotHttp

END_GRACE_S = 0.25
"""Seconds between the last event and the end of the response after which the connection is
closed.
"""
CHECK_ADDRESS = "check base_url, and that the server is running"
CHECK_SCHEME = "check base_url: https if the server uses TLS, http if it does not"


class UnreadableEncoding(Exception):
    """Raised if the response has a content encoding, although only `identity` is accepted."""


_FAILURES = (OSError, NotHttp, UnreadableEncoding, ProxyRefused, ProxyUnreachable)


class Exchange:
    """Context manager of `Connection.post` and `get`, and the reply that it returns."""

    __slots__ = (
        "_body",
        "_expired",
        "_headers",
        "_path",
        "_pool",
        "_protocol",
        "_silence",
        "_until",
        "headers",
        "status",
    )

    def __init__(
        self, pool: Pool, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        """Create an exchange: a POST of `body`, or a GET if it is None."""
        self._pool = pool
        self._path = path
        self._body = body
        self._headers = headers
        self._silence = ReadTimeout(pool.timeout_s, monotonic)
        self._until = math.inf if pool.total_s is None else monotonic() + pool.total_s
        self._expired = ""
        """Message of the timeout that ended the exchange, or empty."""
        self._protocol: HttpProtocol | None = None
        self.status = 0
        self.headers: Mapping[str, str] = {}

    async def __aenter__(self) -> Self:
        pool = self._pool
        try:
            pool.slots.acquire_nowait()
        except anyio.WouldBlock:
            await pool.slots.acquire()
        try:
            route = pool.route or await pool.open()
            pool.watch(self)
            self._silence.begin()
            await self._send(route)
        except BaseException as error:
            pool.unwatch(self)
            self._release()
            if isinstance(error, _FAILURES):
                raise self._translated(error) from error
            raise
        finally:
            self._silence.pause()
        self._body = b""
        return self

    async def _send(self, route: Route) -> None:
        pool, body = self._pool, self._body
        head = pool.head("GET" if body is None else "POST", self._path, self._headers, route)
        head += b"\r\n" if body is None else b"content-length: %d\r\n\r\n" % len(body)
        while True:
            self._protocol = protocol = await pool.take(route)
            try:
                await protocol.send(head, body or b"")
                await protocol.respond()
            except OSError:
                # The server closed a kept connection, probably before it read this request. A new
                # connection is not a kept one, so the loop ends.
                if not protocol.carried or protocol.has_received or self._expired:
                    raise
                if ONLY_ONCE in self._headers:
                    raise
                pool.give_back(protocol)
                self._protocol = None
            else:
                encoding = protocol.headers.get("content-encoding", "").lower()
                if encoding not in ("", "identity"):
                    raise UnreadableEncoding
                self.status, self.headers = protocol.status, protocol.headers
                return

    async def read(self) -> bytes:
        protocol = self._protocol
        assert protocol is not None, "an exchange is read inside its context"
        # even if there is always something to read
        if self._until != math.inf and monotonic() >= self._until:
            raise AgentError("timeout", self._too_long)
        if piece := protocol.take():
            return piece
        self._silence.begin()
        try:
            return await protocol.read()
        except _FAILURES as error:
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
        try:
            if error is None and self._protocol is not None and not self._protocol.ended:
                await self._wait_for_end(self._protocol)
        finally:
            self._release()

    async def _wait_for_end(self, protocol: HttpProtocol) -> None:
        """Wait for the end of the response, so that the connection can be reused."""
        with anyio.move_on_after(END_GRACE_S), suppress(*_FAILURES):
            while await protocol.read():
                pass

    def _release(self) -> None:
        if self._protocol is not None:
            self._pool.give_back(self._protocol)
        self._pool.slots.release()

    def look(self) -> None:
        """Abort the connection if a timeout has passed, of silence or of the whole exchange. The
        pool calls this periodically.
        """
        if not self._silence.waiting or self._protocol is None:
            return
        if monotonic() >= self._until:
            self._expired = self._too_long
        elif self._silence.left_s() <= 0:
            self._expired = f"{self._pool.host} sent nothing for {self._silence.limit_s:g} s"
        else:
            return
        self._protocol.abort()

    @property
    def _too_long(self) -> str:
        return f"{self._pool.host} had not finished its response after {self._pool.total_s:g} s"

    def _translated(self, error: Exception) -> AgentError:
        """Return the error for the caller. It contains no address except the host's, because a URL
        may contain a secret.
        """
        if self._expired:
            return AgentError("timeout", self._expired)
        route, host = self._pool.route, self._pool.host
        proxy = None if route is None else route.proxy
        through = f" through the proxy of {proxy.origin}" if proxy else ""
        if self._protocol is None:
            if isinstance(error, ProxyUnreachable) and proxy is not None:
                return _not_connected(error.reason, f"the proxy {proxy.name}", "", proxy.check)
            return _not_connected(error, host, through, proxy.check if proxy else CHECK_ADDRESS)
        match error:
            case UnreadableEncoding():
                text = "responded in an encoding that was not requested and cannot be read"
                return AgentError("network", f"{host}{through} {text}")
            case NotHttp():
                check = proxy.check if proxy else CHECK_SCHEME
                text = "answered with something that is not HTTP"
                return AgentError("network", f"{host}{through} {text}: {check}")
            case _ if not self.status:
                text = "closed the connection before it answered"
                return AgentError("network", f"{host}{through} {text}")
            case _:
                text = f"the connection to {host}{through} was lost during the response"
                return AgentError("network", text)


def _not_connected(error: Exception, peer: str, through: str, check: str) -> AgentError:
    import ssl  # noqa: PLC0415  only https needs it, and this is an error

    match error:
        case ProxyRefused():
            kind = "network" if error.status >= 500 else "invalid"
            text = f"the{through.removeprefix(' through the')} refused to connect to {peer}:"
            return AgentError(kind, f"{text} {error.status} {error.reason}: {check}", sent=False)
        case TimeoutError():
            text = f"no connection to {peer}{through} within the time allowed: {check}"
            return AgentError("timeout", text, sent=False)
        case ssl.SSLCertVerificationError():
            why = error.verify_message or "it cannot be verified"
            text = f"the certificate of {peer} is not trusted: {why}. For a private authority, set"
            return AgentError("invalid", f"{text} SSL_CERT_FILE to its certificate")
        case socket.gaierror():
            name = peer.removeprefix("the proxy ").rpartition(":")[0]
            text = f"{name!r} cannot be resolved: check the address and the network"
            return AgentError("network", text, sent=False)
        case NotHttp():
            text = f"the{through.removeprefix(' through the')} did not answer in HTTP: {check}"
            return AgentError("network", text, sent=False)
        case ssl.SSLError() | ConnectionResetError() | EOFError():
            text = f"cannot speak TLS with {peer}{through}: {CHECK_SCHEME}"
            return AgentError("network", text, sent=False)
        case _:
            text = f"cannot connect to {peer}: {_why(error)}: {check}"
            return AgentError("network", text, sent=False)


def _why(error: Exception) -> str:
    """Return the system's message. asyncio's own messages repeat the address."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := re.search(r"\[Errno (\d+)\]", str(error))) is not None:
        number = int(found[1])  # asyncio joins the errors of several addresses into one text
    return str(error) if number is None or number not in errno.errorcode else os.strerror(number)
