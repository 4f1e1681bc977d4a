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
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from sqlalchemy import bindparam, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from treadle.config.values import ServiceLimits
from treadle.database.database import Database
from treadle.database.guard import insert_row
from treadle.database.scope import Scope
from treadle.database.tables import Spent, new_row_id
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

_TODAYS: Final = (col(Spent.user_id) == bindparam("mine"), col(Spent.day) == bindparam("today"))
_SPENT: Final = select(Spent.tokens, Spent.cost_usd).where(*_TODAYS)
_SPEND: Final = (
    update(Spent)
    .where(*_TODAYS)
    .values(tokens=col(Spent.tokens) + bindparam("more_tokens"), cost_usd=col(Spent.cost_usd) + bindparam("more_usd"))
    .execution_options(synchronize_session=False)
)


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

    def __bool__(self) -> bool:
        return bool(self.tokens or self.cost_usd)

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
        """A place for one run of somebody who can afford it."""
        async with self.place(scope) as spending:
            await self._database.read(scope, partial(self.afford, scope=scope))
            yield spending

    @asynccontextmanager
    async def place(self, scope: Scope) -> AsyncGenerator[Spending]:
        """For one run, and what it takes counted for its day, however it ends. May be entered in one task and left in another."""
        if self._runs.total() >= RUNS_MOST:
            self._refused("all runs")
            raise unavailable()
        if self._runs[scope.user_id] >= self._limits.runs:
            self._refused("runs")
            raise too_many(f"{_several(self._limits.runs, 'run')} of yours are under way, and more may not be: wait for the end of one.", 1)
        self._runs[scope.user_id] += 1
        spending = Spending()
        try:
            yield spending
        finally:
            _give_back(self._runs, scope.user_id)
            if spending:
                with anyio.CancelScope(shield=True):
                    await self._database.run(scope, partial(self.count, scope=scope, spending=spending))
                self.counted(spending)

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

    def count(self, session: Session, scope: Scope, spending: Spending) -> None:
        """For today, in a transaction of its own or the reply's."""
        if not spending:
            return
        today = now().date()
        values = {"mine": scope.user_id, "today": today, "more_tokens": spending.tokens, "more_usd": spending.cost_usd}
        if session.exec(_SPEND, params=values).rowcount:
            return
        try:
            with session.begin_nested():
                insert_row(session, Spent, {"id": new_row_id(), "day": today, "tokens": spending.tokens, "cost_usd": spending.cost_usd})
        except IntegrityError:  # two at once were the first of the day
            session.exec(_SPEND, params=values)

    def counted(self, spending: Spending) -> None:
        """Once it stands in the database."""
        self._metrics.tokens.inc(spending.tokens)
        spending.tokens, spending.cost_usd = 0, 0.0

    def afford(self, session: Session, scope: Scope) -> None:
        """Reads what was used today."""
        tokens, cost_usd = session.exec(_SPENT, params={"mine": scope.user_id, "today": now().date()}).first() or (0, 0.0)
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
