"""Limits on all users together: new accounts an hour, tokens and money a day (UTC). Entry:
`Totals`.

Everything is counted in the database, so the limits hold across all its processes and survive a
restart. A run reserves its share before it begins and may use no more; the share lasts until the
run has been accounted for (shares.py). Concurrent runs therefore cannot exceed a limit together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple, cast

from sqlalchemy import bindparam, delete, func, insert, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from treadle.agents.agent import Agent
from treadle.config.serving import ServiceTotals
from treadle.runtime.options import DEFAULT_LIMITS
from treadle.service.database.guard import execute
from treadle.service.database.tables import Account, Reserved, SpentByAll
from treadle.service.problems import HttpProblem, unavailable
from treadle.types import Limits, now

HOUR: Final = timedelta(hours=1)
RESERVED_S: Final = 3600.0
"""Lifetime of a reservation, in seconds. Processes that know the run renew it much sooner.

After it, a share whose run is in no known journal is free.
"""
LOOKED_AT_MOST: Final = 1_000
LEAST_TOKENS: Final = 20_000
"""Smallest share in tokens with which a run may begin: its first request would hardly fit into
less. A smaller remainder counts as used up.
"""
LEAST_USD: Final = 0.01
"""Smallest share of money with which a run begins."""
QUEUED_PART: Final = 0.5
"""Fraction of the day's remainder that all shares may take before a further run is queued: queued
runs use nothing yet, while others continue.
"""
SOON_S: Final = 5.0
"""Retry-After, in seconds, while runs in progress have reserved the remainder."""

_DAYS: Final = col(SpentByAll.day) == bindparam("today")
_LOCK: Final = select(SpentByAll.tokens, SpentByAll.cost_usd).where(_DAYS).with_for_update()
_SPEND: Final = (
    update(SpentByAll)
    .where(_DAYS)
    .values(
        tokens=col(SpentByAll.tokens) + bindparam("more_tokens"),
        cost_usd=col(SpentByAll.cost_usd) + bindparam("more_usd"),
    )
    .execution_options(synchronize_session=False)
)
_SETTLE: Final = (
    delete(Reserved)
    .where(col(Reserved.run_id) == bindparam("run"))
    .execution_options(synchronize_session=False)
)
_COUNTED: Final = select(Reserved.counted_tokens, Reserved.counted_usd).where(
    col(Reserved.run_id) == bindparam("run")
)
_RESERVE: Final = insert(Reserved)
_RESERVED: Final = select(
    func.coalesce(func.sum(Reserved.tokens), 0),
    func.coalesce(func.sum(Reserved.cost_usd), 0.0),
    func.count(col(Reserved.run_id)),
)
_RENEW: Final = (
    update(Reserved)
    .where(col(Reserved.run_id) == bindparam("run"))
    .values(expires_at=bindparam("until"))
    .execution_options(synchronize_session=False)
)


class TotalsShare(NamedTuple):
    """Tokens and money that a run reserves or has used."""

    tokens: int
    cost_usd: float


NOTHING: Final = TotalsShare(0, 0.0)
AGENT: Final = TotalsShare(1_000_000, 1.0)
"""Share of a run whose agent has no such limits."""


class Used(NamedTuple):
    """Usage by all users together: today's tokens and money, and the accounts of the last hour."""

    tokens: int
    cost_usd: float
    reserved_tokens: int
    reserved_usd: float
    accounts: int


