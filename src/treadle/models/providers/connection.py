"""Interface between a wire and the network: one request, and a response with status, headers and
streamed bytes.

Wires encode requests and decode responses; implementations handle keep-alive, proxies and TLS
(http.py). Entry points: `Connection`, `Below`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Protocol

from treadle.errors import AgentError

BODY_BYTES_MAX = 64 * 1024 * 1024
ERROR_BYTES_MAX = 64 * 1024
LISTED = ("anthropic-beta", "openai-beta")
"""Headers whose values are lists, so that several sources can add to them."""


ONLY_ONCE = "idempotency-key"
"""Header of a request that is never resent, even if a kept connection turns out to be dead."""


class HttpReply(Protocol):
    """Response to one request, valid within the context that returned it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """First value of each header, by its name in lower case."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes as they arrive, or b"" at the end.

        Raises AgentError(network) if the connection is lost, and AgentError(timeout) after
        `timeout_s` without a call to `heard`.
        """
        ...

    def heard(self) -> None:
        """Restart the read timeout: the bytes contained more than keep-alive messages."""
        ...


class Connection(Protocol):
    """Connection to a provider. Safe for concurrent use by many tasks."""

    @property
    def base_url(self) -> str:
        """URL that request paths are appended to."""
        ...

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpReply]:
        """Send a request once. `headers` (lower-case names) extend the connection's own, as
        `joined` does.

        Redirects are returned as responses and never followed. Entering the context raises
        AgentError: network (refused, lost), timeout, or invalid (address, certificate). Leaving it
        ends the exchange; an exception or cancellation closes the connection.
        """
        ...

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpReply]:
        """Send a GET request, otherwise like `post`."""
        ...

    async def aclose(self) -> None: ...


class Below:
    """Another connection, with a prefix to all paths: one of several APIs at an address."""

    def __init__(self, inner: Connection, prefix: str) -> None:
        self._inner, self._prefix = inner, prefix

    @property
    def base_url(self) -> str:
        return self._inner.base_url + self._prefix

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpReply]:
        return self._inner.post(self._prefix + path, body, headers)

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpReply]:
        return self._inner.get(self._prefix + path, headers)

    async def aclose(self) -> None:
        await self._inner.aclose()


def joined(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the headers `own` with `more`, whose values replace others of the same name, or are
    appended to them if the header is a list.
    """
    both = dict(own)
    for name, value in more.items():
        both[name] = f"{own[name]},{value}" if name in LISTED and name in own else value
    return both


class ReadTimeout:
    """Read timeout, in seconds since the server last sent something. Time outside of waits does not
    count.
    """

    __slots__ = ("_clock", "_since", "_until_now", "limit_s")

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self.limit_s = limit_s
        self._clock = clock
        self._until_now = 0.0
        self._since: float | None = None

    @property
    def waiting(self) -> bool:
        return self._since is not None

    def begin(self) -> None:
        self._since = self._clock()

    def pause(self) -> None:
        if self._since is not None:
            self._until_now += self._clock() - self._since
            self._since = None

    def broken(self) -> None:
        """Restart the timeout after the server sent something."""
        self._until_now = 0.0

    def left_s(self) -> float:
        waited = (
            self._until_now
            if self._since is None
            else self._until_now + self._clock() - self._since
        )
        return self.limit_s - waited


async def read_whole(reply: HttpReply, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """Return the rest of the body. Raises AgentError(network) if it is larger than `bytes_max`."""
    body = bytearray()
    while chunk := await reply.read():
        body += chunk
        if len(body) > bytes_max:
            raise AgentError("network", f"the response is larger than {bytes_max} bytes")
        reply.heard()
    return bytes(body)


async def read_beginning(reply: HttpReply, bytes_max: int = ERROR_BYTES_MAX) -> bytes:
    """Return the first `bytes_max` of the body, to quote in a message; fewer if the connection
    fails.
    """
    body = bytearray()
    try:
        while len(body) < bytes_max and (chunk := await reply.read()):
            body += chunk
    except AgentError:
        pass
    return bytes(body[:bytes_max])


def retry_after_s(header: Callable[[str], str | None], now: datetime | None = None) -> float | None:
    """Return the delay that the server requests, unbounded: `retry-after-ms`, or else `retry-after`
    in seconds or as an HTTP date. None if it is absent or invalid.
    """
    if (wait_s := _number(header("retry-after-ms"), 1000)) is not None:
        return wait_s
    text = header("retry-after")
    if (wait_s := _number(text, 1)) is not None or text is None:
        return wait_s
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  a rare answer, and the parser is slow to import

    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    wait_s = (
        until.replace(tzinfo=until.tzinfo or UTC) - (now or datetime.now(UTC))
    ).total_seconds()
    return wait_s if wait_s >= 0 else None


def _number(text: str | None, units_per_second: int) -> float | None:
    try:
        value = float(text or "") / units_per_second
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
