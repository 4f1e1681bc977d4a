"""Measure the capacity of the HTTP service with its embedded model: chat requests per second, their
latency, and the cost of one.

    python benchmarks/service.py                    # 80 a second for 20 s, then the maximum
    python benchmarks/service.py --rate 120 --users 20 --seconds 10
    python benchmarks/service.py --database postgresql://…
    python benchmarks/service.py --floor            # the libraries and statements alone

The server is `treadle serve` in its own process, on a fresh SQLite database; this process is the
client. Users sign in before the clock starts. Each sends one of four messages in turn, in a
conversation of its own: add, list, complete, thanks. Every answer is checked. Entry point: `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, cycle
from pathlib import Path

import aiohttp

CONFIG = """
service:
  limits: {requests_per_minute: 1000000, runs: 1000, streams: 1000, tokens_per_day: 1000000000}
  totals: {accounts_per_hour: 1000000, tokens_per_day: 1000000000000, cost_usd_per_day: 1000000}
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    return (
        int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    )


@contextmanager
def served(
    home: Path, *options: str, floor: bool = False
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start a server and wait until it listens. `floor`: the one of service_floor.py."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    (home / "config.yaml").chmod(0o600)
    port = free_port()
    log = (home / "server.log").open("wb")
    environment = {**os.environ, "TREADLE_HOME": str(home), "HOME": str(home)}
    command = [sys.executable, "-m", "treadle", "serve", "--port", str(port), *options]
    if floor:
        program = str(Path(__file__).with_name("service_floor.py"))
        command = [sys.executable, program, "--port", str(port), "--home", str(home)]
    began = time.perf_counter()
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None:
                raise SystemExit(f"the server ended: {(home / 'server.log').read_text()}")
            time.sleep(0.005)
        print(
            f"start: {(time.perf_counter() - began) * 1000:.0f} ms until it listens, {cpu_s(server.pid) * 1000:.0f} ms of CPU, {rss_mb(server.pid):.0f} MB"
        )
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(15)
        log.close()


@dataclass
class User:
    token: str
    said: Iterator[int] = field(default_factory=count)
    conversation: str | None = None
    busy: bool = False

    def next(self) -> tuple[str, str]:
        """Return the next message and the start of its expected answer."""
        number, kind = divmod(next(self.said), 4)
        title = f"water plant {number}"
        return (
            (f"add {title}", f"Got it! Added '{title}'"),
            ("show my open tasks", "1. ☐"),
            (f"complete {title}", f"Great! I've marked '{title}'"),
            ("thanks", ""),
        )[kind]


@dataclass
class Times:
    taken_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def told(self, name: str, wall_s: float, cpu: float, rss: float) -> None:
        times = sorted(self.taken_s)
        at = [
            1000 * times[min(int(len(times) * share), len(times) - 1)]
            for share in (0.5, 0.95, 0.99, 1)
        ]
        print(
            f"{name}: {len(times)} requests, {len(times) / wall_s:.1f} a second; p50 {at[0]:.1f} ms, p95 {at[1]:.1f}, p99 {at[2]:.1f}, slowest {at[3]:.1f}"
        )
        print(
            f"    server: {cpu / len(times) * 1000:.2f} ms of CPU a request, {100 * cpu / wall_s:.0f} % of a core, {rss:.0f} MB; wrong: {len(self.wrong)}"
        )
        for one in self.wrong[:3]:
            print("   ", one)


def signed_in(home: Path, database_url: str | None, users: int) -> list[User]:
    """Sign users in directly in the database, because registration is deliberately slow and
    limited.
    """
    from sqlmodel import Session

    from treadle.service.database.database import Database
    from treadle.service.database.tables import Account, Login
    from treadle.service.tokens import Tokens, signing_key
    from treadle.types import now

    tokens = Tokens(signing_key({}, home))

    def work(session: Session) -> list[User]:
        made: list[User] = []
        for number in range(users):
            account = Account(username=f"user{number}-{os.getpid()}", password_hash="-")
            session.add(account)
            session.flush()
            login = Login(
                account_id=account.id, refresh_hash="-", expires_at=now() + timedelta(days=1)
            )
            session.add(login)
            session.flush()
            made.append(User(tokens.access(account.id, login.id)))
        return made

    async def main() -> list[User]:
        async with Database.open(database_url or f"sqlite:///{home}/tasks.db") as database:
            return await database.run_unscoped(work)

    return asyncio.run(main())


async def say(http: aiohttp.ClientSession, base: str, user: User, times: Times) -> None:
    text, wanted = user.next()
    body = (
        {"message": text}
        if user.conversation is None
        else {"message": text, "conversation_id": user.conversation}
    )
    began = time.perf_counter()
    async with http.post(
        f"{base}/chat",
        json=body,
        headers={"Authorization": f"Bearer {user.token}", "Accept": "application/json"},
    ) as answer:
        told = await answer.json()
    times.taken_s.append(time.perf_counter() - began)
    user.conversation = told.get("conversation_id", user.conversation)
    if answer.status != 200 or not told["response"].startswith(wanted):
        times.wrong.append(f"{answer.status} {text!r}: {str(told)[:200]}")


async def at_rate(
    http: aiohttp.ClientSession, base: str, users: list[User], rate: float, seconds: float
) -> Times:
    """Send requests in an open loop: one is due every 1/rate seconds, whether or not earlier ones
    have been answered. A user has at most one open request.
    """
    times, began = Times(), time.perf_counter()
    async with asyncio.TaskGroup() as group:

        async def one(user: User) -> None:
            try:
                await say(http, base, user, times)
            finally:
                user.busy = False

        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            user = next((u for u in users[number % len(users) :] + users if not u.busy), None)
            if user is None:
                times.taken_s.append(float("inf"))  # everybody waits: it has fallen behind
                continue
            user.busy = True
            group.create_task(one(user))
    return times


async def as_many(
    http: aiohttp.ClientSession, base: str, users: list[User], seconds: float, busy: int
) -> Times:
    """Send requests in a closed loop with `busy` users: each sends the next message when the last
    one is answered.
    """
    times, until = Times(), time.perf_counter() + seconds

    async def one(number: int) -> None:
        # in turn: after ten completed tasks in ten minutes each is asked to confirm
        mine = cycle(users[number::busy])
        while time.perf_counter() < until:
            await say(http, base, next(mine), times)

    async with asyncio.TaskGroup() as group:
        for number in range(busy):
            group.create_task(one(number))
    return times


async def measure(
    base: str, server: subprocess.Popen[bytes], users: list[User], options: argparse.Namespace
) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await as_many(http, base, users, 1, 4)  # warm
        for name, load in (
            (
                f"at {options.rate:g} a second",
                at_rate(http, base, users, options.rate, options.seconds),
            ),
            (
                f"{options.busy} at a time",
                as_many(http, base, users, options.seconds, options.busy),
            ),
        ):
            before, began = cpu_s(server.pid), time.perf_counter()
            times = await load
            times.told(
                name, time.perf_counter() - began, cpu_s(server.pid) - before, rss_mb(server.pid)
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=80)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--busy", type=int, default=8)
    parser.add_argument("--database")
    parser.add_argument("--floor", action="store_true", help="the libraries and statements alone")
    options = parser.parse_args()
    more = ["--database", options.database] if options.database else []
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "home", *more, floor=options.floor) as (base, server),
    ):
        users = signed_in(Path(folder) / "home", options.database, options.users)
        asyncio.run(measure(base, server, users, options))


if __name__ == "__main__":
    main()
