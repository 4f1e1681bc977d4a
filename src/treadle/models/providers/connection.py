"""The seam between a wire and the network: one question, answered by a status, headers and bytes as
they come.

Which bytes to send and what the answer means is the wire's; keep-alive, proxies and TLS are the
implementations' (http.py, sdk.py). Entry: `Connection`.
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


class HttpReply(Protocol):
    """The answer to one question; it lives as long as the context that gave it."""

    @property
    def status(self) -> int: ...

    def header(self, name: str) -> str | None:
        """`name` in any case; None where the answer has none."""
        ...

    async def read(self) -> bytes:
        """The next bytes, as they came; b"" at the end.

        Raises AgentError(network) where the connection is lost, AgentError(timeout) after
        `timeout_s` without `heard`.
        """
        ...

    def heard(self) -> None:
        """What was read was more than a sign of life: the time without an answer begins anew.

        Without this call pings cannot hold a dead answer open.
        """
        ...


class Connection(Protocol):
    """Safe to use from many tasks at once."""

    @property
    def base_url(self) -> str:
        """Below which it asks."""
        ...

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpReply]:
        """Sends once. `headers` (names in lower case) join the connection's own: a value for the
        same name follows it, after a comma.

        A redirect is an answer like any other, never followed.

        Entering raises AgentError: network (refused, lost), timeout, invalid (the address, the
        certificate). Leaving it in any way ends the exchange: with an exception, cancellation
        included, by closing the connection.
        """
        ...

    def get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpReply]:
        """The same for what is only to be read."""
        ...

    async def aclose(self) -> None: ...


class ReadTimeout:
    """Seconds of waiting for a server since it last said something; the time between two waits does
    not count.
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
        """The server said something."""
        self._until_now = 0.0

    def left_s(self) -> float:
        waited = (
            self._until_now
            if self._since is None
            else self._until_now + self._clock() - self._since
        )
        return self.limit_s - waited


async def read_whole(reply: HttpReply, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """The rest of the body. Raises AgentError(network) where it is larger."""
    body = bytearray()
    while chunk := await reply.read():
        body += chunk
        if len(body) > bytes_max:
            raise AgentError("network", f"the answer is larger than {bytes_max} bytes")
        reply.heard()
    return bytes(body)


async def read_beginning(reply: HttpReply, bytes_max: int = ERROR_BYTES_MAX) -> bytes:
    """At most `bytes_max` of the body, and whatever came before the connection failed: for what is
    only to be quoted.
    """
    body = bytearray()
    try:
        while len(body) < bytes_max and (chunk := await reply.read()):
            body += chunk
    except AgentError:
        pass
    return bytes(body[:bytes_max])


def retry_after_s(header: Callable[[str], str | None], now: datetime | None = None) -> float | None:
    """How long the server asks us to wait: `retry-after-ms`, else `retry-after` in seconds or as an
    HTTP date.

    None where it does not say, or says it in a way that means nothing; no upper bound here.
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
