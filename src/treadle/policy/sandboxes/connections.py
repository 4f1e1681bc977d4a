"""Connections of all proxies of this process: acceptance and limits, so that descriptors remain for
other uses.

Each takes two descriptors. Proxies share them fairly: a proxy above its share loses connections to
one below it. Entry: `accept`, `Shares`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Protocol

import anyio

AGAIN_S = 0.2
"""Seconds before a proxy accepts again after the process had no descriptor left."""
LEAST = 16


class ProxyConnection(Protocol):
    moved_at: float

    def abort(self) -> None: ...


class Shares:
    """Number of connections of each proxy. Used only in the thread that runs all proxies."""

    def __init__(self) -> None:
        self._of_all: list[set[ProxyConnection]] = []

    @contextmanager
    def sharing(self, connections: set[ProxyConnection]) -> Generator[None]:
        """Count these connections inside the block."""
        self._of_all.append(connections)
        try:
            yield
        finally:
            self._of_all[:] = [each for each in self._of_all if each is not connections]

    def is_full(self, own: set[ProxyConnection], most: int) -> bool:
        """Return True if a proxy must not open another connection.

        If it may open one, but all proxies together are at the limit, abort the longest-idle
        connection of the proxy with the most.
        """
        if len(own) >= most:
            return True
        if sum(map(len, self._of_all)) >= connections_max():
            largest = max(self._of_all, key=len)
            if len(largest) <= len(own):
                return True
            idle = min(largest, key=lambda connection: connection.moved_at)
            largest.discard(idle)
            idle.abort()
        return False


SHARES = Shares()


def connections_max() -> int:
    """Return the limit for all proxies together: half of the process's descriptor limit, at two
    descriptors for each connection.
    """
    if sys.platform == "win32":
        return 128
    import resource  # noqa: PLC0415  not on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else min(max(soft // 4, LEAST), 4096)


async def accept(listening: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
    """Accept connections one at a time, until cancelled.

    `asyncio.Server` accepts a whole backlog in one go, and logs each failure. `loop.sock_accept`
    loses a connection that arrives in the moment of its cancellation, and logs an error.
    """
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    while True:
        await anyio.wait_readable(listening)
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:
            continue
        except OSError:
            await anyio.sleep(AGAIN_S)
            continue
        with suppress(OSError):
            await loop.connect_accepted_socket(make, accepted)
