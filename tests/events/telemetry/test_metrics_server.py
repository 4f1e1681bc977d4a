"""A worker's `/metrics` in reach of hostile clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.attacks import SEEDS, chance
from treadle.events.telemetry import metrics_server
from treadle.events.telemetry.metrics_server import CONNECTIONS_MAX, MetricsServer

HALVES = (b"", b"G", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\nX: ", b"\x16\x03\x01")


def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"treadle_runs_total 1.0\n"]


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    one = MetricsServer("127.0.0.1", 0, answer)
    yield one
    one.close()


def connected(server: MetricsServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


def answered(server: MetricsServer, host: str) -> bytes:
    with connected(server) as client:
        client.sendall(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        with client.makefile("rb") as said:
            return said.read()


@pytest.mark.parametrize("seed", [*SEEDS][::6])  # each waits for three seconds
def test_clients_that_never_finish_take_no_threads_and_no_places(
    server: MetricsServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: there was a thread for each of them, for ever."""
    # a silent client is cut off in time too, which must not hide that there are too many
    monkeypatch.setattr(metrics_server._Handler, "timeout", None)  # pyright: ignore[reportPrivateUsage]
    before, random = {*threading.enumerate()}, chance(seed, "metrics")
    with ExitStack() as held:
        clients = [held.enter_context(connected(server)) for _ in range(4 * CONNECTIONS_MAX)]
        for client in clients:
            with suppress(ConnectionError):
                client.sendall(random.choice(HALVES))
        assert b"treadle_runs_total" in answered(server, "127.0.0.1")
        for client in clients[: 2 * CONNECTIONS_MAX]:
            assert rest_of(client) == b"", "the oldest are shown out"
        assert b"treadle_runs_total" in answered(server, "127.0.0.1")
        serving = [thread for thread in threading.enumerate() if thread not in before]
        for thread in serving[: -CONNECTIONS_MAX - 1]:
            thread.join(timeout=5)
        assert sum(thread.is_alive() for thread in serving) <= CONNECTIONS_MAX + 1


def rest_of(client: socket.socket) -> bytes:
    try:
        return client.recv(1)
    except ConnectionError:
        return b""


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9", "localhost", "localhost:80", "[::1]:9"]
)
def test_a_loopback_address_answers_to_its_own_names(server: MetricsServer, host: str) -> None:
    assert b" 200 " in answered(server, host)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_loopback_address_does_not_answer_to_other_names(
    server: MetricsServer, host: str
) -> None:
    assert b" 421 " in answered(server, host)


def test_another_address_answers_to_every_name() -> None:
    server = MetricsServer("0.0.0.0", 0, answer)
    assert b" 200 " in answered(server, "worker:9100")
    server.close()
