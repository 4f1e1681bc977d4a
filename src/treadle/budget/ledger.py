"""Spending, reservations and remaining budget of a run and its children.

The maximum cost of a request is reserved on the run and its ancestors before it is sent, so that
concurrent runs cannot exceed a limit. Its usage then settles it. Entry points: `Ledger`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import msgspec

from treadle._internal.units import usd
from treadle.budget.limits import (
    LEAST_SAID,
    LIMIT_NAMES,
    BudgetSpent,
    ReservedResponse,
    affordable,
    units_of,
)
from treadle.budget.prices import Dearest
from treadle.budget.spending import Reserved
from treadle.budget.tree import CALLS, KINDS, PER_DOLLAR, TOKENS, TURNS, USD, BudgetNode, units
from treadle.messages.metrics import RunTotals
from treadle.messages.size import BYTES_PER_TOKEN
from treadle.types import Limits, Outcome, Usage

_DearestOf: TypeAlias = Callable[[int], Dearest]


class Ledger:
    """Spending of a run and its children, checked against its limits and its ancestors'."""

    def __init__(self, limits: Limits) -> None:
        self.usage = Usage()
        self.cost_usd: float | None = None
        """Cost of all uses with a known price; None if there are none."""
        self.unpriced = 0
        """Number of responses, and failed attempts with usage, without a known price."""
        self.turns = 0
        self.tool_calls = 0
        """Number of calls started."""
        self.unreported_tokens, self.unreported_usd = 0, 0.0
        """Estimated usage that no provider reported: input of interrupted requests, and the text
        received until then.
        """
        self.fixed_bytes = 0
        """Size of the first request without its messages, in bytes."""
        self.context_tokens = 0
        """Tokens of the conversation up to the last response, by the last reported usage."""
        self._said_tokens = 0
        self._turn_usd = 0
        """Output tokens of the last response, with its cost in units."""
        self.below: dict[str, RunTotals] = {}
        """Totals of inactive child runs, by run id."""
        self._above: Ledger | None = None
        self._run_id = ""
        self._account = BudgetNode(limits)
        self.estimates = self.counts_calls = False
        """`estimates`: the run or an ancestor limits tokens or cost, so requests are estimated.
        `counts_calls`: the run or an ancestor limits tool calls.
        """
        self._look()
        self._price: Dearest | None = None
        """Price of the last request."""
        self._keeps_last = False
        """True while a turn is reserved for a final answer without tools."""
        self.is_last_turn = False
        """True if the current turn is the last that the turn limits allow."""
        self._keeps_call = False
        """True while a call is reserved for the one that completes the run."""

    # ------------------------------------------------------------ the tree

    @property
    def limits(self) -> Limits:
        return self._account.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        if limits is not self._account.limits:
            self._account.limit_to(limits)
            self._look()

    def _look(self) -> None:
        self.estimates = self._account.is_limited(TOKENS) or self._account.is_limited(USD)
        self.counts_calls = self._account.is_limited(CALLS)

    @property
    def total(self) -> RunTotals:
        """Totals of the run and its descendants."""
        own = RunTotals(
            turns=self.turns,
            tool_calls=self.tool_calls,
            usage=self.usage,
            cost_usd=self.cost_usd,
            unpriced=self.unpriced,
        )
        return sum(self.below.values(), own)

    def begin(
        self, above: Ledger | None = None, *, run_id: str = "", completes: bool = False
    ) -> None:
        """Activate the ledger.

        `above`: ledger of the parent, which stores this run's totals by `run_id`. `completes`:
        reserve the tool call that completes the run. Raises BudgetSpent if the parent has no turn
        left.
        """
        if above is not None:
            if not self._account.join(above._account):
                raise BudgetSpent(Outcome.TURN_LIMIT)
            self._above, self._run_id = above, run_id
            self._look()
        if self._account.free(TURNS) >= 1:
            self._keeps_last = True
            self._account.hold(TURNS, 1)
        if completes and self._account.free(CALLS) >= 1:
            self._keeps_call = True
            self._account.hold(CALLS, 1)

    def end(self) -> None:
        """Deactivate the ledger and release its unused reservations. Idempotent."""
        if self._above is not None:
            self._above.below[self._run_id], self._above = self.total, None
        self._account.leave()
        self._keeps_last = self.is_last_turn = self._keeps_call = False

    def expect(self, children: int) -> None:
        """Divide the remaining budget, except for this run's next turn, among `children` runs that
        are about to start.
        """
        account = self._account
        account.starting = max(children, 1)
        if not self.estimates:
            return
        said = max(self._said_tokens, LEAST_SAID)
        account.need[TOKENS] = self.context_tokens + 3 * said
        if (price := self._price) is not None:
            account.need[USD] = units(
                price.request
                + price.token_in * (self.context_tokens + said)
                + price.token_out * said
            )

    def add_below(self, run_id: str, other: Ledger) -> None:
        """Count the spending of an inactive child run."""
        self.below[run_id] = other.total
        for kind in KINDS:
            self._account.spend(kind, other._account.spent[kind])

    # ------------------------------------------------------------ turns and requests

    def last_turn(self, new_bytes: int = 0, dearest: _DearestOf | None = None) -> Outcome | None:
        """Return the limit that makes the coming turn the last, in which the model must answer
        without tools.

        Arguments as for `output_left`.
        """
        if self._account.free(TURNS) < 1 and (
            self.turns or not self._keeps_last or self._account.is_below
        ):
            return Outcome.TURN_LIMIT
        if self.counts_calls and self._account.free(CALLS) < 1:
            return Outcome.CALL_LIMIT
        return self._nearly_spent(new_bytes, dearest) if self.turns and self.estimates else None

    def _nearly_spent(self, new_bytes: int, dearest: _DearestOf | None) -> Outcome | None:
        """Return the limit that will probably not allow a second turn from now."""
        said = max(self._said_tokens, LEAST_SAID)
        asked = self._expected_input(new_bytes)
        if self._account.free(TOKENS) <= asked:
            return None  # even the coming turn does not fit
        if self._account.free(TOKENS) < 2 * asked + 3 * said:
            return Outcome.TOKEN_LIMIT
        if dearest is not None and self._account.free(USD) != math.inf:
            price = dearest(self.context_tokens + self.fixed_bytes + new_bytes)
            if self._account.free(USD) < self._turn_usd + units(
                price.request + price.token_in * (asked + said) + price.token_out * said
            ):
                return Outcome.COST_LIMIT
        return None

    @property
    def last_by_count(self) -> Outcome | None:
        """Limit that was reached by counts alone, for journals that do not record it."""
        limits = self._account.limits
        if limits.turns is not None and 1 < limits.turns <= self.turns + 1:
            return Outcome.TURN_LIMIT
        return (
            Outcome.CALL_LIMIT
            if limits.tool_calls is not None and self.tool_calls >= limits.tool_calls
            else None
        )

    @property
    def turns_spent(self) -> bool:
        return not self._keeps_last and self._account.free(TURNS) < 1

    def output_left(
        self, wanted: int, new_bytes: int = 0, dearest: _DearestOf | None = None
    ) -> ReservedResponse:
        """Return the output tokens that the next request may use, at most `wanted`.

        `new_bytes`: size of the messages since the last response. `dearest`: maximum price for an
        input of at most this many tokens, called only if cost is limited.
        """
        if not self.estimates:
            return ReservedResponse(wanted, None)
        left, asked, price = ReservedResponse(wanted, None), self._expected_input(new_bytes), None
        if (tokens := self._account.free(TOKENS) - asked) < left.tokens:
            left = ReservedResponse(int(tokens), Outcome.TOKEN_LIMIT)
        if dearest is not None and (units := self._account.free(USD)) != math.inf:
            # bytes bound the tokens from above, so this includes every reachable price step
            price = dearest(self.context_tokens + self.fixed_bytes + new_bytes)
            if (tokens := affordable(int(units), asked, wanted, price)) < left.tokens:
                left = ReservedResponse(tokens, Outcome.COST_LIMIT)
        self._price = price
        output = max(left.tokens, 0)
        reserved = Reserved(input_tokens=asked, output_tokens=output)
        if price is not None:
            reserved = Reserved(
                input_tokens=asked,
                output_tokens=output,
                input_usd=float(price.request + price.token_in * asked),
                output_usd=float(price.token_out * output),
            )
        return msgspec.structs.replace(left, reserved=reserved)

    def _expected_input(self, new_bytes: int) -> int:
        """Return the expected input tokens: the reported size, and an estimate for new messages."""
        return self.context_tokens + -(-(self.fixed_bytes + new_bytes) // BYTES_PER_TOKEN)

    def ask(self, left: ReservedResponse) -> None:
        """Reserve the maximum cost of a request until it is settled."""
        if self._account.free(TURNS) >= 1:
            self._account.hold(TURNS, 1)
        else:
            self.is_last_turn = True
        if left.reserved is not None:
            self._account.hold(TOKENS, left.reserved.tokens)
            self._account.hold(USD, units_of(left.reserved))

    def check_again(self, reserved: Reserved | None) -> None:
        """Raise BudgetSpent unless the limits allow another attempt even if this one uses its whole
        reservation.
        """
        if reserved is not None and self._account.free(TOKENS) < reserved.tokens:
            raise BudgetSpent(Outcome.TOKEN_LIMIT)
        if reserved is not None and self._account.free(USD) < units_of(reserved):
            raise BudgetSpent(Outcome.COST_LIMIT)

    def set_aside(self, reserved: Reserved) -> bool:
        """Reserve a request outside the turns, until `give_back`; False if it does not fit."""
        if self._account.free(TOKENS) < reserved.tokens or self._account.free(USD) < units_of(
            reserved
        ):
            return False
        self._account.hold(TOKENS, reserved.tokens)
        self._account.hold(USD, units_of(reserved))
        return True

    def give_back(self, reserved: Reserved) -> None:
        """Release a reservation of `set_aside`. Its actual spending is recorded separately."""
        self._account.hold(TOKENS, -reserved.tokens)
        self._account.hold(USD, -units_of(reserved))

    @property
    def counts_money(self) -> bool:
        """True if the run or an ancestor limits cost."""
        return self._account.free(USD) != math.inf

    # ------------------------------------------------------------ spending

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """Add the reported usage of a response or a failed attempt.

        `cost_usd`: None if the price is unknown.
        """
        self.usage += usage
        self._account.spend(TOKENS, usage.total_tokens)
        if cost_usd is None:
            self.unpriced += 1
        else:
            self.cost_usd = usd(self.cost_usd, cost_usd)
            self._account.spend(USD, units(cost_usd))

    def lose(self, reserved: Reserved | None, said_bytes: int = 0) -> None:
        """Add the full reservation of an interrupted attempt, whose usage is unknown.

        `said_bytes`: size of the text received.
        """
        if reserved is not None:
            self._account.spend(TOKENS, reserved.tokens)
            self._account.spend(USD, units_of(reserved))
            self._estimate(reserved, reserved.input_tokens, -(-said_bytes // BYTES_PER_TOKEN))

    def take_back(self, reserved: Reserved | None) -> None:
        """Undo `lose` for an attempt of a child that was resumed and now counts it itself."""
        if reserved is not None:
            self._account.spend(TOKENS, -reserved.tokens)
            self._account.spend(USD, -units_of(reserved))

    def _estimate(self, reserved: Reserved | None, asked: int, said: int) -> None:
        self.unreported_tokens += asked + said
        if reserved is not None and reserved.input_usd is not None:
            of_output = min(said / reserved.output_tokens, 1) if reserved.output_tokens else 0
            self.unreported_usd += reserved.input_usd + (reserved.output_usd or 0) * of_output

    def settle(
        self, usage: Usage, cost_usd: float | None = None, context_tokens: int | None = None
    ) -> None:
        """Record a response.

        `context_tokens`: size of the conversation; None: the total of `usage`; 0: unknown, which
        keeps the previous size.
        """
        self.spend(usage, cost_usd)
        self.context_tokens = (
            usage.total_tokens if context_tokens is None else context_tokens or self.context_tokens
        )
        self._said_tokens, self._turn_usd = usage.output_tokens, units(cost_usd) if cost_usd else 0
        self.pass_turn()

    def settle_untold(self, new_bytes: int, said_bytes: int, reserved: Reserved | None) -> None:
        """Record a response without usage, estimated from its input and the size of its text."""
        # prefer the journaled reservation, so that a resumed run records the same
        asked = reserved.input_tokens if reserved is not None else self._expected_input(new_bytes)
        said = -(-said_bytes // BYTES_PER_TOKEN)
        self.spend(Usage(), None)
        self._account.spend(TOKENS, asked + said)
        self._estimate(reserved, asked, said)
        if reserved is not None and reserved.input_usd is not None:
            of_output = said / reserved.output_tokens if reserved.output_tokens else 0
            usd_said = (reserved.output_usd or 0) * of_output
            self._account.spend(USD, units(reserved.input_usd + usd_said))
        self.context_tokens, self._said_tokens = asked + said, said
        self.pass_turn()

    def pass_turn(self) -> None:
        """Count a turn and release the reservations made for it."""
        self.turns += 1
        self.fixed_bytes = 0
        if self._account.own[TOKENS] or self._account.own[USD]:
            self._account.let_go(TOKENS)
            self._account.let_go(USD)
        if self.is_last_turn:
            self._keeps_last = self.is_last_turn = False
        if self._account.own[TURNS] > self._keeps_last:
            self._account.hold(TURNS, -1)
        self._account.spend(TURNS, 1)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Warnings about usage that `cost_usd` does not include."""
        if self.cost_usd is None or not self.unpriced:
            return ()
        times = "once" if self.unpriced == 1 else f"{self.unpriced} times"
        return (
            f"the cost of this run is incomplete: {times} a model was used whose price is not "
            "known; add it under prices in the configuration",
        )

    def left(self, limit: Outcome) -> float:
        """Return the remaining amount of a limit, for display."""
        kind = [*LIMIT_NAMES].index(limit)
        free = max(int(self._account.free(kind)) + (kind == TURNS and self._keeps_last), 0)
        return float(Decimal(free) / PER_DOLLAR) if kind == USD else free

    # ------------------------------------------------------------ calls

    def admit_call(self, *, completes: bool = False) -> bool:
        """Reserve a tool call until `start_call` or `forget_calls`. Returns False if none is left.

        `completes`: the call completes the run.
        """
        if completes and self._keeps_call:
            self._keeps_call = False
            return True
        if self._account.free(CALLS) < 1:
            return False
        self._account.hold(CALLS, 1)
        return True

    def start_call(self) -> None:
        self.tool_calls += 1
        if self._account.own[CALLS]:
            self._account.hold(CALLS, -1)
        self._account.spend(CALLS, 1)

    def forget_calls(self) -> None:
        """Release admitted calls that were not started."""
        if (admitted := self._account.own[CALLS] - self._keeps_call) > 0:
            self._account.hold(CALLS, -admitted)
