"""Proxy through which confined commands reach listed hosts, with CONNECT and plain HTTP. It checks
names first and then addresses.

A name is resolved once, each of its addresses must be public, and only these are connected to. TLS
is never decrypted, so the proxy knows the host of a tunnel but not its contents. A plain request
has its own connection. See also: parsing requests (request_head.py), resolving names (lookups.py),
limits on connections (connections.py), listed hosts (config/hosts.py), the namespace (egress.py).
Entry: `Proxy`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias, cast

import anyio
from anyio.lowlevel import checkpoint

from treadle._internal.addresses import why_private
from treadle.config.hosts import is_literal
from treadle.policy.sandboxes.connections import SHARES, ProxyConnection, accept
from treadle.policy.sandboxes.lookups import Lookups, Resolve, resolve
from treadle.policy.sandboxes.parent_proxy import ParentProxies, connect_through
from treadle.policy.sandboxes.proxy_streams import CONNECTIONS_MAX, ProxyClient, ProxyServer
from treadle.policy.sandboxes.request_head import (
    RequestHead,
)

HEAD_S = 30.0
IDLE_S = 900.0
"""Seconds without traffic after which a connection is closed."""
CONNECT_S = 20.0
"""Timeout in seconds for resolving a name and all attempts to connect."""
_ATTEMPT_S = 5.0
"""Timeout in seconds for an address other than the last one."""
_ADDRESSES_S = 30.0
"""Seconds for which the checked addresses of a name are reused."""
_ADDRESSES_MAX = 256
_SWEEP_S = 5.0

Route: TypeAlias = Callable[[str, int], tuple[str, int]]
"""Function that maps an address and a port to the actual destination: the same, except in tests."""


class RefusedHost(Exception):
    """Refusal of a host. The text has the host, the setting and the remedy."""


def straight(address: str, port: int) -> tuple[str, int]:
    return address, port


class Proxy:
    """Proxy for one listening socket, running for as long as `serve`."""

    def __init__(
        self,
        allows: Callable[[str, int], bool],
        refused: Callable[[str, str], None],
        *,
        parents: ParentProxies | None = None,
        resolve: Resolve = resolve,
        route: Route = straight,
    ) -> None:
        """Create a proxy. `allows`: decides by normalised name and port. `refused` is called with
        each refused host and the reason. `resolve` and `route` differ only in tests.

        `parents`: proxies of the user's own environment. They resolve names themselves, so the
        addresses are not checked.
        """
        self._allows, self._refused = allows, refused
        self._parents = parents or ParentProxies({})
        self._resolve, self._route = resolve, route
        self._checked: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self._lookups: Lookups | None = None  # while `serve` runs
        self._stopped = anyio.Event()
        self.connections: set[ProxyClient] = set()

    async def serve(self, listening: socket.socket) -> None:
        """Serve until `stop` or cancelled, then abort every connection. Closes the socket."""
        try:
            with listening, SHARES.sharing(cast("set[ProxyConnection]", self.connections)):
                await self._serve(listening)
        finally:
            for client in list(self.connections):
                client.abort()
        await checkpoint()  # asyncio closes an aborted socket in the next iteration of its loop

    async def _serve(self, listening: socket.socket) -> None:
        async with anyio.create_task_group() as opening:
            self._lookups = Lookups(self._resolve, opening.start_soon)
            open_for = partial(opening.start_soon, self._open)
            listening.listen(CONNECTIONS_MAX)
            opening.start_soon(accept, listening, lambda: ProxyClient(self.connections, open_for))
            while not self._stopped.is_set():
                with anyio.move_on_after(_SWEEP_S):
                    await self._stopped.wait()
                self._sweep(anyio.current_time())
            opening.cancel_scope.cancel()

    async def stop(self) -> None:
        """Make `serve` return soon."""
        self._stopped.set()

    def forget_addresses(self) -> None:
        """Forget resolved names."""
        self._checked.clear()
        if self._lookups is not None:
            self._lookups.forget()

    def _sweep(self, now: float) -> None:
        for client in list(self.connections):
            if now - client.moved_at > (IDLE_S if client.other is not None else HEAD_S + CONNECT_S):
                client.abort()

    async def _open(self, client: ProxyClient, head: RequestHead) -> None:
        """Connect a client to its host, or send it the reason for the refusal. Cancellation leaves
        no connection:

        `serve` aborts open ones.
        """
        try:
            with anyio.fail_after(CONNECT_S):
                await self._connect(client, head)
        except RefusedHost as e:
            self._refused(head.host, str(e))
            client.answer(403, str(e))
        except TimeoutError:
            client.answer(504, f"{head.host} did not answer within {CONNECT_S:.0f} s")
        except (OSError, UnicodeError) as e:
            client.answer(
                502,
                (
                    f"{head.host} could not be reached: "
                    f"{getattr(e, 'strerror', None) or e or type(e).__name__}"
                ),
            )

    async def _connect(self, client: ProxyClient, head: RequestHead) -> None:
        """Connect to a host. Raises Refused, OSError and TimeoutError."""
        host, port = head.host, head.port
        if not self._allows(host, port):
            raise RefusedHost(
                f"commands cannot reach {host}:{port}: the setting permissions.network does not "
                "list it. The user can add it there"
            )
        if (parent := self._parents.of(head)) is not None:
            if is_literal(host) and (why := why_private(host)) is not None:
                raise RefusedHost(_private(host, host, why))
            await connect_through(parent, head, partial(ProxyServer, client))
            return
        *others, last = await self._addresses(host, port)
        for address in others:
            with anyio.move_on_after(_ATTEMPT_S), suppress(OSError):
                await self._attempt(address, head, client)
                return
        await self._attempt(last, head, client)

    async def _attempt(self, address: str, head: RequestHead, client: ProxyClient) -> None:
        await asyncio.get_running_loop().create_connection(
            partial(ProxyServer, client, head.data), *self._route(address, head.port)
        )

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Resolve a name once and check its addresses. A name with one private address is refused,
        because it would bypass this check.
        """
        now = asyncio.get_running_loop().time()
        known = self._checked.get((host, port))
        if known is not None and now - known[0] < _ADDRESSES_S:
            return known[1]
        assert self._lookups is not None, "it serves"
        found = (
            [host] if is_literal(host) else list(dict.fromkeys(await self._lookups.of(host, port)))
        )
        for address in found:
            if (why := why_private(address)) is not None:
                raise RefusedHost(_private(host, address, why))
        if not found:
            raise OSError("it has no address")
        if len(self._checked) >= _ADDRESSES_MAX:
            self._checked.clear()
        self._checked[host, port] = (now, found)
        return found


def _private(host: str, address: str, why: str) -> str:
    where = "" if address == host else f"{address}, "
    return (
        f"commands cannot reach {host}: it is {where}{why}, and the hosts of permissions.network "
        "are public ones. The user can set it to open"
    )


# ---------------------------------------------------------------- the two sides of a connection
