"""Arithmetic of nested budgets: spending and reservations of a run and its descendants, under the
limits of its ancestors.

ledger.py decides when amounts are reserved and spent. Entry points: `BudgetNode`.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal

from treadle.types import Limits

TURNS, CALLS, TOKENS, USD = KINDS = range(4)
PER_DOLLAR = Decimal(10**12)
"""Units per dollar. Money is counted in integer units of 10^-12 USD, so that sums are exact."""


class BudgetNode:
    """Budget of one run, for each kind of amount: turns, calls, tokens and units of money.

    Not thread-safe. A run and its children share one event loop, and no method awaits.
    """

    def __init__(self, limits: Limits) -> None:
        self.limit_to(limits)
        self.spent = [0, 0, 0, 0]
        """Amounts spent, including descendants."""
        self.held = [0, 0, 0, 0]
        """Amounts reserved and not yet settled, including descendants."""
        self.own = [0, 0, 0, 0]
        """Part of `held` that this run itself has reserved."""
        self.need = [0, 0, 0, 0]
        """Amounts reserved for this run's own next turn, which children may not use."""
        self.starting = 1
        """Number of children that the current calls are expected to start still."""
        self._above: BudgetNode | None = None
        self._below: list[BudgetNode] = []
        """Active children."""
        self._since = [0, 0, 0, 0]
        self._share = [0, 0, 0, 0]
        """`_share`: part of the parent's remaining budget that is guaranteed to this run. `_since`:
        `spent` when the share was granted.
        """

    def limit_to(self, limits: Limits) -> None:
        """Set the run's own limits."""
        self.limits = limits
        self._most = (
            limits.turns,
            limits.tool_calls,
            limits.tokens,
            None if limits.cost_usd is None else units(limits.cost_usd),
        )

    def join(self, above: BudgetNode) -> bool:
        """Attach the budget to a parent and take a share of what remains there.

        Returns False if the parent has no turn left.
        """
        left = [above._left_below(kind) for kind in KINDS]
        if left[TURNS] < 1:
            return False
        self._above, self._since = above, [*self.spent]
        parts = max(above.starting, 1)
        self._share = [0 if one == math.inf else max(int(one) // parts, 0) for one in left]
        above.starting = max(above.starting - 1, 0)
        above._below.append(self)
        return True

    def _left_below(self, kind: int) -> float:
        """Return what a further child can get. One more than expected gets as much as each of the
        others, from their shares if necessary.
        """
        kept = [one._kept(kind) for one in self._below]
        left = self.free(kind) - self.need[kind] - sum(kept)
        if self.starting or left == math.inf:
            return left
        fair = (left + sum(kept)) // (len(kept) + 1)
        for one, amount in zip(self._below, kept, strict=True):
            surplus = amount - max(int(fair), 0)
            if surplus > 0:
                one._share[kind] -= surplus
                left += surplus
        return left

    def _kept(self, kind: int) -> int:
        """Return the part of the share that is neither spent nor reserved."""
        used = self.spent[kind] - self._since[kind] + self.held[kind]
        return max(self._share[kind] - used, 0)

    @property
    def is_below(self) -> bool:
        """True while attached to a parent."""
        return self._above is not None

    def leave(self) -> None:
        """Release all reservations and detach from the parent, which keeps the spending.
        Idempotent.
        """
        for kind, amount in enumerate(self.own):
            if amount:
                self.hold(kind, -amount)
        if self._above is not None:
            self._above._below.remove(self)
            self._above = None

    def free(self, kind: int) -> float:
        """Return the available amount of a kind under all limits; infinite without limits.

        The shares of this run's own children do not reduce it: a child of a hook can run while
        this run makes a request.
        """
        if self._above is None and not self._below:
            limit = self._most[kind]
            return math.inf if limit is None else limit - self.spent[kind] - self.held[kind]
        least, node, child = math.inf, self, None
        while node is not None:
            if (limit := node._most[kind]) is not None:
                others = 0 if child is None else node.need[kind]
                if child is not None:
                    others += sum(one._kept(kind) for one in node._below if one is not child)
                least = min(least, limit - node.spent[kind] - node.held[kind] - others)
            child, node = node, node._above
        return least

    def hold(self, kind: int, amount: int) -> None:
        if self._above is None and self._most[kind] is None:
            return  # nothing limits this kind
        self.own[kind] += amount
        self.held[kind] += amount
        node = self._above
        while node is not None:
            node.held[kind] += amount
            node = node._above

    def let_go(self, kind: int) -> None:
        """Release this run's own reservations of a kind."""
        self.hold(kind, -self.own[kind])

    def spend(self, kind: int, amount: int) -> None:
        self.spent[kind] += amount
        node = self._above
        while node is not None:
            node.spent[kind] += amount
            node = node._above

    def is_limited(self, kind: int) -> bool:
        """Return True if this run or an ancestor limits the kind."""
        return self._most[kind] is not None or (
            self._above is not None and self._above.is_limited(kind)
        )


def units(amount: float | Decimal) -> int:
    """Convert dollars to units. Rounds a Decimal up."""
    if isinstance(amount, Decimal):
        return int((amount * PER_DOLLAR).to_integral_value(ROUND_CEILING))
    return round(amount * 1e12)  # exact for amounts with up to twelve decimal places
