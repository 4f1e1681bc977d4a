"""Usage of a run that counts towards its user's limits, and limits for the rest of the run.

Entry point: `RunSpending`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treadle.agents.agent import Agent
from treadle.errors import AgentError
from treadle.journal.journal import Journal
from treadle.messages.metrics import RunMetrics
from treadle.service.totals import NOTHING, TotalsShare
from treadle.types import Limits as RunLimits

if TYPE_CHECKING:
    from treadle.runtime.runtime import Runtime


class RunSpending:
    """Usage of a run, recorded by its driver before its slot is released."""

    def __init__(self) -> None:
        self.tokens = 0
        self.cost_usd = 0.0
        self.before = NOTHING
        """Usage of a run that continues, which was counted when it came to wait."""
        self.counted = NOTHING
        """The part that was counted: all but what was counted when the run came to wait."""
        self.limits = RunLimits()
        """Limits of the run, in addition to those of its agent."""
        self.reserved_for: str | None = None
        """Run for which a share of the totals is reserved, until the share is settled."""

    def __bool__(self) -> bool:
        return bool(self.tokens or self.cost_usd)

    def count(self, tokens: int, cost_usd: float | None = None) -> None:
        self.tokens += tokens
        self.cost_usd += cost_usd or 0.0

    async def count_run(self, journal: Journal, run_id: str, metrics: RunMetrics) -> None:
        """Count the run's usage from the journal.

        `metrics` is used for a run that is not in the journal, or if the journal does not answer.
        """
        try:
            self.count(*await taken(journal, run_id))
        except AgentError:
            self.count(metrics.total.usage.total_tokens, metrics.total.cost_usd)


async def taken(journal: Journal, run_id: str) -> TotalsShare:
    """Return the usage of a run and its child runs. Usage that a provider did not report, as for a
    cancelled request, is estimated.
    """
    ledger = (await journal.load(run_id)).ledger
    tokens, cost_usd = (
        ledger.usage.total_tokens + ledger.unreported_tokens,
        (ledger.cost_usd or 0.0) + ledger.unreported_usd,
    )
    for child in await journal.children(run_id):
        below = await taken(journal, child.run_id)
        tokens, cost_usd = tokens + below.tokens, cost_usd + below.cost_usd
    return TotalsShare(tokens, cost_usd)


def beyond(first: RunLimits, before: TotalsShare, share: RunLimits) -> RunLimits:
    """Return limits for a resumed run: its usage `before` plus its new share, capped by its `first`
    limits.
    """
    tokens = (
        None
        if share.tokens is None
        else min(before.tokens + share.tokens, first.tokens or before.tokens + share.tokens)
    )
    cost_usd = (
        None
        if share.cost_usd is None
        else min(
            before.cost_usd + share.cost_usd, first.cost_usd or before.cost_usd + share.cost_usd
        )
    )
    return RunLimits(tokens=tokens, cost_usd=cost_usd)


async def measurable(runtime: Runtime, agent: Agent[Any, Any], limits: RunLimits) -> RunLimits:
    """Return the limits of a share, without the cost limit if the price of a model is unknown,
    because usage could not be counted towards it.
    """
    return (
        limits
        if limits.cost_usd is None or await runtime.is_priced(agent)
        else msgspec.structs.replace(limits, cost_usd=None)
    )
