"""Connections of one event loop to one server.

Entry point: `Pool`.
"""

from __future__ import annotations

import asyncio
import math
import posixpath
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlsplit

import anyio
import anyio.to_thread

from treadle.errors import AgentError
from treadle.models.providers.connection import joined
from treadle.models.providers.http_dialing import Route, dial, proxy_for
from treadle.models.providers.http_protocol import HttpProtocol, request_head

if TYPE_CHECKING:
    import ssl

CONNECT_TIMEOUT_S = 5.0
KEEP_ALIVE_S = 30.0
"""Maximum idle time, in seconds. Routers silently drop idle connections after a few minutes."""
CONNECTIONS_PER_HOST = 2000
HEADS_MAX = 64
"""Maximum number of cached request heads."""
_PLAIN_PATH = "/%:=&?~+!$,;'@()*[]"
"""Characters of a path that need no escaping, besides letters and digits."""


class Expiring(Protocol):
    def look(self) -> None:
        """Abort the exchange if a timeout has passed."""
        ...


class Pool:
    """Connections of one event loop, including idle ones, and the timers of their exchanges."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        addresses: tuple[str, str | None],
        host: str,
        headers: Mapping[str, str],
        timeouts: tuple[float, float | None],
    ) -> None:
        """Create a pool. `addresses`: the base URL, and that of a proxy in place of the
        environment's; `host`: the server's name in messages; `timeouts`: those of
        `HttpConnection`.
        """
        self.loop = loop
        self.host = host
        self.timeout_s, self.total_s = timeouts
        self.route: Route | None = None
        self.slots = anyio.Semaphore(CONNECTIONS_PER_HOST, fast_acquire=True)
        self._headers = dict(headers)
        self._base_url, self._proxy = addresses
        self._parts = urlsplit(self._base_url)
        # the trust store is read only once, even for concurrent first requests
        self._opening = anyio.Lock()
        self._heads: dict[tuple[object, ...], bytes] = {}
        self._in_use: set[HttpProtocol] = set()
        self._kept: list[tuple[HttpProtocol, float]] = []
        self._watched: set[Expiring] = set()
        self._round: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def open(self) -> Route:
        """Find the route: proxy and trust store. Raises AgentError(invalid)."""
        async with self._opening:
            if self.route is None:
                self.route = await self._route()
            return self.route

    async def _route(self) -> Route:
        proxy, is_tls = proxy_for(self._base_url, self._proxy), self._parts.scheme == "https"
        tls = (
            await anyio.to_thread.run_sync(_trust)
            if is_tls or (proxy is not None and proxy.is_tls)
            else None
        )
        host = self._parts.hostname or ""
        host = host if host.isascii() else host.encode("idna").decode()
        named = f"[{host}]" if ":" in host else host
        port = self._parts.port or (443 if is_tls else 80)
        return Route(
            host=host,
            port=port,
            authority=f"{named}:{port}",
            tls=tls if is_tls else None,
            proxy=proxy,
            proxy_tls=tls if proxy is not None and proxy.is_tls else None,
        )

    async def take(self, route: Route) -> HttpProtocol:
        """Return a kept connection, or a new one. Raises as `dial`, and TimeoutError."""
        now = monotonic()
        while self._kept:
            protocol, since = self._kept.pop()
            if protocol.is_usable and now - since < KEEP_ALIVE_S:
                protocol.begin()
                break
            protocol.abort()
        else:
            with anyio.fail_after(CONNECT_TIMEOUT_S):
                protocol = await dial(self.loop, route)
        self._in_use.add(protocol)
        return protocol

    def give_back(self, protocol: HttpProtocol) -> None:
        """Keep the connection if it is reusable after its exchange; otherwise close it."""
        self._in_use.discard(protocol)
        if not (protocol.ended and protocol.keeps_alive):
            protocol.abort()
            return
        protocol.carried = True
        self._kept.append((protocol, monotonic()))
        if self._sweep is None:
            self._sweep = self.loop.call_later(KEEP_ALIVE_S, self._close_idle)

    def _close_idle(self) -> None:
        now = monotonic()
        kept = list[tuple[HttpProtocol, float]]()
        for protocol, since in self._kept:
            if protocol.is_usable and now - since < KEEP_ALIVE_S:
                kept.append((protocol, since))
            else:
                protocol.abort()
        self._kept = kept
        self._sweep = self.loop.call_later(KEEP_ALIVE_S, self._close_idle) if kept else None

    async def close(self) -> None:
        open_ = [protocol for protocol, _ in self._kept] + [*self._in_use]
        self._kept = []
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for protocol in open_:
            protocol.abort()
        for protocol in open_:
            await protocol.wait_closed()

    def head(self, method: str, path: str, headers: Mapping[str, str], route: Route) -> bytes:
        """Return the head of a request without its end.

        Raises AgentError(invalid) for a header with a line break.
        """
        key = method, path, *headers.items()
        if (head := self._heads.get(key)) is None:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            head = self._heads[key] = self._new_head(method, path, headers, route)
        return head

    def _new_head(self, method: str, path: str, headers: Mapping[str, str], route: Route) -> bytes:
        # a default port is omitted from the host
        authority = route.authority.removesuffix(":443" if route.tls is not None else ":80")
        lines, target = [*joined(self._headers, headers).items()], self._target(path)
        if route.proxy is not None and route.tls is None:  # the proxy forwards the request
            lines, target = lines + route.proxy.headers, f"http://{authority}{target}"
        try:
            return request_head(method, target, authority, lines)
        except ValueError as error:
            raise AgentError("invalid", f"the request to {self.host}: {error}") from None

    def _target(self, path: str) -> str:
        place, question, query = path.partition("?")
        place = self._parts.path + place
        if "/../" in place:  # a server's own list, next to /v1
            place = posixpath.normpath(place)
        return quote(place + question + query, safe=_PLAIN_PATH)

    def watch(self, exchange: Expiring) -> None:
        """Check the exchange periodically. One timer for all exchanges is cheaper than one per
        exchange that every read resets.
        """
        self._watched.add(exchange)
        if self._round is None:
            self._round = self.loop.call_later(self._round_s, self._look)

    def unwatch(self, exchange: Expiring) -> None:
        self._watched.discard(exchange)

    @property
    def _round_s(self) -> float:
        return min(1.0, self.timeout_s / 8, math.inf if self.total_s is None else self.total_s / 8)

    def _look(self) -> None:
        for exchange in tuple(self._watched):
            exchange.look()
        self._round = self.loop.call_later(self._round_s, self._look) if self._watched else None


def _trust() -> ssl.SSLContext:
    """Return the system's certificate store. SSL_CERT_FILE and SSL_CERT_DIR take precedence."""
    import ssl  # noqa: PLC0415  only https needs it

    return ssl.create_default_context()
