"""What a run and those below it have spent and hold of each kind, under the limits of all above:
the arithmetic of a tree of budgets.

What the kinds mean, and when something is held or spent, is ledger.py's. Entry: `BudgetNode`.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from treadle.types import Limits

TURNS, CALLS, TOKENS, USD = KINDS = range(4)
PER_DOLLAR = Decimal(10**12)
"""Money is counted in millionths of a millionth of a dollar, so that sums are exact."""


class BudgetNode:
    """One run's.

    Not safe from several threads: runs and their children are driven in one event loop, and nothing
    here waits.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.spent = [0, 0, 0, 0]
        """Of each kind, its own and that of all below."""
        self.held = [0, 0, 0, 0]
        """Under way and not settled, its own and that of all below."""
        self.own = [0, 0, 0, 0]
        """Its own part of that."""
        self.need = [0, 0, 0, 0]
        """What it keeps for itself while children run."""
        self.starting = 1
        """Children that the calls under way may still start."""
        self._above: BudgetNode | None = None
        self._below: list[BudgetNode] = []
        """Children under way."""
        self._since = [0, 0, 0, 0]
        self._share = [0, 0, 0, 0]
        """Of what is left above it: nobody else may take that much, counted from `_since`."""

    @property
    def limits(self) -> Limits:
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits = limits
        self._most = (
            limits.turns,
            limits.tool_calls,
            limits.tokens,
            None if limits.cost_usd is None else units(limits.cost_usd),
        )

    def join(self, above: BudgetNode) -> bool:
        """It counts on `above` from here on, and has a share of what is left there; False where no
        turn is left.
        """
        left = [above.free(kind) - above.need[kind] for kind in KINDS]
        if left[TURNS] < 1:
            return False
        self._above, self._since = above, [*self.spent]
        self._share = [0 if one == math.inf else max(int(one) // above.starting, 0) for one in left]
        above.starting = max(above.starting - 1, 1)
        above._below.append(self)
        return True

    @property
    def is_below(self) -> bool:
        """Whether another run started this one."""
        return self._above is not None

    def leave(self) -> None:
        """What it held is free again; what it spent stays spent above. Idempotent."""
        for kind in KINDS:
            self.hold(kind, -self.own[kind])
        if self._above is not None:
            self._above._below.remove(self)
            self._above = None

    def free(self, kind: int) -> float:
        """What it may still take of one kind, by all limits above it; infinite where none is."""
        if self._above is None and not self._below:  # as nearly all runs are
            limit = self._most[kind]
            return math.inf if limit is None else limit - self.spent[kind] - self.held[kind]
        least, node, child = math.inf, self, None
        while node is not None:
            if (limit := node._most[kind]) is not None:
                kept = sum(
                    max(one._share[kind] - (one.spent[kind] - one._since[kind] + one.held[kind]), 0)
                    for one in node._below
                    if one is not child
                )
                own = 0 if child is None else node.need[kind]
                least = min(least, limit - node.spent[kind] - node.held[kind] - kept - own)
            child, node = node, node._above
        return least

    def hold(self, kind: int, amount: int) -> None:
        if self._above is None and self._most[kind] is None:
            return  # nobody asks how much is left
        self.own[kind] += amount
        self.held[kind] += amount
        node = self._above
        while node is not None:
            node.held[kind] += amount
            node = node._above

    def let_go(self, kind: int) -> None:
        """Of all that it holds of one kind."""
        self.hold(kind, -self.own[kind])

    def spend(self, kind: int, amount: int) -> None:
        self.spent[kind] += amount
        node = self._above
        while node is not None:
            node.spent[kind] += amount
            node = node._above

    def is_limited(self, kind: int) -> bool:
        """Here or above."""
        return self._most[kind] is not None or (
            self._above is not None and self._above.is_limited(kind)
        )


def units(amount: float | Decimal) -> int:
    """Dollars as they are counted here; of what was computed rather too many than too few."""
    if isinstance(amount, Decimal):
        return int((amount * PER_DOLLAR).to_integral_value(ROUND_CEILING))
    return round(amount * 1e12)  # exact for what has at most twelve places
