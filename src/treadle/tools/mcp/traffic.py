"""What passes between a server and the SDK: what is of no use to us stays out, and what is seen on
the way is kept for people.

Not here: the transports (stdio.py, http.py). Entry: `Traffic`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self, TypeAlias

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from treadle.tools.mcp.sieve import Sieve

ASKING_MOST = 32
"""Requests of a server that are open at once; further ones get no answer."""
_USED = frozenset({"notifications/progress", "notifications/cancelled"})
_TOOLS_CHANGED = "notifications/tools/list_changed"

Reading: TypeAlias = Any
"""`ReadStream` and `WriteStream` are private words of the SDK, whose form is: receive, send,
aclose, and an async with.
"""
Writing: TypeAlias = Any
Streams: TypeAlias = "tuple[Reading, Writing]"


class Traffic:
    """Of one connection."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        """Set where the connection has ended or is to end."""
        self.reason: str | None = None
        """Why, where somebody knows."""
        self.received = 0
        """Messages so far."""
        self.tools_changed = False
        """It has said that its tools are not what they were."""
        self.asking = 0
        """Its requests that have no answer yet."""
        self.sieve = Sieve()

    def end(self, reason: str) -> None:
        """The first reason counts."""
        if not self.over.is_set():
            self.reason = self.reason or reason
            self.over.set()

    def lets_in(self, item: SessionMessage | Exception) -> bool:
        """Called once for each that comes."""
        if isinstance(item, Exception):
            return False
        self.received += 1
        match item.message:
            case JSONRPCNotification(method=method):
                self.tools_changed = self.tools_changed or method == _TOOLS_CHANGED
                return method in _USED
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
        """Called once for each that is to leave."""
        if isinstance(item.message, JSONRPCRequest):
            self.sieve.asks(item.message)

    def sent(self, item: SessionMessage) -> None:
        """Called once for each that has left."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.asking -= 1

    @asynccontextmanager
    async def watched(
        self, transport: AbstractAsyncContextManager[Streams]
    ) -> AsyncGenerator[Streams]:
        async with transport as (reading, writing):
            yield _Reading(reading, self), _Writing(writing, self)


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
        """In which the SDK handles a message: that of whoever sent the request that it belongs to."""  # noqa: E501
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
