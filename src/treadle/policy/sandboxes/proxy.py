"""The proxy through which confined commands reach listed hosts: CONNECT and plain HTTP, names
checked first and addresses after them.

A name is resolved once; each of its addresses must be public, and exactly these are connected to.
TLS is never opened, so the proxy knows the host of a tunnel and not what it carries. A plain
request has a connection of its own. Not here: reading requests (request_head.py), asking for names
(lookups.py), how many connections there may be (connections.py), which hosts are listed
(config/hosts.py), the namespace (egress.py). Entry: `Proxy`.
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
from typing_extensions import override

from treadle._internal.addresses import why_private
from treadle.config.hosts import is_literal
from treadle.policy.sandboxes.connections import SHARES, ProxyConnection, accept
from treadle.policy.sandboxes.lookups import Lookups, Resolve, resolve
from treadle.policy.sandboxes.parent_proxy import ParentProxies, connect_through
from treadle.policy.sandboxes.request_head import (
    HEAD_BYTES_MAX,
    BadRequest,
    RequestBody,
    RequestHead,
    read_head,
)

CONNECTIONS_MAX = 128
"""Connections of one proxy; connections.py limits those of all."""
HEAD_S = 30.0
IDLE_S = 900.0
"""A connection on which nothing moves for so long is closed."""
CONNECT_S = 20.0
"""Time for the resolution of a name and all attempts to connect."""
_ATTEMPT_S = 5.0
"""Time for an address other than the last one."""
_ADDRESSES_S = 30.0
"""Time for which the checked addresses of a name are reused."""
_ADDRESSES_MAX = 256
_SWEEP_S = 5.0
_PIECE = 64 * 1024

Route: TypeAlias = Callable[[str, int], tuple[str, int]]
"""Maps an address and a port to those to connect to: the same, except in tests."""

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    431: "Request Header Fields Too Large",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class RefusedHost(Exception):
    """A host that may not be reached; the text names it, the setting, and what can be done."""


def straight(address: str, port: int) -> tuple[str, int]:
    return address, port


class Proxy:
    """Serves one listening socket for as long as `serve` runs."""

    def __init__(
        self,
        allows: Callable[[str, int], bool],
        refused: Callable[[str, str], None],
        *,
        parents: ParentProxies | None = None,
        resolve: Resolve = resolve,
        route: Route = straight,
    ) -> None:
        """`allows`: by plain name and port. `refused` is called with each refused host and the
        reason. `resolve` and `route` differ in tests only.

        `parents`: proxies of the user's own environment. Names that go through one are resolved
        there, so their addresses are not checked.
        """
        self._allows, self._refused = allows, refused
        self._parents = parents or ParentProxies({})
        self._resolve, self._route = resolve, route
        self._checked: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self._lookups: Lookups | None = None  # while it serves
        self._stopped = anyio.Event()
        self.connections: set[_Client] = set()

    async def serve(self, listening: socket.socket) -> None:
        """Serve until `stop` or cancelled; then every connection is aborted. Closes the socket."""
        try:
            with listening, SHARES.sharing(cast("set[ProxyConnection]", self.connections)):
                await self._serve(listening)
        finally:
            for client in list(self.connections):
                client.abort()
        await checkpoint()  # asyncio closes an aborted socket with the next turn of its loop

    async def _serve(self, listening: socket.socket) -> None:
        async with anyio.create_task_group() as opening:
            self._lookups = Lookups(self._resolve, opening.start_soon)
            open_for = partial(opening.start_soon, self._open)
            listening.listen(CONNECTIONS_MAX)
            opening.start_soon(accept, listening, lambda: _Client(self.connections, open_for))
            while not self._stopped.is_set():
                with anyio.move_on_after(_SWEEP_S):
                    await self._stopped.wait()
                self._sweep(anyio.current_time())
            opening.cancel_scope.cancel()

    async def stop(self) -> None:
        """End `serve` soon."""
        self._stopped.set()

    def forget_addresses(self) -> None:
        """Resolve every name again."""
        self._checked.clear()
        if self._lookups is not None:
            self._lookups.forget()

    def _sweep(self, now: float) -> None:
        for client in list(self.connections):
            if now - client.moved_at > (IDLE_S if client.other is not None else HEAD_S + CONNECT_S):
                client.abort()

    async def _open(self, client: _Client, head: RequestHead) -> None:
        """Connect a client, or answer it with the reason. Cancellation leaves no connection:

        `serve` aborts those that stand.
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

    async def _connect(self, client: _Client, head: RequestHead) -> None:
        """Raises Refused, OSError and TimeoutError."""
        host, port = head.host, head.port
        if not self._allows(host, port):
            raise RefusedHost(
                f"commands cannot reach {host}:{port}: the setting permissions.network does not "
                "list it. The user can add it there"
            )
        if (parent := self._parents.of(head)) is not None:
            if is_literal(host) and (why := why_private(host)) is not None:
                raise RefusedHost(_private(host, host, why))
            await connect_through(parent, head, partial(_Server, client))
            return
        *others, last = await self._addresses(host, port)
        for address in others:
            with anyio.move_on_after(_ATTEMPT_S), suppress(OSError):
                await self._attempt(address, head, client)
                return
        await self._attempt(last, head, client)

    async def _attempt(self, address: str, head: RequestHead, client: _Client) -> None:
        await asyncio.get_running_loop().create_connection(
            partial(_Server, client, head.data), *self._route(address, head.port)
        )

    async def _addresses(self, host: str, port: int) -> list[str]:
        """Resolved once and checked: a name with one private address is refused, because it is a
        way around this check.
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


# ---------------------------------------------------------------- the two ends of a connection


class _End(asyncio.Protocol):
    """Side of a connection: its input goes to the other side, no faster than that accepts it."""

    transport: asyncio.Transport
    other: _End | None = None
    has_ended = False
    """True after its end of input."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        # 256 KiB, which the allocator would map and unmap for each piece: a fifth of the processor
        # time
        if hasattr(transport, "max_size"):
            setattr(transport, "max_size", _PIECE)  # noqa: B010  asyncio's own, which its interface leaves out

    @override
    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    @override
    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    @override
    def eof_received(self) -> bool:
        """End one direction; the other continues by itself."""
        self.has_ended = True
        if self.other is None:
            return False
        if self.other.has_ended or not self.other.transport.can_write_eof():
            self.other.transport.close()
            return False
        self.other.transport.write_eof()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close() if exc is None else self.other.transport.abort()


