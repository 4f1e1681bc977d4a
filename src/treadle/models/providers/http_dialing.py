"""Opening a connection: TCP, TLS, and proxies.

Entry points: `Route`, `dial`, `connect`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from treadle.errors import AgentError
from treadle.models.providers.http_protocol import HttpProtocol, NotHttp, request_head

if TYPE_CHECKING:
    import ssl

HAPPY_EYEBALLS_S = 0.25
"""Seconds that an address is tried before the next one (RFC 8305)."""


class ProxyRefused(Exception):
    """Raised if the proxy does not open a tunnel."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status, self.reason = status, reason


class ProxyUnreachable(Exception):
    """Raised if the proxy cannot be reached. Its argument is the reason."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason)
        self.reason = reason


class EnvironmentProxy(NamedTuple):
    host: str
    port: int
    is_tls: bool
    credentials: str
    """Value of Proxy-Authorization, or empty."""
    origin: str = "the environment"
    check: str = "check HTTPS_PROXY, or add the host to NO_PROXY"
    """Advice for errors."""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        return [("proxy-authorization", self.credentials)] if self.credentials else []


class Route(NamedTuple):
    """Address of a server, and the proxy and TLS settings to reach it."""

    host: str
    port: int
    authority: str
    """`host:port` for CONNECT and the Host header of a tunnel."""
    tls: ssl.SSLContext | None
    proxy: EnvironmentProxy | None
    proxy_tls: ssl.SSLContext | None = None


async def dial(loop: asyncio.AbstractEventLoop, route: Route) -> HttpProtocol:
    """Open a connection. Raises OSError (ssl.SSLError and socket.gaierror among its subclasses),
    ProxyUnreachable, ProxyRefused or NotHttp. Cancellation closes what was opened.
    """
    proxy = route.proxy
    if proxy is None:
        return await connect(loop, route.host, route.port, route.tls)
    try:
        protocol = await connect(loop, proxy.host, proxy.port, route.proxy_tls)
    except OSError as error:
        raise ProxyUnreachable(error) from error
    if route.tls is None:
        return protocol
    try:
        await _tunnel(protocol, route, proxy)
        transport = await loop.start_tls(
            protocol.transport, protocol, route.tls, server_hostname=route.host
        )
    except BaseException:
        protocol.abort()
        raise
    if transport is None:
        raise ConnectionResetError("the connection closed during the TLS handshake")
    protocol.connection_made(transport)
    return protocol


async def connect(
    loop: asyncio.AbstractEventLoop,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    *,
    server_name: str | None = None,
) -> HttpProtocol:
    """Open a connection to a host. `server_name` (default: `host`) is the name that its certificate
    must contain. Raises OSError.
    """
    name = None if tls is None else server_name or host
    if isinstance(loop, asyncio.BaseEventLoop):
        _, protocol = await loop.create_connection(
            lambda: HttpProtocol(loop),
            host,
            port,
            ssl=tls,
            server_hostname=name,
            happy_eyeballs_delay=HAPPY_EYEBALLS_S,
        )
    else:  # uvloop lacks happy eyeballs, and tries addresses one after another
        _, protocol = await loop.create_connection(
            lambda: HttpProtocol(loop), host, port, ssl=tls, server_hostname=name
        )
    return protocol


async def _tunnel(protocol: HttpProtocol, route: Route, proxy: EnvironmentProxy) -> None:
    head = request_head("CONNECT", route.authority, route.authority, proxy.headers)
    await protocol.send(head + b"\r\n", b"")
    await protocol.respond()
    if protocol.status != 200:
        raise ProxyRefused(protocol.status, protocol.reason)
    if protocol.take():
        raise NotHttp("the proxy sent bytes before the server's handshake")
    protocol.begin()


def proxy_for(base_url: str, given: str | None = None) -> EnvironmentProxy | None:
    """Return the proxy `given`, or else that from HTTP_PROXY, HTTPS_PROXY or ALL_PROXY, or from the
    system's settings on macOS and Windows; None if there is none, or if NO_PROXY excludes the host.

    Raises AgentError(invalid) for an unsupported kind of proxy.
    """
    if given is not None:
        return _proxy(given)._replace(origin="http_proxy=", check="check http_proxy=")
    if sys.platform not in ("darwin", "win32") and not any(
        value and name.lower().endswith("_proxy") and name.lower() != "no_proxy"
        for name, value in os.environ.items()
    ):
        return None
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  15 ms, and few have a proxy

    parts = urlsplit(base_url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in ("http", "https"):
        raise AgentError(
            "invalid",
            (
                f"the environment sets a {scheme!r} proxy, but only http proxies are supported: "
                f"add {parts.hostname!r} to NO_PROXY to bypass it"
            ),
        )
    return _proxy(proxy if separator else f"http://{proxy}")


def _proxy(url: str) -> EnvironmentProxy:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, parts, port = "", urlsplit(""), None
    if not host:
        raise AgentError(
            "invalid",
            "the address of the proxy must look like 'http://host:port': check HTTPS_PROXY, or "
            "http_proxy=",
        )
    is_tls = parts.scheme == "https"
    credentials = ""
    if parts.username or parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        credentials = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return EnvironmentProxy(host, port or (443 if is_tls else 80), is_tls, credentials)
