"""HTTP server for a worker's `/metrics`. It limits the number of connections, because it may be
public.

Entry point: `MetricsServer`.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

logger = logging.getLogger("treadle")

CONNECTIONS_MAX: Final = 16
"""Maximum number of connections. A further one closes the oldest, so that unfinished requests
cannot block the server.
"""
SILENT_S: Final = 10.0
"""Timeout of a connection without traffic, in seconds."""

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("metrics: " + format, *args)


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Server of a WSGI application, which runs in threads until `close`."""

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, host: str, port: int, app: WsgiApp) -> None:
        """Bind the address. Raises OSError if it cannot be used."""
        self._lock = threading.Lock()
        """Lock that guards `_connections`."""
        self._connections: dict[socket.socket, None] = {}
        """Open connections, oldest first."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        local = _is_loopback(self.server_address[0])
        self.set_app(_for_local_names(app) if local else app)
        self._thread = threading.Thread(
            target=self.serve_forever, name="treadle-metrics", daemon=True
        )
        self._thread.start()

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would query the name service
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._connections) >= CONNECTIONS_MAX:
                self._cut(next(iter(self._connections)))
            self._connections[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a client of the metrics was cut off", exc_info=True)

    def _cut(self, connection: socket.socket) -> None:
        """Close a connection, which ends its thread. The caller holds the lock."""
        del self._connections[connection]
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.shutdown()
        with self._lock:
            for connection in [*self._connections]:
                self._cut(connection)
        self.server_close()
        self._thread.join()


def _is_loopback(host: object) -> bool:
    with suppress(ValueError):
        return ip_address(str(host)).is_loopback
    return False


def _for_local_names(app: WsgiApp) -> WsgiApp:
    """Reject requests whose host is not a loopback name, against DNS rebinding by web pages."""

    def checked(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", "localhost"))
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name == "localhost" or _is_loopback(name.strip("[]")):
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"This host is not served here.\n"]

    return checked
