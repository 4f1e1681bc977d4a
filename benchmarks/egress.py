"""Measure the proxy of confined commands: the latency that it adds to a request, and its CPU time.
Prints a table.

    python benchmarks/egress.py [--reps N]

A client and a server on loopback talk directly and through the proxy, in turns. The proxy has its
own process, whose CPU time is read from the kernel. `decision` is our own part of each request
(reading the head, matching the host, writing the new head), without the kernel's share for
accepting, connecting and copying. A missed limit is printed, not raised. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import statistics
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection

import anyio

from treadle.config.hosts import HostList
from treadle.policy.sandboxes.proxy import Proxy
from treadle.policy.sandboxes.request_head import read_head

LATENCY_MS, PROCESSOR_US = 1.0, 20.0
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024
REQUEST = b"GET /simple/treadle/ HTTP/1.1\r\nHost: example.org\r\nUser-Agent: pip/25.3\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n\r\n"
ABSOLUTE = REQUEST.replace(b"GET /", b"GET http://example.org/")
CONNECT = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nUser-Agent: pip/25.3\r\nProxy-Connection: Keep-Alive\r\n\r\n"


def serve(listening: socket.socket) -> None:
    def answer(stream: socket.socket) -> None:
        with stream:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := stream.recv(65536):
                stream.sendall(RESPONSE)
                if b"Connection: close" in data:
                    return

    while True:
        stream, _ = listening.accept()
        threading.Thread(target=answer, args=(stream,), daemon=True).start()


def run_proxy(listening: socket.socket, port: int, asked: Connection) -> None:
    """Run the proxy in a process of its own, which reports its CPU time on request."""

    async def resolve(host: str, to: int) -> list[str]:
        return ["93.184.216.34"]

    def tell() -> None:
        while asked.poll(None) and asked.recv():
            used = resource.getrusage(resource.RUSAGE_SELF)
            asked.send(used.ru_utime + used.ru_stime)
        os._exit(0)

    threading.Thread(target=tell, daemon=True).start()
    hosts = HostList.of(["default", "*.python.org", "example.org"], {})
    anyio.run(
        Proxy(
            hosts.allows,
            lambda host, why: None,
            resolve=resolve,
            route=lambda address, to: ("127.0.0.1", port),
        ).serve,
        listening,
    )


def exchange(stream: socket.socket, request: bytes, size: int = len(RESPONSE)) -> None:
    stream.sendall(request)
    while size > 0:
        size -= len(stream.recv(65536))


def connected(port: int, request: bytes = b"") -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if request:
        stream.sendall(request)
        assert b" 200 " in stream.recv(65536)
    return stream


def once(port: int, request: bytes) -> None:
    with connected(port) as stream:
        exchange(stream, request)


def tunnelled(port: int) -> None:
    with connected(port, CONNECT) as stream:
        exchange(stream, REQUEST)


def timed(reps: int, call: Callable[[], None]) -> list[float]:
    """Return the milliseconds of each request."""
    found: list[float] = []
    for _ in range(reps):
        begun = time.perf_counter()
        call()
        found.append((time.perf_counter() - begun) * 1000)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reps", type=int, default=3000)
    reps = parser.parse_args().reps
    server, listening = (
        socket.create_server(("127.0.0.1", 0), backlog=128),
        socket.create_server(("127.0.0.1", 0), backlog=128),
    )
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    direct, proxied = server.getsockname()[1], listening.getsockname()[1]
    ours, theirs = get_context("fork").Pipe()
    process = get_context("fork").Process(
        target=run_proxy, args=(listening, direct, theirs), daemon=True
    )
    process.start()
    once(proxied, ABSOLUTE)

    def processor_s() -> float:
        ours.send(True)
        return ours.recv()

    def row(
        name: str, through: Callable[[], None], straight: Callable[[], None], count: int
    ) -> None:
        base, before = timed(count, straight), processor_s()
        found = timed(count, through)
        used = (processor_s() - before) / count * 1e6
        added = statistics.median(found) - statistics.median(base)
        missed = (
            ""
            if added <= LATENCY_MS and used <= PROCESSOR_US
            else "  (wanted: " + f"{LATENCY_MS:g} ms, {PROCESSOR_US:g} µs)"
        )
        print(
            f"{name:34} {added:8.3f} ms added {statistics.quantiles(found, n=20)[-1]:8.3f} ms p95 {used:8.1f} µs processor{missed}"
        )

    with connected(direct) as straight, connected(proxied, CONNECT) as tunnel:
        row(
            "request in a kept tunnel",
            lambda: exchange(tunnel, REQUEST),
            lambda: exchange(straight, REQUEST),
            reps,
        )
    row(
        "tunnel and one request",
        lambda: tunnelled(proxied),
        lambda: once(direct, REQUEST),
        reps // 3,
    )
    row("plain request", lambda: once(proxied, ABSOLUTE), lambda: once(direct, REQUEST), reps // 3)
    hosts = HostList.of(["default", "*.python.org"], {})
    for name, head in (
        ("decision on a plain request", ABSOLUTE),
        ("decision on a tunnel", CONNECT),
    ):
        begun = time.process_time()
        for _ in range(reps * 5):
            hosts.allows(*read_head(head)[:2])
        print(f"{name:34} {(time.process_time() - begun) / reps / 5 * 1e6:44.1f} µs processor")
    ours.send(False)
    process.join()


if __name__ == "__main__":
    main()
