"""Messages between a server and the SDK: drops irrelevant ones, and records facts for the user.

stdio.py and http.py are the transports. Entry points: `Traffic`.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from treadle.tools.mcp.sieve import Sieve

ASKING_MOST = 32
"""Maximum number of open requests from a server. Further ones are ignored."""
UNASKED_MOST = 50_000
"""Maximum burst of notifications and requests from a server."""
UNASKED_PER_S = 500
"""Maximum average rate of notifications and requests from a server, per second."""
_FIGURE_MOST = 1e300
_PROGRESS = "notifications/progress"
_USED = frozenset({_PROGRESS, "notifications/cancelled"})
_TOOLS_CHANGED = "notifications/tools/list_changed"

Reading: TypeAlias = Any
"""Stand-in for the SDK's private `ReadStream` and `WriteStream`: async context managers with
`receive`, `send` and `aclose`.
"""
Writing: TypeAlias = Any
Streams: TypeAlias = "tuple[Reading, Writing]"


class Allowance:
    """Rate limit: a burst of `most` events, refilled by `per_s` each second."""

    def __init__(self, most: int, per_s: float) -> None:
        self._most, self._per_s = most, per_s
        self._left, self._at = float(most), -math.inf

    def take(self, now: float) -> bool:
        """Count one event at `now`, in seconds. False if none is left."""
        self._left = min(self._left + (now - self._at) * self._per_s, self._most)
        self._at = now
        self._left -= 1
        return self._left >= 0


class Traffic:
    """Filtered messages of one connection."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        """Set once the connection has ended or should end."""
        self.reason: str | None = None
        """Reason why it ended, if known."""
        self.received = 0
        """Number of messages received so far."""
        self.tools_changed = False
        """True once the server has announced that its tools have changed."""
        self.asking = 0
        """The server's requests that have no response yet."""
        self.sieve = Sieve()
        self._unasked = Allowance(UNASKED_MOST, UNASKED_PER_S)

    def end(self, reason: str) -> None:
        """End the connection. Only the first reason is stored."""
        if not self.over.is_set():
            self.reason = self.reason or reason
            self.over.set()

    def lets_in(self, item: SessionMessage | Exception) -> bool:
        """Return True if an incoming message is accepted. Call this once for each."""
        if isinstance(item, Exception) or self.over.is_set():
            return False
        self.received += 1
        if isinstance(
            item.message, JSONRPCNotification | JSONRPCRequest
        ) and not self._unasked.take(time.monotonic()):
            self.end(f"it sends more than {UNASKED_PER_S} messages a second that nothing requested")
            return False
        match item.message:
            case JSONRPCNotification(method=method):
                self.tools_changed = self.tools_changed or method == _TOOLS_CHANGED
                return method in _USED and _is_whole(method, item.message.params or {})
            case JSONRPCRequest():
                if self.asking >= ASKING_MOST:
                    return False
                self.asking += 1
                return True
            case JSONRPCResponse() as response:
                self.sieve.answers(response)
                return True
            case _:
                return True

    def sends(self, item: SessionMessage) -> None:
        """Record an outgoing message before it is sent. Call this once per message."""
        if isinstance(item.message, JSONRPCRequest):
            self.sieve.asks(item.message)

    def sent(self, item: SessionMessage) -> None:
        """Record an outgoing message after it was sent. Call this once per message."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.asking -= 1

    @asynccontextmanager
    async def watched(
        self, transport: AbstractAsyncContextManager[Streams]
    ) -> AsyncGenerator[Streams]:
        async with transport as (reading, writing):
            yield _Reading(reading, self), _Writing(writing, self)


def _is_whole(method: str, params: Mapping[str, Any]) -> bool:
    """Return True if the SDK can parse a notification. It logs a traceback for each that it
    cannot.
    """
    name = "progressToken" if method == _PROGRESS else "requestId"
    if type(params.get(name)) not in (str, int):
        return False
    figures = [params.get("progress"), params.get("total") or 0] if method == _PROGRESS else []
    words = params.get("message" if method == _PROGRESS else "reason")
    return (words is None or isinstance(words, str)) and all(
        isinstance(figure, int | float) and abs(figure) <= _FIGURE_MOST for figure in figures
    )


class _Stream:
    def __init__(self, inner: Any, traffic: Traffic) -> None:
        self._inner, self._traffic = inner, traffic

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class _Reading(_Stream):
    @property
    def last_context(self) -> Any:
        """Context in which the SDK handles a message: that of the sender of the request to which it
        belongs.
        """
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await self._inner.receive()
            if self._traffic.lets_in(item):
                return item
            await anyio.lowlevel.checkpoint()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Writing(_Stream):
    async def send(self, item: SessionMessage) -> None:
        self._traffic.sends(item)
        await self._inner.send(item)
        self._traffic.sent(item)