class Totals:
    """Limits on all users together. Methods are synchronous and run inside a transaction of the
    database.

    Raises Problem(503) at a limit, with the time at which it ends as Retry-After.
    """

    def __init__(
        self,
        totals: ServiceTotals,
        refused: Callable[[str], None],
        shares: Mapping[str, TotalsShare] | None = None,
    ) -> None:
        """Create the daily totals. `refused` counts a refusal for the metrics. `shares`:
        reservations by agent name, overriding those derived from the agent's limits.
        """
        self.totals, self._refused, self._shares = totals, refused, shares or {}

    # ------------------------------------------------------------ accounts

    def admit_account(self, session: Session) -> None:
        """Check that one more account may be created, in the transaction that creates it."""
        most = self.totals.accounts_per_hour
        newest = (
            select(Account.created_at)
            .order_by(col(Account.created_at).desc())
            .offset(most - 1)
            .limit(1)
        )
        at = session.exec(newest).first()
        if at is not None and (wait := at + HOUR - now()) > timedelta():
            self._refused("all accounts")
            raise unavailable(
                "No new accounts can be created at the moment. Please try again later.",
                wait.total_seconds(),
            )

    # ------------------------------------------------------------ tokens and money

    def reserve(
        self,
        session: Session,
        run_id: str,
        agent: Agent[Any, Any],
        *,
        queued: bool = False,
        before: TotalsShare = NOTHING,
    ) -> Limits:
        """Reserve a share for a run, in a writing transaction. Return limits that tighten those of
        its agent. `before`: usage of a run that continues, which was counted when it came to wait.

        The share is the agent's own, if that much is left. With less left, a run begins with all of
        it if no other run is in progress. If the day's whole limit is below `LEAST_TOKENS`, the
        tokens of the last run are not limited, because it would never begin otherwise.
        """
        wanted = self._shares.get(agent.name) or share_of(agent)
        share = self._reserve(session, run_id, wanted, before, queued=queued)
        # Overrides the default.
        turns = DEFAULT_LIMITS.turns if agent.limits is None else None
        tokens = share.tokens if share.tokens >= min(LEAST_TOKENS, wanted.tokens) else None
        return Limits(tokens=tokens, cost_usd=share.cost_usd, turns=turns)

    def reserve_again(
        self, session: Session, run_id: str, wanted: TotalsShare, before: TotalsShare
    ) -> None:
        """Reserve a full share for a run that resumes with its original limits. `before`: as for
        `reserve`.
        """
        self._reserve(session, run_id, wanted, before, queued=True, whole=True)

    def _reserve(
        self,
        session: Session,
        run_id: str,
        wanted: TotalsShare,
        before: TotalsShare,
        *,
        queued: bool,
        whole: bool = False,
    ) -> TotalsShare:
        at = now()
        spent = self._locked(session, at.date())
        counted = _take(session, run_id) or before  # a share that is held was not counted since
        reserved_tokens, reserved_usd, under_way = _reserved(session)
        part = QUEUED_PART if queued and under_way else 1.0
        tokens = int(part * (self.totals.tokens_per_day - spent[0])) - reserved_tokens
        cost_usd = part * (self.totals.cost_usd_per_day - spent[1]) - reserved_usd
        if tokens < wanted.tokens or cost_usd < wanted.cost_usd:
            least = LEAST_TOKENS if self.totals.tokens_per_day >= LEAST_TOKENS else 1
            self._check(
                min(tokens, wanted.tokens) >= min(least, wanted.tokens), "tokens", under_way
            )
            self._check(
                cost_usd > 0
                and cost_usd >= min(LEAST_USD, wanted.cost_usd, self.totals.cost_usd_per_day),
                "cost",
                under_way,
            )
            self._check(
                not under_way and not whole,
                "tokens" if tokens < wanted.tokens else "cost",
                under_way,
            )
        share = TotalsShare(min(tokens, wanted.tokens), min(cost_usd, wanted.cost_usd))
        row = {
            "run_id": run_id,
            "day": at.date(),
            "expires_at": at + timedelta(seconds=RESERVED_S),
            **share._asdict(),
            "counted_tokens": counted.tokens,
            "counted_usd": counted.cost_usd,
        }
        execute(session, _RESERVE, row)
        return share

    def renew(self, session: Session, run_id: str) -> None:
        """Extend the reservation of a run in progress."""
        execute(session, _RENEW, {"run": run_id, "until": now() + timedelta(seconds=RESERVED_S)})

    def unseen(self, session: Session, since_s: float) -> list[tuple[str, datetime]]:
        """Return runs whose shares were not renewed for `since_s`, with the expiry of the shares,
        oldest first.
        """
        due = col(Reserved.expires_at) <= now() + timedelta(seconds=RESERVED_S - since_s)
        return [
            *session.exec(
                select(Reserved.run_id, Reserved.expires_at)
                .where(due)
                .order_by(col(Reserved.expires_at))
                .limit(LOOKED_AT_MOST)
            )
        ]

    def settle(
        self, session: Session, run_id: str | None, tokens: int, cost_usd: float
    ) -> TotalsShare:
        """Count the run's usage for today, and release its reservation. Return what was counted:
        all but the usage that was counted when the run came to wait, and nothing if this was done
        already.
        """
        if run_id is not None:
            if (counted := _take(session, run_id)) is None:
                return NOTHING
            tokens = max(tokens - counted.tokens, 0)
            cost_usd = max(cost_usd - counted.cost_usd, 0.0)
        if tokens or cost_usd:
            today = now().date()
            more = {"today": today, "more_tokens": tokens, "more_usd": cost_usd}
            if not execute(session, _SPEND, more).rowcount:
                self._locked(session, today)  # creates the day's row
                execute(session, _SPEND, more)
        return TotalsShare(tokens, cost_usd)

    def used(self, session: Session) -> Used:
        """Return the current usage, for the metrics."""
        at = now()
        spent = session.exec(
            select(SpentByAll.tokens, SpentByAll.cost_usd).where(_DAYS), params={"today": at.date()}
        ).first() or (0, 0.0)
        tokens, cost_usd, _ = _reserved(session)
        accounts = session.exec(
            select(func.count(col(Account.id))).where(col(Account.created_at) > at - HOUR)
        ).one()
        return Used(*spent, tokens, cost_usd, accounts)

    def _locked(self, session: Session, today: date) -> tuple[int, float]:
        """Return today's usage, and lock it against other reservations until the transaction
        ends.
        """
        if (row := execute(session, _LOCK, {"today": today}).first()) is not None:
            return cast("tuple[int, float]", tuple(row))
        try:
            with session.begin_nested():
                session.add(SpentByAll(day=today))
                session.flush()
        except IntegrityError:  # a concurrent transaction created the day's row
            pass
        return cast("tuple[int, float]", tuple(execute(session, _LOCK, {"today": today}).one()))

    def _check(self, is_left: bool, what: str, under_way: int) -> None:
        """Raise Problem(503) unless `is_left`. Retry-After is short while runs in progress may
        release some, else until tomorrow.
        """
        if not is_left:
            self._refused(f"all {what}")
            raise _soon() if under_way else _tomorrow()


