"""Name resolution of a proxy: a few at a time, each name once for all callers, with failures cached
briefly. Entry: `Lookups`, `resolve`.

A resolver may take half a minute for a name whose server responds slowly. Each proxy therefore
waits only for its own names.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import anyio
from anyio import to_thread

AT_ONCE = 4
"""Maximum number of concurrent lookups of one proxy.

Each occupies a thread until the resolver answers, even after all callers have left.
"""
FAILED_S = 5.0
FAILED_MAX = 256

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Function that returns the addresses of a name. Raises OSError."""


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a name with the system's resolver, in a thread that no other proxy waits for."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await to_thread.run_sync(ask, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    return [str(where[0]) for *_, where in found]


class _Lookup:
    """Lookup of a name that is in progress."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.found: list[str] = []
        self.error: Exception | None = None


class Lookups:
    """Name lookups of one proxy. `start_soon` runs them while the proxy serves."""

    def __init__(self, resolve: Resolve, start_soon: Callable[..., object]) -> None:
        self._resolve, self._start_soon = resolve, start_soon
        self._places = anyio.CapacityLimiter(AT_ONCE)
        self._under_way: dict[str, _Lookup] = {}
        self._failed: dict[str, tuple[float, Exception]] = {}

    async def of(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name. Raises OSError and UnicodeError. Cancellation: the lookup
        continues for other callers.
        """
        now = asyncio.get_running_loop().time()
        failed = self._failed.get(host)
        if failed is not None and now - failed[0] < FAILED_S:
            raise failed[1].with_traceback(None)
        lookup = self._under_way.get(host)
        if lookup is None:
            lookup = self._under_way[host] = _Lookup()
            self._start_soon(self._look_up, host, port, lookup)
        await lookup.done.wait()
        if lookup.error is not None:
            raise lookup.error.with_traceback(None)
        return lookup.found

    def forget(self) -> None:
        """Forget failed lookups, so that they are repeated."""
        self._failed.clear()

    async def _look_up(self, host: str, port: int, lookup: _Lookup) -> None:
        try:
            async with self._places:
                lookup.found = await self._resolve(host, port)
        except (OSError, UnicodeError) as e:
            lookup.error = e
            if len(self._failed) >= FAILED_MAX:
                self._failed.clear()
            self._failed[host] = (asyncio.get_running_loop().time(), e)
        finally:
            del self._under_way[host]
            lookup.done.set()
