"""Metrics of a run and of its tree of child runs. Entry points: `RunMetrics`, `RunTotals`."""

from __future__ import annotations

from treadle._internal.units import count, money, usd
from treadle.types import Outcome, Usage, Value


class RunTotals(Value, frozen=True, kw_only=True, omit_defaults=False):
    """Totals of a run and its descendants. Limits apply to these.

    Attributes:
        runs: Number of runs, including this one.
        turns: Number of accepted responses.
        tool_calls: Number of calls executed, including those that started child runs.
        usage: Tokens of all responses.
        cost_usd: Cost in USD of the responses with a known price; None if there are none.
        unpriced: Number of uses of models without a known price. `cost_usd` excludes them.
    """

    runs: int = 1
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    unpriced: int = 0

    def __add__(self, other: RunTotals) -> RunTotals:
        return RunTotals(
            runs=self.runs + other.runs,
            turns=self.turns + other.turns,
            tool_calls=self.tool_calls + other.tool_calls,
            usage=self.usage + other.usage,
            cost_usd=usd(self.cost_usd, other.cost_usd),
            unpriced=self.unpriced + other.unpriced,
        )

    def spent_of(self, outcome: Outcome) -> str:
        """Format the spending that reached a limit: `$1.00 in 2 runs`. Empty for outcomes that are
        not limits.
        """
        match outcome:
            case Outcome.TURN_LIMIT:
                spent = count(self.turns, "turn")
            case Outcome.CALL_LIMIT:
                spent = count(self.tool_calls, "tool call")
            case Outcome.TOKEN_LIMIT:
                spent = count(self.usage.total_tokens, "token")
            case Outcome.COST_LIMIT:
                spent = money(
                    self.cost_usd if self.unpriced else self.cost_usd or 0.0,
                    more=self.cost_usd is not None and self.unpriced > 0,
                )
            case _:
                return ""
        return spent if self.runs == 1 else f"{spent} in {count(self.runs, 'run')}"


def totalled(total: RunTotals) -> str:
    """Format totals: `3 runs: 6 turns, 3 tool calls, 20 tokens, $20.00`."""
    counts = [
        count(total.turns, "turn"),
        count(total.tool_calls, "tool call"),
        count(total.usage.total_tokens, "token"),
    ]
    cost = [] if total.cost_usd is None else [money(total.cost_usd, more=total.unpriced > 0)]
    return f"{count(total.runs, 'run')}: {', '.join([*counts, *cost])}"


class RunMetrics(Value, frozen=True, kw_only=True):
    """Turns, requests, calls, tokens, time and cost of one run.

    Attributes:
        turns: Number of accepted responses.
        invocations: Number of attempts that reached the provider.
        tool_calls: Number of calls executed.
        retries: Number of repeated requests to the provider.
        usage: Tokens of the run's own responses.
        cost_usd: Cost in USD of the run's own responses with a known price; None if there are none.
        duration_s: Active time of the run in seconds, including its children.
        total: Totals of this run and its descendants. `Limits` apply to these.
    """

    turns: int = 0
    invocations: int = 0
    tool_calls: int = 0
    retries: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    duration_s: float = 0.0
    total: RunTotals = RunTotals()
