"""Measure the latency of well-behaved clients of the service while hostile clients hammer it.

    python -m benchmarks.hostile --seconds 60

The hostile clients run in a process of their own, from four other addresses of the loopback. They
send broken requests, trailers without end, and heads one byte at a time; they hold connections, and
read no responses. Prints the latency of `GET /tasks` over kept connections, without and with them,
and the service's memory and descriptors. Exits with 1 if the 99th percentile is above 150 ms, or a
request failed. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from benchmarks.service import rss_mb, served
from tests.attacks.clients import hostile

P99_MS = 150.0
USERS = 8
PAUSE_S = 0.1
"""Pause of each well-behaved client between its requests."""
ADDRESSES = tuple(f"127.0.0.{n}" for n in range(2, 6))
HOLDERS = 200
"""Connections that each address holds without a word."""
HAMMERS = 4
"""Clients of each other kind at each address."""
PATIENCE_S = 5.0
PASSWORD = "a loom has two treadles"
CHUNKED = (
    b"POST /auth/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


# ---------------------------------------------------------------- hostile clients


async def broken(line: Line) -> None:
    """Send one generated request, and read what comes."""
    reader, writer = line
    writer.write(hostile(random.Random()))
    await writer.drain()
    await reader.read()


async def trailers(line: Line) -> None:
    _, writer = line
    writer.write(CHUNKED)
    while True:
        writer.write(b"X: " + b"y" * 1_000 + b"\r\n")
        await writer.drain()


async def slow_head(line: Line) -> None:
    _, writer = line
    for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 1_000:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.5)


async def deaf(line: Line) -> None:
    """Send requests for a page, and read no response."""
    _, writer = line
    while True:
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        await writer.drain()


async def idle(line: Line) -> None:
    await line[0].read()


async def again(port: int, address: str, act: Callable[[Line], Awaitable[None]]) -> None:
    """Connect, misbehave until the end or until the connection has lasted long enough, and start
    again.
    """
    while True:
        with suppress(OSError, TimeoutError):
            line = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
            try:
                async with asyncio.timeout(None if act is idle else PATIENCE_S):
                    await act(line)
            finally:
                line[1].transport.abort()
        await asyncio.sleep(0)


async def hammer(port: int) -> None:
    async with asyncio.TaskGroup() as group:
        for address in ADDRESSES:
            for act in (broken, trailers, slow_head, deaf):
                for _ in range(HAMMERS):
                    group.create_task(again(port, address, act))
            for _ in range(HOLDERS):
                group.create_task(again(port, address, idle))


# ---------------------------------------------------------------- well-behaved clients


async def behave(http: aiohttp.ClientSession, seconds: float, latencies_ms: list[float]) -> int:
    """Ask for tasks again and again. Returns how many requests failed."""
    failed, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        try:
            async with http.get("/tasks") as answer:
                await answer.read()
                failed += answer.status != 200
        except aiohttp.ClientError:
            failed += 1
        latencies_ms.append(1_000 * (time.perf_counter() - began))
        await asyncio.sleep(PAUSE_S)
    return failed


async def person(url: str, name: str) -> aiohttp.ClientSession:
    http = aiohttp.ClientSession(url)
    body = {"username": name, "password": PASSWORD}
    async with http.post("/auth/register", json=body) as answer:
        token = (await answer.json())["access_token"]
    http.headers["Authorization"] = f"Bearer {token}"
    return http


async def measured(
    people: list[aiohttp.ClientSession], pid: int, seconds: float, name: str
) -> tuple[float, int]:
    """Print a line. Returns the 99th percentile in ms, and how many requests failed."""
    latencies = list[float]()
    failed = sum(await asyncio.gather(*(behave(http, seconds, latencies) for http in people)))
    latencies.sort()
    p50, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
    print(
        f"{name}: {len(latencies):,} requests, {failed} failed, p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
        f"most {latencies[-1]:.0f} ms; {rss_mb(pid):.0f} MB, "
        f"{len(os.listdir(f'/proc/{pid}/fd'))} descriptors",
        flush=True,
    )
    return p99, failed


async def compared(url: str, pid: int, seconds: float) -> bool:
    people = [await person(url, f"person{n}") for n in range(USERS)]
    await measured(people, pid, min(seconds, 10.0), "alone  ")
    port = str(urlsplit(url).port)
    with subprocess.Popen([sys.executable, "-m", "benchmarks.hostile", "--hammer", port]) as enemy:
        try:
            await asyncio.sleep(5)  # until all are connected
            await measured(people, pid, seconds / 2, "hostile")
            p99, failed = await measured(people, pid, seconds / 2, "hostile")
        finally:
            enemy.kill()
    for http in people:
        await http.close()
    return p99 <= P99_MS and not failed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hammer", type=int, metavar="PORT", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.hammer:
        asyncio.run(hammer(chosen.hammer))
    with tempfile.TemporaryDirectory() as folder, served(Path(folder, "home")) as (url, server):
        return 0 if asyncio.run(compared(url, server.pid, chosen.seconds)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
