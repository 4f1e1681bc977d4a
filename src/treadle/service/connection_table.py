"""The open connections of one server, with limits per address. Entry point: `ConnectionTable`."""

from __future__ import annotations

import ipaddress
from asyncio import AbstractEventLoop
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from treadle.service.connection import BoundedConnection
from treadle.service.windows import network_of

CONNECTIONS_MOST = 4096
CONNECTIONS_OF_ADDRESS = 512
"""Maximum number of connections per IPv4 address or IPv6 /64, except loopback and configured
proxies.
"""


class ConnectionTable:
    """Open connections of one server."""

    def __init__(self, proxies: Collection[str]) -> None:
        self._proxies = frozenset(network_of(one) for one in proxies)
        self._by_network: dict[str, OrderedDict[BoundedConnection, None]] = {}
        """Connections by network, least recently used first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def protocol(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> BoundedConnection:
        """Create a connection registered in this table. Called by uvicorn for each connection."""
        return BoundedConnection(config, server_state, app_state, _loop, table=self)

    def admit(self, connection: BoundedConnection) -> bool:
        """Register a new connection. Return False if the table is full.

        If its network or the server is full, the least recently used connection without a complete
        request is closed: one of that network, or of the largest one.
        """
        network = connection.network
        mine = self._by_network.get(network, ())
        if len(mine) >= CONNECTIONS_OF_ADDRESS and not self._is_exempt(network):
            if not self._evict(network):
                return False
        elif self._size >= CONNECTIONS_MOST:
            largest = max(self._by_network, key=lambda name: len(self._by_network[name]))
            if not self._evict(largest):
                return False
        self._by_network.setdefault(network, OrderedDict())[connection] = None
        self._size += 1
        return True

    def used(self, connection: BoundedConnection) -> None:
        """Record that a connection has received a request or sent a response."""
        mine = self._by_network.get(connection.network, OrderedDict())
        if connection in mine:
            mine.move_to_end(connection)

    def discard(self, connection: BoundedConnection) -> None:
        mine = self._by_network.get(connection.network, OrderedDict())
        if connection in mine:
            del mine[connection]
            self._size -= 1
            if not mine:
                del self._by_network[connection.network]

    def sweep(self) -> None:
        """Close each connection that has been in one state for too long, and read from refused
        ones. Called about twice a second.
        """
        for connection in [one for mine in self._by_network.values() for one in mine]:
            if connection.is_overdue():
                self._close(connection)
            else:
                connection.linger()

    def _evict(self, network: str) -> bool:
        waiting = (one for one in self._by_network[network] if one.is_waiting)
        if (found := next(waiting, None)) is None:
            return False
        self._close(found)
        return True

    def _close(self, connection: BoundedConnection) -> None:
        self.discard(connection)
        connection.transport.abort()

    def _is_exempt(self, network: str) -> bool:
        return network in self._proxies or _is_loopback(network)


def _is_loopback(network: str) -> bool:
    try:
        return ipaddress.ip_network(network).is_loopback or network == "::/64"
    except ValueError:
        return False
