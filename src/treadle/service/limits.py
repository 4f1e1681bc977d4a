"""Limits per user: requests per minute, concurrent runs and streams, tokens and money per day; and
limits per address for unauthenticated clients.

Requests, runs and streams are counted in memory, in this process; tokens and money in the database,
by UTC day. A library for this was tried: it started a thread for nearly every request. Entry point:
`UserLimits`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from sqlalchemy import bindparam, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from treadle.agents.agent import Agent
from treadle.config.serving import Service as ServiceSettings
from treadle.errors import AgentError, ErrorKind
from treadle.service.database.database import Database
from treadle.service.database.guard import execute, insert_row
from treadle.service.database.scope import Scope
from treadle.service.database.tables import Spent, new_row_id
from treadle.service.problems import too_many, unavailable
from treadle.service.spending import RunSpending
from treadle.service.totals import NOTHING, Totals, TotalsShare, until_tomorrow_s
from treadle.service.windows import SlidingWindow, network_of
from treadle.types import now

if TYPE_CHECKING:
    from treadle.service.metrics import ServiceMetrics

MINUTE_S = 60.0
STRANGERS_PER_MINUTE = 240
"""Maximum requests a minute per address without a valid token."""
RUNS_MOST, STREAMS_MOST = 256, 4096
"""Maximum concurrent runs and streams of all users together."""

_TODAYS: Final = (col(Spent.user_id) == bindparam("mine"), col(Spent.day) == bindparam("today"))
_SPENT: Final = select(Spent.tokens, Spent.cost_usd).where(*_TODAYS)
_SPEND: Final = (
    update(Spent)
    .where(*_TODAYS)
    .values(
        tokens=col(Spent.tokens) + bindparam("more_tokens"),
        cost_usd=col(Spent.cost_usd) + bindparam("more_usd"),
    )
    .execution_options(synchronize_session=False)
)


class UserLimits:
    """Counters of requests, runs, streams, tokens and money. Every method raises Problem: 429 with
    Retry-After at a limit of one user, 503 at a limit of all users.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        database: Database,
        metrics: ServiceMetrics,
        shares: Mapping[str, TotalsShare] | None = None,
    ) -> None:
        """Create the limits of users. `shares`: reservations by agent name, overriding those
        derived from the agent's limits.
        """
        limits = settings.limits
        self._limits, self._database, self._metrics = limits, database, metrics
        self.totals = Totals(settings.totals, self.refused, shares)
        self._requests = SlidingWindow(limits.requests_per_minute, MINUTE_S)
        self._logins = SlidingWindow(limits.requests_per_minute, MINUTE_S)
        self._strangers = SlidingWindow(STRANGERS_PER_MINUTE, MINUTE_S)
        self._runs: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    # ------------------------------------------------------------ requests

    def request(self, scope: Scope) -> None:
        """Count a request of a signed-in user."""
        self._take(self._requests, scope.user_id)

    def login(self, login_id: str) -> None:
        """Count a request with a token of this login, for any route and even if the login has
        ended.

        It does not count for the account: tokens of a login that has ended must not use up its
        owner's requests.
        """
        self._take(self._logins, login_id)

    def _take(self, window: SlidingWindow, key: str) -> None:
        if wait_s := window.take(key):
            self.refused("requests")
            raise too_many(
                (
                    f"You may send {self._limits.requests_per_minute} requests a minute: try "
                    "again shortly."
                ),
                wait_s,
            )

    def stranger(self, address: str) -> None:
        """Count a request without a valid token."""
        if wait_s := self._strangers.take(network_of(address)):
            self.refused("address")
            raise too_many("Too many requests from your address: try again shortly.", wait_s)

    # ------------------------------------------------------------ runs and streams

    @asynccontextmanager
    async def run(
        self, scope: Scope, run_id: str, agent: Agent[Any, Any], before: TotalsShare = NOTHING
    ) -> AsyncGenerator[RunSpending]:
        """Acquire a slot for one run, after checking the user's daily limits. `before`: as for
        `Totals.reserve`.
        """
        async with self.place(scope) as spending:
            spending.before = before
            await self._database.run(
                scope,
                partial(self.afford, scope=scope, spending=spending, run_id=run_id, agent=agent),
            )
            yield spending

    @asynccontextmanager
    async def place(self, scope: Scope) -> AsyncGenerator[RunSpending]:
        """Acquire a place for one run, and count its usage at the end, however it ends. May be
        entered in one task and left in another.

        Keeps the reservation of a run that another process continues.
        """
        if self._runs.total() >= RUNS_MOST:
            self.refused("all runs")
            raise unavailable()
        if self._runs[scope.user_id] >= self._limits.runs:
            self.refused("runs")
            raise too_many(
                (
                    f"You have {_several(self._limits.runs, 'run')} in progress, which is the "
                    "limit: wait until one ends."
                ),
                1,
            )
        self._runs[scope.user_id] += 1
        spending = RunSpending()
        try:
            yield spending
        except AgentError as e:
            if e.kind in (ErrorKind.BUSY, ErrorKind.CANCELLED):
                spending.reserved_for = None
            raise
        finally:
            _give_back(self._runs, scope.user_id)
            if spending or spending.reserved_for:
                with anyio.CancelScope(shield=True):
                    await self._database.run(
                        scope,
                        partial(
                            self.count, scope=scope, spending=spending, run_id=spending.reserved_for
                        ),
                    )
                self.counted(spending)

    @asynccontextmanager
    async def stream(self, scope: Scope) -> AsyncGenerator[None]:
        """Acquire a place for one open stream of events."""
        if self._streams.total() >= STREAMS_MOST:
            self.refused("all streams")
            raise unavailable()
        if self._streams[scope.user_id] >= self._limits.streams:
            self.refused("streams")
            raise too_many(
                (
                    f"You have {_several(self._limits.streams, 'open stream')}, which is the "
                    "limit: close one."
                ),
                1,
            )
        self._streams[scope.user_id] += 1
        self._metrics.streams.inc()
        try:
            yield
        finally:
            _give_back(self._streams, scope.user_id)
            self._metrics.streams.dec()

    # ------------------------------------------------------------ tokens and money

    def count(
        self, session: Session, scope: Scope, spending: RunSpending, run_id: str | None
    ) -> None:
        """Count usage for today and settle the run's reservation, in a separate transaction or in
        the reply's. Only the first process to do so counts.
        """
        spending.counted = self.totals.settle(session, run_id, spending.tokens, spending.cost_usd)
        if not any(spending.counted):
            return
        today = now().date()
        values = {
            "mine": scope.user_id,
            "today": today,
            "more_tokens": spending.counted.tokens,
            "more_usd": spending.counted.cost_usd,
        }
        if execute(session, _SPEND, values).rowcount:
            return
        try:
            with session.begin_nested():
                insert_row(
                    session,
                    Spent,
                    {
                        "id": new_row_id(),
                        "day": today,
                        "tokens": spending.counted.tokens,
                        "cost_usd": spending.counted.cost_usd,
                    },
                )
        except IntegrityError:  # a concurrent transaction created the day's row
            execute(session, _SPEND, values)

    def counted(self, spending: RunSpending) -> None:
        """Reset the counters, after the commit."""
        self._metrics.tokens.inc(spending.counted.tokens)
        spending.tokens, spending.cost_usd, spending.reserved_for = 0, 0.0, None

    def afford(
        self,
        session: Session,
        scope: Scope,
        spending: RunSpending,
        run_id: str,
        agent: Agent[Any, Any],
        *,
        queued: bool = False,
    ) -> None:
        """Reserve a share of the totals for a run, if the user's limits for today allow it.
        `session` must be in a write transaction.
        """
        tokens, cost_usd = execute(
            session, _SPENT, {"mine": scope.user_id, "today": now().date()}
        ).first() or (0, 0.0)
        if tokens >= self._limits.tokens_per_day:
            self.refused("tokens")
            raise too_many(
                f"Your {self._limits.tokens_per_day} tokens for today are used up: continue "
                "tomorrow.",
                until_tomorrow_s(),
            )
        if cost_usd >= self._limits.cost_usd_per_day:
            self.refused("cost")
            raise too_many(
                f"Your {self._limits.cost_usd_per_day:g} USD for today are used up: continue "
                "tomorrow.",
                until_tomorrow_s(),
            )
        spending.limits = self.totals.reserve(
            session, run_id, agent, queued=queued, before=spending.before
        )
        spending.reserved_for = run_id

    def refused(self, limit: str) -> None:
        """Count a refusal for the metrics."""
        self._metrics.refusals.labels(limit).inc()


def _give_back(places: Counter[str], key: str) -> None:
    places[key] -= 1
    if places[key] <= 0:
        del places[key]


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