class _Client(_End):
    """The command's side. Reads one request, has it connected, and then relays."""

    def __init__(
        self, connections: set[_Client], open_for: Callable[[_Client, RequestHead], object]
    ) -> None:
        """`connections`: to which it belongs while it lasts.

        `open_for` has a request connected, or answered.
        """
        self._connections, self._open_for = connections, open_for
        self._received = b""
        """Input received before it is connected."""
        self._head: RequestHead | None = None
        self.body: RequestBody | None = None
        """Body of a plain request."""
        self._answered = False
        self.now = asyncio.get_running_loop().time
        self.moved_at = self.now()

    def abort(self) -> None:
        self.transport.abort()
        if self.other is not None:
            self.other.transport.abort()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if SHARES.is_full(cast("set[ProxyConnection]", self._connections), CONNECTIONS_MAX):
            self.answer(
                503, f"{len(self._connections)} connections are open, and there can be no more"
            )
            self.transport.close()
        else:
            self._connections.add(self)

    @override
    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.moved_at = self.now()
            self._relay(data)
        elif not self._answered:
            self._received += data
            if self._head is None:
                self._begin()

    def _begin(self) -> None:
        """Connect in a task once the head is complete, and read nothing until then."""
        end = self._received.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX) + 4
        if end < 4:
            if len(self._received) >= HEAD_BYTES_MAX:
                self.answer(431, "The head of the request is too long")
            return
        try:
            self._head = head = read_head(self._received[:end])
        except BadRequest as e:
            self.answer(400, str(e))
            return
        self._received = self._received[end:]
        self.body = None if head.is_tunnel else RequestBody(head.length)
        self.transport.pause_reading()
        self._open_for(self, head)

    def connected(self, server: _Server, first: bytes) -> None:
        """`first`: the head for the server; empty for a tunnel."""
        if self.transport.is_closing() or self.other is not None:
            server.transport.abort()
            return
        self.moved_at = self.now()
        self.other, server.other = server, self
        if first:
            server.transport.write(first)
        else:
            self.transport.write(_ESTABLISHED)
        waiting, self._received = self._received, b""
        if waiting:
            self._relay(waiting)
        self.transport.resume_reading()

    def _relay(self, data: bytes) -> None:
        assert self.other is not None, "it relays once it is connected"
        if self.body is None:
            self.other.transport.write(data)
            return
        try:
            size = self.body.take(data)
        except BadRequest:
            self.abort()
            return
        # what comes after the body would be another request, which was not checked: it goes nowhere
        if size:
            self.other.transport.write(data[:size])

    @override
    def eof_received(self) -> bool:
        if self.body is None or self.other is None:
            return super().eof_received()
        if not self.body.is_over:
            self.abort()
        return True

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        super().connection_lost(exc)

    def answer(self, status: int, text: str) -> None:
        """Answer ourselves.

        What the client still sends is dropped, so that it can read the answer before it closes.
        """
        if self._answered or self.other is not None or self.transport.is_closing():
            return
        self._answered = True
        body = f"treadle: {text}.\n".encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.write_eof()
        self.transport.resume_reading()


class _Server(_End):
    """The side of the host."""

    def __init__(self, client: _Client, first: bytes) -> None:
        self._client, self._first = client, first

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._client.connected(self, self._first)

    @override
    def data_received(self, data: bytes) -> None:
        client = self._client
        client.moved_at = client.now()
        client.transport.write(data)

    @override
    def eof_received(self) -> bool:
        if self._client.body is None:
            return super().eof_received()
        return False  # the end of a plain response; `connection_lost` closes the client's side
