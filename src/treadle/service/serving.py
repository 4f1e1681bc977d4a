"""The application in a server process, from binding an address to a shutdown that leaves no run
unfinished unless it can be resumed. Entry points: `bound`, `serve_app`.

connection.py closes slow and idle clients; border.py checks requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Generator
from typing import Final, cast

import uvicorn
from fastapi import FastAPI
from typing_extensions import override

from treadle.errors import AgentError
from treadle.service import connection
from treadle.service.connection_table import ConnectionTable
from treadle.service.state import Service

logger = logging.getLogger("treadle.service")

TICKS_OF_SWEEP: Final = 5
"""Tenths of a second between two sweeps of all connections."""
CLOSING_S: Final = 1
"""Seconds for responses still in progress at the end of the shutdown."""


def bound(host: str, port: int) -> socket.socket:
    """Open a listening socket. `port`: 0 for a free one. Raises AgentError(invalid) if the address
    is unavailable.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sets TCP_NODELAY only if the protocol is given.
        listening = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":  # on Windows it would let two processes share a port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError) as e:
        why = getattr(e, "strerror", None) or str(e)
        raise AgentError(
            "invalid", f"cannot listen on {host} port {port}: {why}: {_way_out(e)}"
        ) from e
    listening.setblocking(False)
    return listening


def _way_out(error: OSError | OverflowError) -> str:
    if isinstance(error, socket.gaierror) or (
        isinstance(error, OSError) and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
    ):
        return "give --host an address or a name of this machine"
    if isinstance(error, PermissionError):
        return "use a --port of 1024 or more"
    return "use another --port, or stop the process that uses this one"


async def serve_app(
    app: FastAPI, listening: socket.socket, *, ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGINT or SIGTERM, or until `service.stopping` is set. Raises AgentError if the
    service cannot be opened.

    `ready` is called once requests are answered.
    """
    service: Service = app.state.service
    _allow_files()
    table = ConnectionTable(service.settings.proxies)
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", table.protocol),  # uvicorn only calls it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=connection.IDLE_S,
        timeout_graceful_shutdown=CLOSING_S,
    )
    async with app.router.lifespan_context(app):
        # Frequent connects and disconnects create reference cycles. Collecting them would also
        # traverse everything imported, and block all clients meanwhile: measured, 190 ms at 135 MB.
        gc.freeze()
        try:
            await _Server(config, service, table, ready).serve([listening])
        finally:
            gc.unfreeze()


class _Server(uvicorn.Server):
    """uvicorn server that shuts down gracefully on signals, and stops the service before it closes
    connections.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        table: ConnectionTable,
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._service, self._table, self._ready = service, table, ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @override
    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_OF_SWEEP == 0:
            self._table.sweep()
        return await super().on_tick(counter) or self._service.stopping.is_set()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:  # accept no new connections
            server.close()
        self._service.stopping.set()
        await self._service.live.drained()
        await super().shutdown(sockets)

    @override
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Start the shutdown on the first signal. The third one invokes the process's original
        handlers.
        """
        if not hasattr(signal, "SIGTERM"):
            yield
            return
        heard = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {number: signal.signal(number, self._heard) for number in heard}
        except ValueError:  # only the main thread handles signals
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _heard(self, number: int, frame: object) -> None:
        if self.should_exit:
            signal.signal(number, signal.SIG_DFL)
        self.should_exit = True


def _allow_files() -> None:
    """Raise the limit of open files to the maximum that the system allows. Each connection needs
    one.
    """
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 16_384) if hard != resource.RLIM_INFINITY else 16_384
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
