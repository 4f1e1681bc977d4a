"""What one person may use: requests a minute, runs and streams at once, tokens and money a day; and strangers, by their address.

Counted in this process, in memory; tokens and money in the database, by UTC day. A library for this was tried: it started a
thread for nearly every request. Entry: `Limits`.
"""

from __future__ import annotations

import ipaddress
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlmodel import Session, col, select

from treadle.config.values import ServiceLimits
from treadle.database.database import Database
from treadle.database.scope import Scope
from treadle.database.tables import Spent
from treadle.service.problems import too_many, unavailable
from treadle.types import now

if TYPE_CHECKING:
    from treadle.service.metrics import Metrics

MINUTE_S = 60.0
STRANGERS_PER_MINUTE = 240
"""Requests of one address without a good token."""
TRIES_PER_MINUTE = 20
"""At signing in and registering, of one address."""
TRIES_OF_NAME = 10
"""In five minutes."""
NAME_S = 300.0
REMEMBERED_MOST = 100_000
"""Windows: beyond that the oldest are forgotten."""
RUNS_MOST, STREAMS_MOST = 256, 4096
"""Of all people together."""


class Window:
    """So many in so long, by key. Moving: each counts until it is that old."""

    def __init__(self, most: int, span_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._span_s, self._clock = most, span_s, clock
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()
        """Those that were used last stand last."""

    def take(self, key: str) -> float:
        """Counts one, and gives 0; where there is no room nothing is counted, and it gives the seconds until there is."""
        at = self._clock()
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = deque(maxlen=self._most)
            self._forget(at)
        self._seen.move_to_end(key)
        while seen and seen[0] <= at - self._span_s:
            seen.popleft()
        if len(seen) >= self._most:
            return seen[0] + self._span_s - at
        seen.append(at)
        return 0

    def _forget(self, at: float) -> None:
        for _ in range(2):  # two go where one comes
            key, seen = next(iter(self._seen.items()))
            if len(self._seen) <= REMEMBERED_MOST and seen and seen[-1] > at - self._span_s:
                return
            if len(self._seen) > 1:
                del self._seen[key]


class Spending:
    """What a run has taken, told by whoever drives it before its place is given back."""

    def __init__(self) -> None:
        self.tokens = 0
        self.cost_usd = 0.0

    def count(self, tokens: int, cost_usd: float | None = None) -> None:
        self.tokens += tokens
        self.cost_usd += cost_usd or 0.0


class Limits:
    """Everything here raises Problem: 429 with Retry-After for what is too much for one, 503 for what is too much for all."""

    def __init__(self, limits: ServiceLimits, database: Database, metrics: Metrics) -> None:
        self._limits, self._database, self._metrics = limits, database, metrics
        self._requests = Window(limits.requests_per_minute, MINUTE_S)
        self._strangers = Window(STRANGERS_PER_MINUTE, MINUTE_S)
        self._tries = Window(TRIES_PER_MINUTE, MINUTE_S)
        self._names = Window(TRIES_OF_NAME, NAME_S)
        self._runs: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    # ------------------------------------------------------------ requests

    def request(self, scope: Scope) -> None:
        """Of somebody who is signed in."""
        if wait_s := self._requests.take(scope.user_id):
            self._refused("requests")
            raise too_many(f"That is more than {self._limits.requests_per_minute} requests in a minute: wait a little.", wait_s)

    def stranger(self, address: str) -> None:
        """A request of nobody that we know."""
        if wait_s := self._strangers.take(network_of(address)):
            self._refused("address")
            raise too_many("That is too many requests from your address: wait a little.", wait_s)

    def attempt(self, address: str, name: str | None = None) -> None:
        """To sign in, or to register; `name`: as whom."""
        if wait_s := self._tries.take(network_of(address)) or (self._names.take(name) if name is not None else 0):
            self._refused("attempts")
            raise too_many("That is too many attempts: wait a little.", wait_s)

    # ------------------------------------------------------------ runs and streams

    @asynccontextmanager
    async def run(self, scope: Scope) -> AsyncGenerator[Spending]:
        """A place for one run, and what it takes counted for its day, however it ends. May be entered in one task and left in another."""
        if self._runs.total() >= RUNS_MOST:
            self._refused("all runs")
            raise unavailable()
        if self._runs[scope.user_id] >= self._limits.runs:
            self._refused("runs")
            raise too_many(f"{_several(self._limits.runs, 'run')} of yours are under way, and more may not be: wait for the end of one.", 1)
        self._runs[scope.user_id] += 1
        spending = Spending()
        try:
            await self._afford(scope)
            yield spending
        finally:
            _give_back(self._runs, scope.user_id)
            if spending.tokens or spending.cost_usd:
                await self.spend(scope, spending.tokens, spending.cost_usd)

    @asynccontextmanager
    async def stream(self, scope: Scope) -> AsyncGenerator[None]:
        """A place for one open stream of events."""
        if self._streams.total() >= STREAMS_MOST:
            self._refused("all streams")
            raise unavailable()
        if self._streams[scope.user_id] >= self._limits.streams:
            self._refused("streams")
            raise too_many(f"{_several(self._limits.streams, 'stream')} of yours are open, and more may not be: close one.", 1)
        self._streams[scope.user_id] += 1
        self._metrics.streams.inc()
        try:
            yield
        finally:
            _give_back(self._streams, scope.user_id)
            self._metrics.streams.dec()

    # ------------------------------------------------------------ tokens and money

    async def spend(self, scope: Scope, tokens: int, cost_usd: float) -> None:
        """Counts it for today."""

        def add(session: Session) -> None:
            row = session.exec(select(Spent).where(col(Spent.user_id) == scope.user_id, col(Spent.day) == today).with_for_update()).first()
            if row is None:
                row = Spent(user_id=scope.user_id, day=today)
            row.tokens += tokens
            row.cost_usd += cost_usd
            session.add(row)

        today = now().date()
        self._metrics.tokens.inc(tokens)
        await self._database.run(scope, add)

    async def _afford(self, scope: Scope) -> None:
        def read(session: Session) -> tuple[int, float]:
            mine = col(Spent.user_id) == scope.user_id, col(Spent.day) == today
            return session.exec(select(Spent.tokens, Spent.cost_usd).where(*mine)).first() or (0, 0.0)

        today = now().date()
        tokens, cost_usd = await self._database.read(scope, read)
        if tokens >= self._limits.tokens_per_day:
            self._refused("tokens")
            raise too_many(f"Your {self._limits.tokens_per_day} tokens of today are used up: go on tomorrow.", _until_tomorrow())
        if cost_usd >= self._limits.cost_usd_per_day:
            self._refused("cost")
            raise too_many(f"Your {self._limits.cost_usd_per_day:g} USD of today are used up: go on tomorrow.", _until_tomorrow())

    def _refused(self, limit: str) -> None:
        self._metrics.refusals.labels(limit).inc()


def network_of(address: str) -> str:
    """Whom an address stands for: a household has 2^64 of the new kind."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def _give_back(places: Counter[str], key: str) -> None:
    places[key] -= 1
    if places[key] <= 0:
        del places[key]


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _until_tomorrow() -> float:
    at = now()
    return (datetime.combine(at.date() + timedelta(days=1), datetime.min.time(), UTC) - at).total_seconds()
