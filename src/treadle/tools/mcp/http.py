"""Transport to a server on streamable HTTP: the SDK's transport over a client that limits the size
of responses and isolates failures of single requests.

In the SDK, a request that fails or is interrupted closes the whole connection, and with it every
other call. Here, only that request fails. Entry point: `http`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client
from typing_extensions import override

from treadle.tools.mcp.failures import Unreachable, own_error
from treadle.tools.mcp.lines import LINE_BYTES
from treadle.tools.mcp.server import McpServer, revealed
from treadle.tools.mcp.traffic import Streams

CONNECT_S = 10.0
SIDE_S = 10.0
"""Timeout in seconds for a message without a response, because others wait behind it."""
IDLE_S = 300.0
"""Timeout in seconds without receiving any byte of a response."""
POOL = httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3.0)
"""Many servers close a connection that was idle for 5 seconds. A request sent at that moment fails,
and may have had an effect.
"""
AGAIN_LEAST_S, AGAIN_MOST_S = 0.5, 5.0
"""Minimum and maximum delay in seconds between two requests for a stream. The delay doubles each
time.
"""
CALM_S = 60.0
"""Seconds since the last request after which a stream is requested again without delay."""
_EVENTS = "text/event-stream"
_ENDPOINTS: set[str] = set()
"""Hosts of servers that this process has connected to."""
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


@asynccontextmanager
async def http(server: McpServer) -> AsyncGenerator[Streams]:
    """Open the transport. Raises Unreachable for an invalid address."""
    assert server.url is not None, "a server of this kind has one"
    timeout = httpx2.Timeout(CONNECT_S, read=max(IDLE_S, server.timeout_s + SIDE_S), write=30.0)
    headers = {"accept-encoding": "identity", **revealed(server.fixed_headers)}
    try:
        client = _Client(
            server.url, headers=headers, auth=server.auth, timeout=timeout, limits=POOL
        )
    except (httpx2.HTTPError, ValueError, TypeError, httpx2.InvalidURL) as e:
        raise Unreachable(f"{server.place} cannot be asked: {type(e).__name__}") from e
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=LINE_BYTES
        ) as streams,
    ):
        yield streams


class _Head(msgspec.Struct):
    """Identifying fields of a JSON-RPC message."""

    method: str | None = None
    id: int | str | None = None

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.id is not None


class Pace:
    """Limit on how often a stream that the server closes is reopened, regardless of the delay that
    the server requests.
    """

    def __init__(self) -> None:
        self._last, self._delay_s = -math.inf, 0.0

    def wait_s(self, now: float) -> float:
        """Return the seconds to wait before the next request for a stream, and count that
        request.
        """
        if now - self._last > CALM_S:
            self._delay_s = 0.0
        wait_s = max(self._last + self._delay_s - now, 0.0)
        self._last = now + wait_s
        self._delay_s = min(max(self._delay_s * 2, AGAIN_LEAST_S), AGAIN_MOST_S)
        return wait_s


class _Client(httpx2.AsyncClient):
    def __init__(self, endpoint: str, **options: Any) -> None:
        super().__init__(**options)
        self._pace = Pace()
        _ENDPOINTS.add(httpx2.URL(endpoint).host)

    @override
    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Send a request. If a JSON-RPC message cannot be delivered, return an error response;
        raise for other requests.
        """
        head = _head_of(request)
        if head is None:
            if request.method == "GET":
                await anyio.sleep(self._pace.wait_s(anyio.current_time()))
            return _bounded(await super().send(request, **how))
        limit = anyio.CancelScope() if head.is_request else anyio.move_on_after(SIDE_S)
        try:
            with limit:
                return await _told(_bounded(await super().send(request, **how)))
        except _UNSENT as e:
            return _answer(
                request, own_error(f"it cannot be reached ({_words(e)})", happened=False)
            )
        except (httpx2.HTTPError, httpx2.StreamError) as e:
            return _answer(request, own_error(f"the connection broke ({_words(e)})"))
        return _answer(request, own_error(f"it took no message within {SIDE_S:.0f} s"))


def _head_of(request: httpx2.Request) -> _Head | None:
    """Return the identifying fields of the message in a request; None if it has no message."""
    if request.method != "POST" or not request.headers.get("content-type", "").startswith(
        "application/json"
    ):
        return None
    try:
        return msgspec.json.decode(request.content, type=_Head)
    except (msgspec.DecodeError, UnicodeError, httpx2.StreamError):
        return None


async def _told(response: httpx2.Response) -> httpx2.Response:
    """Raise the error for a status whose response body does not explain it."""
    status, is_json = (
        response.status_code,
        response.headers.get("content-type", "").lower().startswith("application/json"),
    )
    if status == 404 and "mcp-session-id" in response.request.headers:
        text = own_error(
            "it no longer knows this session (status 404)", happened=False, retire=True
        )
    elif status < 400 or is_json:
        return response
    elif status in (401, 403):
        text = own_error(
            f"it refuses our credentials (status {status}): look at its headers or auth",
            happened=False,
        )
    elif status == 429:
        text = own_error("it takes no more requests for the moment (status 429)", happened=False)
    elif status >= 500:
        text = own_error(f"it answered with status {status}")
    else:
        return response  # the SDK detects the server's protocol version by these
    await response.aclose()
    return _answer(response.request, text, status)


def _answer(request: httpx2.Request, error: dict[str, Any], status: int = 500) -> httpx2.Response:
    return httpx2.Response(
        status, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request
    )


def _words(error: Exception) -> str:
    """Return the error's text without addresses, which may contain secrets."""
    return type(error).__name__


def _without_keys(record: logging.LogRecord) -> bool:
    """Filter log records of the libraries, which log addresses that may contain a key."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            [
                _bare(arg) if isinstance(arg, httpx2.URL) and arg.host in _ENDPOINTS else arg
                for arg in record.args
            ]
        )
    return not str(record.msg).startswith("Connecting to StreamableHTTP endpoint")


def _bare(url: httpx2.URL) -> httpx2.URL:
    return url.copy_with(userinfo=b"", query=None, fragment=None)


for _name in ("httpx2", "mcp.client.streamable_http"):
    logging.getLogger(_name).addFilter(_without_keys)


# ---------------------------------------------------------------- bodies


def _bounded(response: httpx2.Response) -> httpx2.Response:
    if response.is_closed or response.is_stream_consumed:
        return response
    is_events = response.headers.get("content-type", "").lower().startswith(_EVENTS)
    assert isinstance(response.stream, httpx2.AsyncByteStream), "an async client's answers are"
    response.stream = _Body(
        response.stream,
        packed=response.headers.get("content-encoding", "identity"),
        longest=None if is_events else LINE_BYTES,
    )
    return response


class _Body(httpx2.AsyncByteStream):
    """Body of a response. Converts failures into the one exception that the SDK treats as a failure
    of this response alone.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, *, packed: str, longest: int | None) -> None:
        self._inner, self._packed, self._longest = inner, packed, longest

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._packed.lower() not in ("", "identity"):
            raise httpx2.StreamError("its response is compressed, which was not requested")
        size = 0
        try:
            async for piece in self._inner:
                size += len(piece)
                if self._longest is not None and size > self._longest:
                    raise httpx2.StreamError(f"its answer is longer than {self._longest >> 20} MiB")
                yield piece
        except httpx2.TransportError as e:
            raise httpx2.StreamError(f"its answer was cut ({_words(e)})") from e

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()
