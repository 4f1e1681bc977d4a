"""Names that a proxy resolves: few at a time, each once however many ask, and a failure is kept for
a moment. Entry: `Lookups`, `resolve`.

A resolver may take half a minute for a name that its owner answers slowly. So each proxy waits for
its own names only, and starves no other.
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
"""Lookups of one proxy.

Each occupies a thread until the resolver answers, also after all who asked have left.
"""
FAILED_S = 5.0
FAILED_MAX = 256

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Return the addresses of a name. Raises OSError."""


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver, in a thread that no other proxy waits for."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await to_thread.run_sync(ask, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
    return [str(where[0]) for *_, where in found]


class _Lookup:
    """A lookup in progress."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.found: list[str] = []
        self.error: Exception | None = None


class Lookups:
    """Lookups of one proxy. `start_soon` runs them while the proxy serves."""

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
        """Resolve names that failed again."""
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
