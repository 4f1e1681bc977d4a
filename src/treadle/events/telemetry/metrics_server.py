"""HTTP server for a worker's `/metrics`, with bounds: it may listen where others reach it.

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
"""Connections at once; a further one ends the oldest, so that clients that never finish their
request take no place for long.
"""
SILENT_S: Final = 10.0
"""Time that a client may be silent."""

WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug("metrics: " + format, *args)


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves a WSGI application from threads of its own, until `close`."""

    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, host: str, port: int, app: WsgiApp) -> None:
        """Raises OSError if nothing can listen there."""
        self._lock = threading.Lock()
        """Guards the connections."""
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
        TCPServer.server_bind(self)  # HTTPServer's asks the name service
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
        """End a connection, and so its thread. The lock is held."""
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
    """Answer only requests for a loopback address: a web page may lead its own name there."""

    def checked(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", "localhost"))
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name == "localhost" or _is_loopback(name.strip("[]")):
            return app(environ, start_response)
        start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"This host is not served here.\n"]

    return checked