def _take(session: Session, run_id: str) -> TotalsShare | None:
    """Release a run's reservation. Return the usage that was counted before it; None without a
    reservation.
    """
    row = execute(session, _COUNTED, {"run": run_id}).first()
    if not execute(session, _SETTLE, {"run": run_id}).rowcount:
        return None  # also if another process was faster
    return NOTHING if row is None else TotalsShare(*row)


def _reserved(session: Session) -> tuple[int, float, int]:
    """Return tokens, USD and the number of runs in progress, including those that began on another
    day: their further usage counts for today.
    """
    tokens, cost_usd, runs = execute(session, _RESERVED, {}).one()
    return int(tokens), float(cost_usd), runs


def share_of(agent: Agent[Any, Any]) -> TotalsShare:
    """Return the share that a run of this agent reserves if available."""
    own = agent.limits or Limits()
    return TotalsShare(own.tokens or AGENT.tokens, own.cost_usd or AGENT.cost_usd)


def _soon() -> HttpProblem:
    return unavailable(
        (
            "Runs in progress have reserved the rest of this service's daily limit. Please try "
            "again in a moment."
        ),
        SOON_S,
    )


def _tomorrow() -> HttpProblem:
    return unavailable(
        "This service's daily limit is used up. Please continue tomorrow.", until_tomorrow_s()
    )


def until_tomorrow_s() -> float:
    """Return the seconds until the UTC day ends."""
    at = now()
    return (
        datetime.combine(at.date() + timedelta(days=1), datetime.min.time(), UTC) - at
    ).total_seconds()
