"""Soak the connection to model providers: requests for as long as you like against a server that
cuts, resets, stalls and closes at random, half of them over TLS, a tenth of them cancelled.

    python -m benchmarks.soak --seconds 3600

Prints descriptors, tasks and memory (MB, resident) each minute, and exits with 1 if one of them
has grown since the first of those lines. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import random
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import trustme

from treadle.errors import AgentError
from treadle.models.providers.http import HttpConnection

CLIENTS = 40
REQUESTS_PER_CONNECTION = 500
"""Requests of one client until it closes its connection and opens another."""
GROWTH_MB = 4.0
PIECE = b"data: " + b"x" * 200 + b"\n\n"
FAILURES = ("reset", "cut", "close", "stall", "garbage")


# ---------------------------------------------------------------- the server


async def serve(port_file: Path, certificate: Path) -> None:
    """Serve plain HTTP and TLS until stdin ends."""
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of writes after a reset
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    ports: list[str] = []
    for context in (None, tls):
        server = await asyncio.start_server(_client, "127.0.0.1", 0, ssl=context)
        ports.append(str(server.sockets[0].getsockname()[1]))
    port_file.with_suffix(".new").write_text(" ".join(ports))
    port_file.with_suffix(".new").rename(port_file)
    await asyncio.to_thread(sys.stdin.read)


async def _client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        while await _answer(reader, writer):
            pass
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request. False if the connection ends with it."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
    await reader.readexactly(length)
    failure = random.choice(FAILURES) if random.random() < 0.3 else ""
    if failure == "garbage":
        writer.write(random.randbytes(200))
        return False
    if random.random() < 0.1:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    pieces = random.randrange(1, 30)
    broken_at = random.randrange(pieces) if failure else -1
    for n in range(pieces):
        if n == broken_at:
            if failure == "stall":
                await asyncio.sleep(0.2)
            elif failure == "reset" and writer.get_extra_info("ssl_object") is None:
                raw: socket.socket = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            else:
                return False
        writer.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    return random.random() < 0.95


# ---------------------------------------------------------------- the clients


async def ask(url: str, until: float, counted: Counter[str]) -> None:
    """Send requests until the time is over, and count how each ended."""
    while time.monotonic() < until:
        connection = HttpConnection(url, {})
        for _ in range(REQUESTS_PER_CONNECTION):
            if time.monotonic() >= until:
                break
            with anyio.move_on_after(
                random.random() / 20 if random.random() < 0.1 else None
            ) as cut:
                counted[await _one(connection)] += 1
            counted["cancelled"] += cut.cancelled_caught
        await connection.aclose()


async def _one(connection: HttpConnection) -> str:
    try:
        async with connection.post("/v1/messages", b"{}" * random.randrange(200), {}) as reply:
            while await reply.read():
                pass
    except AgentError as error:
        return error.kind.value
    return "whole"


def measured() -> tuple[int, int, float]:
    """Return the open descriptors, the tasks, and the resident memory in MB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * resource.getpagesize() / 1e6
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), memory


async def watch(until: float, counted: Counter[str]) -> list[tuple[int, int, float]]:
    """Measure each minute; print a line for each."""
    lines: list[tuple[int, int, float]] = []
    began = time.monotonic()
    while (left := until - time.monotonic()) > 0:
        await anyio.sleep(min(left, 60))
        lines.append(measured())
        descriptors, tasks, memory = lines[-1]
        print(
            f"{time.monotonic() - began:6.0f} s  {counted.total():9,} requests  "
            f"{descriptors:4} descriptors  {tasks:4} tasks  {memory:6.1f} MB",
            flush=True,
        )
    return lines


async def soak(ports: list[int], seconds: float) -> bool:
    """Run the clients. True if nothing has grown, and nothing is left open at the end."""
    counted = Counter[str]()
    before = measured()
    until = time.monotonic() + seconds
    async with anyio.create_task_group() as group:
        for n in range(CLIENTS):
            scheme = ("http", "https")[n % 2]
            group.start_soon(ask, f"{scheme}://127.0.0.1:{ports[n % 2]}", until, counted)
        lines = await watch(until - 1, counted)
    await anyio.sleep(0.1)
    after = measured()
    print(f"{counted.total():,} requests: {dict(sorted(counted.items()))}")
    print(f"descriptors {before[0]} before, {after[0]} after; tasks {before[1]}, {after[1]}")
    if left := after[:2] != before[:2]:
        print("something is left open")
    grown = lines[-1][2] - lines[0][2]
    print(f"memory {lines[0][2]:.1f} MB after the first minute, {lines[-1][2]:.1f} MB at the end")
    return not left and grown < GROWTH_MB


def main() -> int:
    """Run the command line; return 1 if something has grown or is left open."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--serve", nargs=2, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve(*chosen.serve))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(f"{folder}/ca.pem")
        authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            f"{folder}/pair.pem"
        )
        os.environ["SSL_CERT_FILE"] = f"{folder}/ca.pem"
        ports = Path(folder, "ports")
        command = [
            sys.executable,
            "-m",
            "benchmarks.soak",
            "--serve",
            str(ports),
            f"{folder}/pair.pem",
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
            try:
                while not ports.exists():
                    if server.poll() is not None:
                        raise SystemExit("the server has ended")
                    time.sleep(0.05)
                held = asyncio.run(
                    soak([int(port) for port in ports.read_text().split()], chosen.seconds)
                )
            finally:
                assert server.stdin is not None, "it is a pipe"
                server.stdin.close()
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
