"""Costs of finished runs by day, model, session, user, agent or tag.

Journals select the runs, and the command line formats the rows. Entry points: `Tally`, `Costs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Literal, TypeAlias, get_args

import msgspec

from treadle._internal.units import usd
from treadle.budget.spending import Spending
from treadle.errors import AgentError
from treadle.types import Time, Usage, Value

By: TypeAlias = Literal["day", "model", "session", "user", "agent", "tag"]


class Cost(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Costs of one group of runs, or of all."""

    key: str | None
    """UTC day, name of a model or agent, id of a session or user, or a tag. None for runs without
    one, and for the total.
    """
    runs: int = 0
    """Number of runs that spent anything."""
    responses: int = 0
    unpriced: int = 0
    """Number of uses of models without a known price. `cost_usd` excludes them."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Cost in USD; None if no price was known."""


class Costs(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Costs by group. Iterating yields the rows."""

    rows: tuple[Cost, ...]
    """Rows: days newest first; other groups by cost, highest first, then by tokens."""
    total: Cost
    """Sum of the rows."""

    def __iter__(self) -> Iterator[Cost]:
        return iter(self.rows)


class RunCost(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fields of a stored `RunInfo` that a tally needs."""

    run_id: str
    session_id: str | None = None
    parent_run_id: str | None = None
    user_id: str | None = None
    agent: str = ""
    tags: tuple[str, ...] = ()
    model: str
    started_at: Time
    turns: int = 0
    usage: Usage = Usage()
    spending: tuple[Spending, ...] = ()

    @property
    def parts(self) -> tuple[Spending, ...]:
        """Spending of the run, by model and day.

        A run stored by an older version has one part, without a price, on the day it began.
        """
        if self.spending or not self.usage.total_tokens:  # turns of hooks have no cost
            return self.spending
        day = self.started_at.date().isoformat()
        return (
            Spending(
                model=self.model,
                day=day,
                responses=self.turns,
                unpriced=self.turns,
                usage=self.usage,
            ),
        )


class Tally:
    """Sum of the costs of runs. Add them oldest first.

    A child run counts for its parent's session, but for its own agent. A run with several tags
    counts for each of them, and once in the total; a run that was handed over counts for its last
    agent.
    """

    def __init__(self, by: By, *, since: date | None = None) -> None:
        """Create an empty tally. `since`: first day to count. Raises AgentError(invalid) for an
        unknown grouping.
        """
        if by not in get_args(By):
            raise AgentError(
                "invalid",
                f"costs can be grouped by {', '.join(map(repr, get_args(By)))}, not by {by!r}",
            )
        self._by: By = by
        self._since = "" if since is None else since.isoformat()
        self._rows: dict[str | None, Cost] = {}
        self._total = Cost(key=None)
        self._sessions: dict[str, str | None] = {}
        """Session id by run id."""

    def add(self, run: RunCost) -> None:
        session = run.session_id
        if session is None and run.parent_run_id is not None:
            session = self._sessions.get(run.parent_run_id)
        self._sessions[run.run_id] = session
        parts = [part for part in run.parts if part.day >= self._since]
        seen: set[str | None] = set()
        for part in parts:
            for key in self._keys(run, part, session):
                self._rows[key] = _plus(
                    self._rows.get(key) or Cost(key=key), part, runs=key not in seen
                )
                seen.add(key)
        for first, part in enumerate(parts):
            self._total = _plus(self._total, part, runs=not first)

    def _keys(self, run: RunCost, part: Spending, session: str | None) -> tuple[str | None, ...]:
        match self._by:
            case "day":
                return (part.day,)
            case "model":
                return (part.model,)
            case "session":
                return (session,)
            case "user":
                return (run.user_id,)
            case "agent":
                return (run.agent,)
            case "tag":
                return run.tags or (None,)

    def merge(self, costs: Costs) -> None:
        """Add the costs of other runs, grouped in the same way."""
        for row in costs.rows:
            known = self._rows.get(row.key)
            self._rows[row.key] = row if known is None else _sum(known, row)
        self._total = _sum(self._total, costs.total)

    def costs(self) -> Costs:
        rows = self._rows.values()
        if self._by == "day":
            return Costs(
                rows=tuple(sorted(rows, key=lambda row: row.key or "", reverse=True)),
                total=self._total,
            )
        dearest = sorted(
            rows,
            key=lambda row: (
                -1.0 if row.cost_usd is None else row.cost_usd,
                row.usage.total_tokens,
            ),
            reverse=True,
        )
        return Costs(rows=tuple(dearest), total=self._total)


def _plus(row: Cost, part: Spending, *, runs: bool) -> Cost:
    return Cost(
        key=row.key,
        runs=row.runs + runs,
        responses=row.responses + part.responses,
        unpriced=row.unpriced + part.unpriced,
        usage=row.usage + part.usage,
        cost_usd=usd(row.cost_usd, part.cost_usd),
    )


def _sum(row: Cost, other: Cost) -> Cost:
    return Cost(
        key=row.key,
        runs=row.runs + other.runs,
        responses=row.responses + other.responses,
        unpriced=row.unpriced + other.unpriced,
        usage=row.usage + other.usage,
        cost_usd=usd(row.cost_usd, other.cost_usd),
    )
