"""Limits that a run has reached, and the output they leave for the next response.

Entry points: `BudgetSpent`, `ReservedResponse`, `LIMIT_NAMES`.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

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
"""Field of `Limits` by outcome, in the order of the kinds of amounts in tree.py."""


class ReservedResponse(msgspec.Struct, frozen=True):
    """Output allowance of the next response."""

    tokens: int
    """Output tokens available; 0 or less if not even the request fits."""
    limit: Outcome | None
    """The limit that reduces the allowance; None if the wanted amount is available."""
    reserved: Reserved | None = None
    """Maximum cost of the request; None if neither tokens nor cost are limited."""


class BudgetSpent(Exception):
    """Raised when a limit does not allow the run to continue. The run ends with `outcome`."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


LEAST_SAID = 256
"""Number of output tokens that a future turn is assumed to need at least."""


def units_of(reserved: Reserved) -> int:
    return units(reserved.input_usd or 0) + units(reserved.output_usd or 0)


def affordable(left: int, asked: int, wanted: int, price: Dearest) -> int:
    """Return the affordable output tokens, assuming the highest price for each input token, because
    the cache may have expired.

    `left`: remaining budget in units. `asked`: input tokens. `wanted`: result if output is free.
    """
    left_usd = Decimal(left) / PER_DOLLAR - price.request - price.token_in * asked
    if left <= 0 or left_usd < 0:
        return 0
    return int(left_usd / price.token_out) if price.token_out else wanted
