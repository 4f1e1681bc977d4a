"""Proxies of the user's own environment, through which our proxy reaches the internet if they are
set.

Such a proxy resolves names itself, so their addresses cannot be checked here. Entry:
`ParentProxies`, `connect_through`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import SplitResult, unquote, urlsplit

from typing_extensions import override

from treadle.policy.sandboxes.request_head import HEAD_BYTES_MAX, RequestHead

_VARIABLES = {"http": ("http_proxy",), "https": ("https_proxy", "HTTPS_PROXY")}
"""HTTP_PROXY in capitals is ignored, as curl does: in a CGI program it is a header of the request.
"""


class ParentProxy(NamedTuple):
    """Proxy that the environment configures."""

    host: str
    port: int
    is_tls: bool
    authorization: bytes
    """Header field with its line end; empty if the URL has no user name."""


class ParentProxies:
    """Proxies that the variables HTTPS_PROXY, http_proxy, ALL_PROXY and NO_PROXY configure."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Parse the variables. Raises ValueError for a proxy that does not use HTTP."""
        every = _first(environment, ("all_proxy", "ALL_PROXY"))
        self._by_scheme = {
            scheme: _parent(_first(environment, names) or every)
            for scheme, names in _VARIABLES.items()
        }
        self._direct = _first(environment, ("no_proxy", "NO_PROXY"))

    def of(self, head: RequestHead) -> ParentProxy | None:
        """Return the proxy for a host; None if it is reached directly."""
        parent = self._by_scheme["https" if head.is_tunnel else "http"]
        if parent is None or (
            self._direct and _is_bypassed(f"{head.host}:{head.port}", self._direct)
        ):
            return None
        return parent


def _is_bypassed(place: str, direct: str) -> bool:
    """Return True if NO_PROXY excludes the host, as in the standard library: names and their
    subdomains, with or without a port.
    """
    name = "proxy_bypass_environment"  # missing in typeshed
    from urllib import request  # noqa: PLC0415  15 ms, and only confined commands need it

    bypass: Callable[[str, Mapping[str, str]], bool] = getattr(request, name)
    return bypass(place, {"no": direct})


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := environment.get(name, "").strip())), "")


def _parent(text: str) -> ParentProxy | None:
    if not text:
        return None
    url = urlsplit(text if "://" in text else f"http://{text}")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"a proxy of the scheme {url.scheme!r} is not supported")
    return ParentProxy(
        url.hostname,
        url.port or (443 if url.scheme == "https" else 80),
        url.scheme == "https",
        _authorization(url),
    )


def _authorization(url: SplitResult) -> bytes:
    if url.username is None:
        return b""
    words = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
    return b"Proxy-Authorization: Basic " + base64.b64encode(words) + b"\r\n"


async def connect_through(
    parent: ParentProxy, head: RequestHead, server: Callable[[bytes], asyncio.Protocol]
) -> None:
    """Connect to the host of a request through a proxy.

    `server` creates the protocol, given the bytes to write first. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    tls = True if parent.is_tls else None
    if not head.is_tunnel:
        await loop.create_connection(
            lambda: server(_in_absolute_form(parent, head)), parent.host, parent.port, ssl=tls
        )
        return
    answered: asyncio.Future[bytes] = loop.create_future()
    transport, _ = await loop.create_connection(
        lambda: _Asking(parent, head, answered), parent.host, parent.port, ssl=tls
    )
    try:
        rest = await answered
    except BaseException:
        transport.abort()
        raise
    protocol = server(b"")
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if rest:
        protocol.data_received(rest)
    transport.resume_reading()


def _place(head: RequestHead) -> bytes:
    return (
        f"[{head.host}]:{head.port}" if ":" in head.host else f"{head.host}:{head.port}"
    ).encode("ascii")


def _in_absolute_form(parent: ParentProxy, head: RequestHead) -> bytes:
    method, path, rest = head.data.split(b" ", 2)
    version, _, fields = rest.partition(b"\r\n")
    return b"%b http://%b%b %b\r\n%b%b" % (
        method,
        _place(head),
        path,
        version,
        parent.authorization,
        fields,
    )


class _Asking(asyncio.Protocol):
    """Protocol that requests a tunnel from a proxy, and returns the bytes after its response."""

    def __init__(
        self, parent: ParentProxy, head: RequestHead, answered: asyncio.Future[bytes]
    ) -> None:
        self._request = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (
            _place(head),
            _place(head),
            parent.authorization,
        )
        self._answered = answered
        self._received = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if self._answered.done() or (end < 0 and len(self._received) < HEAD_BYTES_MAX):
            return
        status = self._received[9:12]
        if end >= 0 and self._received.startswith(b"HTTP/1.") and status.startswith(b"2"):
            self._transport.pause_reading()
            self._answered.set_result(self._received[end + 4 :])
        else:
            self._answered.set_exception(
                OSError(f"the proxy in front of it answered with status {status.decode('latin-1')}")
            )

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_exception(OSError("the proxy in front of it closed the connection"))
