"""Measure the cost of open event streams of the HTTP service: memory, CPU time while idle, and the
delay until all streams have received a change.

    python benchmarks/service_streams.py                    # 1,000 streams for 20 s
    python benchmarks/service_streams.py --streams 200 --seconds 40

The server is `treadle serve` in its own process, on a fresh SQLite database. All streams follow the
tasks of one person.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from service import cpu_s, rss_mb, served


async def opened(url: str, path: str, token: str) -> asyncio.StreamReader:
    """Open a stream, and return it after its first event."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=4096)
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"event: tasks")
    KEPT.append(writer)
    return reader


KEPT: list[asyncio.StreamWriter] = []


async def measure(url: str, pid: int, streams: int, seconds: float) -> None:
    async with aiohttp.ClientSession(url) as http:
        async with http.post(
            "/auth/register", json={"username": "ada", "password": "correct horse battery"}
        ) as answer:
            token = (await answer.json())["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        async with http.post("/tasks", json={"title": "first"}, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
        before = rss_mb(pid)
        began = time.perf_counter()
        readers: list[asyncio.StreamReader] = []
        while len(readers) < streams:
            some = min(20, streams - len(readers))
            readers += await asyncio.gather(
                *(opened(url, "/tasks/events", token) for _ in range(some))
            )
        print(
            f"{streams} streams opened in {time.perf_counter() - began:.1f} s; {before:.0f} MB before, {rss_mb(pid):.0f} MB with them"
        )
        used = cpu_s(pid)
        await asyncio.sleep(seconds)
        print(
            f"idle for {seconds:.0f} s: {100 * (cpu_s(pid) - used) / seconds:.1f} % of one core, {rss_mb(pid):.0f} MB"
        )
        began = time.perf_counter()
        async with http.post("/tasks", json={"title": "second"}, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
        asked = time.perf_counter()
        await asyncio.gather(*(reader.readuntil(b"event: tasks") for reader in readers))
        print(
            f"a change: done in {1000 * (asked - began):.0f} ms, told to {streams} in {1000 * (time.perf_counter() - began):.0f} ms; {rss_mb(pid):.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "home") as (url, server):
        asyncio.run(measure(url, server.pid, options.streams, options.seconds))


if __name__ == "__main__":
    main()
