"""Connections to a provider: HTTP/1.1 over asyncio and httptools, kept alive and pooled for each
event loop.

It follows no redirects. It resends a request only if the kept connection turns out to be dead.
Entry point: `HttpConnection`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from treadle.errors import AgentError
from treadle.models.providers import real_requests

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from treadle.models.providers.access_tokens import AccessTokens
    from treadle.models.providers.connection import HttpReply
    from treadle.models.providers.http_exchange import Exchange
    from treadle.models.providers.http_pool import Pool

TIMEOUT_S = 600.0

_WELL_FORMED = "it must look like 'https://host' or 'http://host:port/path'"


class HttpConnection:
    """Client for requests below one base URL, with persistent connections for each event loop."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str],
        timeout_s: float = TIMEOUT_S,
        *,
        total_s: float | None = None,
        proxy: str | None = None,
        tokens: AccessTokens | None = None,
    ) -> None:
        """Create an HTTP connection. `timeout_s` limits each wait for the response or its next
        bytes, `total_s` a whole exchange (None: unlimited). `proxy`: address of a proxy, in place
        of the environment's; `tokens`: source of the `authorization` header.

        Raises AgentError(invalid) for an invalid address.
        """
        self.host = host_of(base_url)
        self.base_url = base_url.rstrip("/")
        self.timeout_s, self.total_s = timeout_s, total_s
        self._headers = {"accept-encoding": "identity", "user-agent": "treadle", **headers}
        self._proxy, self._tokens = proxy, tokens
        if tokens is not None:
            self._headers.pop("authorization", None)
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._new: type[Exchange]
        """Set by the first request, because only requests need httptools."""
        # each loop runs in its own thread, so `_pools` is changed by one of them at a time
        self._adding = threading.Lock()

    def reached(
        self, *, total_s: float | None, proxy: str | None, tokens: AccessTokens | None
    ) -> HttpConnection:
        """Return a new, unopened connection that differs only in these arguments."""
        return HttpConnection(
            self.base_url,
            self._headers,
            self.timeout_s,
            total_s=total_s,
            proxy=proxy,
            tokens=tokens,
        )

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpReply]:
        if self._tokens is not None:
            return self._tokens.authorized(
                lambda more: self._exchange(path, body, {**headers, **more})
            )
        return self._exchange(path, body, headers)

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpReply]:
        if self._tokens is not None:
            return self._tokens.authorized(
                lambda more: self._exchange(path, None, {**headers, **more})
            )
        return self._exchange(path, None, headers)

    def _exchange(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> Exchange:
        if real_requests.refused:
            real_requests.check(self.host)
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop) or self._add_pool(loop)
        return self._new(pool, path, body, headers)

    async def aclose(self) -> None:
        """Close the connections of this event loop. The next request opens new ones."""
        with self._adding:
            pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    def _add_pool(self, loop: asyncio.AbstractEventLoop) -> Pool:
        from treadle.models.providers.http_exchange import Exchange  # noqa: PLC0415  see `_new`
        from treadle.models.providers.http_pool import Pool  # noqa: PLC0415

        self._new = Exchange
        with self._adding:
            self._pools = {
                other: pool for other, pool in self._pools.items() if not other.is_closed()
            }
            pool = self._pools[loop] = Pool(
                loop,
                (self.base_url, self._proxy),
                self.host,
                self._headers,
                (self.timeout_s, self.total_s),
            )
        return pool


def host_of(base_url: str) -> str:
    """Return `host:port`, as messages name it. Raises AgentError(invalid)."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
        known = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        raise AgentError("invalid", f"base_url is not an address: {_WELL_FORMED}") from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise AgentError(
            "invalid",
            (
                f"base_url for {host!r} contains more than an address (a user name, a query): "
                "pass a key as api_key or auth_token"
            ),
        )
    labels_fit = all(0 < len(label) < 64 for label in known.removesuffix(".").split("."))
    if (
        parts.scheme not in ("http", "https")
        or not labels_fit
        or port == 0
        or any(c <= " " for c in base_url)
    ):
        raise AgentError("invalid", f"base_url {base_url!r} is not an address: {_WELL_FORMED}")
    named = f"[{host}]" if ":" in host else host
    return f"{named}:{port or (443 if parts.scheme == 'https' else 80)}"
