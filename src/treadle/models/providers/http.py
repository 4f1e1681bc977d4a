"""HTTP connections on aiohttp, with corrected defaults. aiohttp's exceptions are translated.

No redirects, and no retries except after a kept-alive connection was found closed. aiohttp is
imported with the first request. Entry points: `HttpConnection`.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from treadle.errors import AgentError

if TYPE_CHECKING:
    import ssl

    import aiohttp
    import yarl

    from treadle.models.providers.http_exchange import Connector, Exchange

TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 5.0
KEEP_ALIVE_S = 30.0
"""Well below the minutes after which routers silently drop idle connections."""
CONNECTIONS_PER_HOST = 2000

_WELL_FORMED = "it must look like 'https://host' or 'http://host:port/path'"


class HttpConnection:
    """Requests to one base URL over kept-alive connections, pooled per event loop."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        timeout_s: float = TIMEOUT_S,
        *,
        total_s: float | None = None,
    ) -> None:
        """`timeout_s` limits each wait for a response or its next chunk, `total_s` the whole
        exchange; None: no limit.

        Raises AgentError(invalid) for an invalid address.
        """
        self.host = host_of(base_url)
        self.base_url = base_url.rstrip("/")
        self.timeout_s, self.total_s = timeout_s, total_s
        self._headers = {"accept-encoding": "identity", "user-agent": "treadle", **headers}
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        # event loops run in their own threads: guards changes of `_pools`
        self._adding = threading.Lock()

    def within(self, total_s: float | None) -> HttpConnection:
        """Return an unopened copy with a limit on the total time of each exchange."""
        return HttpConnection(self.base_url, self._headers, self.timeout_s, total_s=total_s)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Exchange:
        return self._exchange(path, body, headers)

    def get(self, path: str, headers: Mapping[str, str]) -> Exchange:
        return self._exchange(path, None, headers)

    def _exchange(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> Exchange:
        from treadle.models.providers.http_exchange import Exchange  # noqa: PLC0415  it brings aiohttp: 100 ms, and only a request needs it

        loop = asyncio.get_running_loop()
        joined = {
            name: f"{self._headers[name]},{value}" if name in self._headers else value
            for name, value in headers.items()
        }
        return Exchange(self._pools.get(loop) or self._add_pool(loop), path, body, joined)

    async def aclose(self) -> None:
        """Close the connections of this event loop. The next request opens new ones."""
        with self._adding:
            pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    def _add_pool(self, loop: asyncio.AbstractEventLoop) -> Pool:
        with self._adding:
            self._pools = {
                other: pool for other, pool in self._pools.items() if not other.is_closed()
            }
            pool = self._pools[loop] = Pool(
                loop, self.base_url, self._headers, self.timeout_s, self.total_s
            )
        return pool


def host_of(base_url: str) -> str:
    """Return `host:port` for messages. Raises AgentError(invalid)."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
        known = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        raise AgentError("invalid", f"base_url is no address: {_WELL_FORMED}") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise AgentError(
            "invalid",
            (
                f"base_url for {host!r} holds more than an address (a user name, a query): give a "
                "key as api_key or auth_token"
            ),
        )
    labels_fit = all(0 < len(label) < 64 for label in known.removesuffix(".").split("."))
    if (
        parts.scheme not in ("http", "https")
        or not labels_fit
        or port == 0
        or any(c <= " " for c in base_url)
    ):
        raise AgentError("invalid", f"base_url {base_url!r} is no address: {_WELL_FORMED}")
    named = f"[{host}]" if ":" in host else host
    return f"{named}:{port or (443 if parts.scheme == 'https' else 80)}"


class Pool:
    """Connections of one event loop: an aiohttp session, created at the first request."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        base_url: str,
        headers: Mapping[str, str],
        timeout_s: float,
        total_s: float | None,
    ) -> None:
        self.loop = loop
        self.host = host_of(base_url)
        self.timeout_s, self.total_s = timeout_s, total_s
        self.opened: tuple[aiohttp.ClientSession, Connector] | None = None
        self.proxy: str | None = None
        self._base_url = base_url
        self._headers = headers
        self._urls: dict[str, yarl.URL] = {}
        # the trust store is loaded once, even with concurrent first requests
        self._opening = anyio.Lock()
        self._watched: set[Exchange] = set()
        self._round: asyncio.TimerHandle | None = None

    async def open(self) -> tuple[aiohttp.ClientSession, Connector]:
        async with self._opening:
            if self.opened is None:
                self.opened = await self._open()
            return self.opened

    async def _open(self) -> tuple[aiohttp.ClientSession, Connector]:
        import aiohttp  # noqa: PLC0415  see HttpConnection.post

        from treadle.models.providers.http_exchange import Connector  # noqa: PLC0415  the same

        self.proxy = proxy_for(self._base_url)
        tls = (
            await anyio.to_thread.run_sync(_trust) if self._base_url.startswith("https:") else True
        )
        connector = Connector(
            connections_per_host=CONNECTIONS_PER_HOST, keep_alive_s=KEEP_ALIVE_S, tls=tls
        )
        session = aiohttp.ClientSession(
            connector=connector,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=self.timeout_s, sock_connect=CONNECT_TIMEOUT_S
            ),
            # trust_env stays off: it looks up the proxy in a thread each time, and a ~/.netrc makes
            # aiohttp reject our key
        )
        return session, connector

    async def close(self) -> None:
        if self.opened is not None:
            await self.opened[0].close()

    def watch(self, exchange: Exchange) -> None:
        """Check the exchange in regular rounds. One timer for all is cheaper than one per exchange
        that is reset with each chunk.
        """
        self._watched.add(exchange)
        if self._round is None:
            self._round = self.loop.call_later(self._round_s, self._look)

    def unwatch(self, exchange: Exchange) -> None:
        self._watched.discard(exchange)

    @property
    def _round_s(self) -> float:
        return min(1.0, self.timeout_s / 8, math.inf if self.total_s is None else self.total_s / 8)

    def _look(self) -> None:
        for exchange in tuple(self._watched):
            exchange.look()
        self._round = self.loop.call_later(self._round_s, self._look) if self._watched else None

    def url(self, path: str) -> yarl.URL:
        if (url := self._urls.get(path)) is None:
            import yarl  # noqa: PLC0415  comes with aiohttp

            url = self._urls[path] = yarl.URL(self._base_url + path)
        return url


def _trust() -> ssl.SSLContext:
    """Load the system's certificate store; SSL_CERT_FILE and SSL_CERT_DIR take precedence."""
    import ssl  # noqa: PLC0415  only https needs it

    return ssl.create_default_context()


def proxy_for(base_url: str) -> str | None:
    """Return the proxy from HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, unless NO_PROXY excludes the
    host; on macOS, also from the system settings.
    """
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  comes with aiohttp

    parts = urlsplit(base_url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    scheme, separator, _ = proxy.partition("://")
    if not separator:
        return f"http://{proxy}"
    if scheme not in ("http", "https"):
        raise AgentError(
            "invalid",
            (
                f"the environment names a {scheme!r} proxy, and only http proxies can be used: add "
                f"{parts.hostname!r} to NO_PROXY to go without"
            ),
        )
    return proxy
