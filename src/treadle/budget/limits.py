"""Limits that a run has reached, and what they leave for the next response.

Entry points: `BudgetSpent`, `ReservedResponse`, `LIMIT_NAMES`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from treadle.budget.prices import Dearest
from treadle.budget.spending import Reserved
from treadle.budget.tree import PER_DOLLAR, units
from treadle.types import Outcome

LIMIT_NAMES = {
    Outcome.TURN_LIMIT: "turns",
    Outcome.CALL_LIMIT: "tool_calls",
    Outcome.TOKEN_LIMIT: "tokens",
    Outcome.COST_LIMIT: "cost_usd",
}
"""Fields of `Limits` by the outcome that they cause."""


class ReservedResponse(NamedTuple):
    """Output allowance of the next response."""

    tokens: int
    """Output tokens available; 0 or less if not even the request fits."""
    limit: Outcome | None
    """The limit that reduces the allowance; None if the wanted amount is available."""
    reserved: Reserved | None = None
    """Maximum cost of the request; None if no limit needs it."""


class BudgetSpent(Exception):
    """Raised when a limit does not allow the run to continue. The loop ends with `outcome`."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


LEAST_SAID = 256
"""Minimum number of output tokens expected from a turn when looking ahead."""


def units_of(reserved: Reserved) -> int:
    return units(reserved.input_usd or 0) + units(reserved.output_usd or 0)


def affordable(left: int, asked: int, wanted: int, price: Dearest) -> int:
    """Return the affordable output tokens at the highest price of every input token: a cache may
    have expired entirely.
    """
    left_usd = Decimal(left) / PER_DOLLAR - price.request - price.token_in * asked
    if left <= 0 or left_usd < 0:
        return 0
    return int(left_usd / price.token_out) if price.token_out else wanted
