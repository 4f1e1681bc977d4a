"""What a run and those it started have spent and have under way, and what the limits of it and of
all above it leave.

A request is reserved here and on every run above before it is sent, and settled from its usage; so
no limit is passed between a look and a spending. Not here: what a token costs (prices.py). Entry:
`Ledger`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple, TypeAlias

from treadle.budget.prices import Dearest
from treadle.budget.tree import CALLS, KINDS, PER_DOLLAR, TOKENS, TURNS, USD, BudgetNode, units
from treadle.messages.metrics import RunTotals
from treadle.messages.size import BYTES_PER_TOKEN
from treadle.types import Limits, Outcome, Reserved, Usage, usd

LEAST_SAID = 256
"""Output tokens that a turn is expected to have at least, where one looks ahead."""

LIMIT_NAMES = {
    Outcome.TURN_LIMIT: "turns",
    Outcome.CALL_LIMIT: "tool_calls",
    Outcome.TOKEN_LIMIT: "tokens",
    Outcome.COST_LIMIT: "cost_usd",
}
"""What a last turn is due to, in the words of `Limits`."""

_DearestOf: TypeAlias = Callable[[int], Dearest]


class ReservedResponse(NamedTuple):
    """What the coming response may hold."""

    tokens: int
    """0 or less: not even the request fits."""
    limit: Outcome | None
    """The limit that leaves no more; None: it may have what was wanted."""
    reserved: Reserved | None = None
    """What the request may cost at most; None where no limit asks."""


class BudgetSpent(Exception):
    """What is left does not allow to go on. For the loop, which ends with `outcome`."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class Ledger:
    """One run's spending against its limits, and its children's, and a share of the limits above
    it.
    """

    def __init__(self, limits: Limits) -> None:
        self.usage = Usage()
        self.cost_usd: float | None = None
        """Of what had a price; None where nothing had."""
        self.unpriced = 0
        """How much was used whose price was not known: responses, and failed attempts of which one
        knows what they used.
        """
        self.turns = 0
        self.tool_calls = 0
        """Calls that started."""
        self.unreported_tokens, self.unreported_usd = 0, 0.0
        """Estimate of usage that no provider reported: the input of each request that was cut, and
        the text that had arrived.
        """
        self.fixed_bytes = 0
        """What the first request holds beside messages."""
        self.context_tokens = 0
        """Of the conversation up to the last response, as far as anybody told."""
        self._said_tokens = 0
        self._turn_usd = 0
        """What the last response said, and took."""
        self.below: dict[str, RunTotals] = {}
        """By run id: totals of the runs that it started directly and that nobody drives now."""
        self._above: Ledger | None = None
        self._run_id = ""
        self._account = BudgetNode(limits)
        self.estimates = self.counts_calls = False
        """Whether a limit, here or above, asks how large the next request will be; whether one is
        of calls.
        """
        self._look()
        self._price: Dearest | None = None
        """Of its last request."""
        self._keeps_last = self._on_last = False
        """One turn is kept for an answer without tools; whether it is the one under way."""
        self._keeps_call = False
        """One call is kept for saying that the run is done."""

    # ------------------------------------------------------------ the tree

    @property
    def limits(self) -> Limits:
        return self._account.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        if limits is not self._account.limits:
            self._account.limits = limits
            self._look()

    def _look(self) -> None:
        self.estimates = self._account.is_limited(TOKENS) or self._account.is_limited(USD)
        self.counts_calls = self._account.is_limited(CALLS)

    @property
    def total(self) -> RunTotals:
        """Of its own and of everything below it."""
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
        """From here on it is driven. `above`: that of the run that started it, where it counts
        under `run_id`. `completes`: it ends with a call, for which one is kept.

        Raises BudgetSpent where no turn is left above.
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
        """Nobody drives it any more: what it had not used is free again. Idempotent."""
        if self._above is not None:
            self._above.below[self._run_id], self._above = self.total, None
        self._account.leave()
        self._keeps_last = self._on_last = self._keeps_call = False

    def expect(self, children: int) -> None:
        """So many calls run now, each of which may start a child: what is left is for all of them,
        but for a next turn of its own.
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
        """Count what a child spent that nobody drives now."""
        self.below[run_id] = other.total
        for kind in KINDS:
            self._account.spend(kind, other._account.spent[kind])

    # ------------------------------------------------------------ turns and requests

    def last_turn(self, new_bytes: int = 0, dearest: _DearestOf | None = None) -> Outcome | None:
        """The limit that makes the coming turn the last one, where the model must answer without
        tools. `new_bytes`: as for `output_left`.
        """
        if self._account.free(TURNS) < 1 and (
            self.turns or not self._keeps_last or self._account.is_below
        ):
            return Outcome.TURN_LIMIT
        if self._account.free(CALLS) < 1:
            return Outcome.CALL_LIMIT
        return self._nearly_spent(new_bytes, dearest) if self.turns and self.estimates else None

    def _nearly_spent(self, new_bytes: int, dearest: _DearestOf | None) -> Outcome | None:
        """Whether one more turn would likely not fit after the coming one."""
        said = max(self._said_tokens, LEAST_SAID)
        asked = self._expected_input(new_bytes)
        if self._account.free(TOKENS) <= asked:
            return None  # not even the coming one fits
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
        """By its own limits and counts alone: of journals that do not say it."""
        limits = self.limits
        if limits.turns is not None and 1 < limits.turns <= self.turns + 1:
            return Outcome.TURN_LIMIT
        return (
            Outcome.CALL_LIMIT
            if limits.tool_calls is not None and self.tool_calls >= limits.tool_calls
            else None
        )

    @property
    def is_last_turn(self) -> bool:
        """Whether the turn under way is the last that the limits of turns allow."""
        return self._on_last

    @property
    def turns_spent(self) -> bool:
        return not self._keeps_last and self._account.free(TURNS) < 1

    def output_left(
        self, wanted: int, new_bytes: int = 0, dearest: _DearestOf | None = None
    ) -> ReservedResponse:
        """How many output tokens the next request may ask for, at most `wanted`.

        `new_bytes`: of messages that no response has counted yet. `dearest`: what so much input
        costs, asked where money is limited.
        """
        if not self.estimates:
            return ReservedResponse(wanted, None)
        left, asked, price = ReservedResponse(wanted, None), self._expected_input(new_bytes), None
        if (tokens := self._account.free(TOKENS) - asked) < left.tokens:
            left = ReservedResponse(int(tokens), Outcome.TOKEN_LIMIT)
        if dearest is not None and (units := self._account.free(USD)) != math.inf:
            # a step of the rates is reached for sure where it can be
            price = dearest(self.context_tokens + self.fixed_bytes + new_bytes)
            if (tokens := _affordable(int(units), asked, wanted, price)) < left.tokens:
                left = ReservedResponse(tokens, Outcome.COST_LIMIT)
        self._price = price
        reserved = Reserved(input_tokens=asked, output_tokens=max(left.tokens, 0))
        if price is not None:
            money = (
                float(price.request + price.token_in * asked),
                float(price.token_out * reserved.output_tokens),
            )
            reserved = Reserved(
                input_tokens=asked,
                output_tokens=reserved.output_tokens,
                input_usd=money[0],
                output_usd=money[1],
            )
        return left._replace(reserved=reserved)

    def _expected_input(self, new_bytes: int) -> int:
        """Tokens of the next request: counted as far as responses told, the rest estimated."""
        return self.context_tokens + -(-(self.fixed_bytes + new_bytes) // BYTES_PER_TOKEN)

    def ask(self, left: ReservedResponse) -> None:
        """A request goes out: until it is settled, nobody else may take what it may cost."""
        if self._account.free(TURNS) >= 1:
            self._account.hold(TURNS, 1)
        else:
            self._on_last = True
        if left.reserved is not None:
            self._account.hold(TOKENS, left.reserved.tokens)
            self._account.hold(USD, _units_of(left.reserved))

    def check_again(self, reserved: Reserved | None) -> None:
        """Before an attempt that may have cost all of its reservation is made once more.

        Raises BudgetSpent where it does not fit twice.
        """
        if reserved is not None and self._account.free(TOKENS) < reserved.tokens:
            raise BudgetSpent(Outcome.TOKEN_LIMIT)
        if reserved is not None and self._account.free(USD) < _units_of(reserved):
            raise BudgetSpent(Outcome.COST_LIMIT)

    def set_aside(self, reserved: Reserved) -> bool:
        """Keeps that much for a request beside the turns, until it is given back; False where it is
        not there.
        """
        if self._account.free(TOKENS) < reserved.tokens or self._account.free(USD) < _units_of(
            reserved
        ):
            return False
        self._account.hold(TOKENS, reserved.tokens)
        self._account.hold(USD, _units_of(reserved))
        return True

    def give_back(self, reserved: Reserved) -> None:
        """What was set aside; what it took is spent already."""
        self._account.hold(TOKENS, -reserved.tokens)
        self._account.hold(USD, -_units_of(reserved))

    @property
    def counts_money(self) -> bool:
        """Whether a limit, here or above, is one of money."""
        return self._account.free(USD) != math.inf

    # ------------------------------------------------------------ what was spent

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """What a response, or a failed attempt, is known to have taken. `cost_usd`:

        None where its price is not known.
        """
        self.usage += usage
        self._account.spend(TOKENS, usage.total_tokens)
        if cost_usd is None:
            self.unpriced += 1
        else:
            self.cost_usd = usd(self.cost_usd, cost_usd)
            self._account.spend(USD, units(cost_usd))

    def lose(self, reserved: Reserved | None, said_bytes: int = 0) -> None:
        """An attempt was cut, and nobody knows what it took: it counts as all that it may have.

        `said_bytes`: of the text that had arrived.
        """
        if reserved is not None:
            self._account.spend(TOKENS, reserved.tokens)
            self._account.spend(USD, _units_of(reserved))
            self._estimate(reserved, reserved.input_tokens, -(-said_bytes // BYTES_PER_TOKEN))

    def take_back(self, reserved: Reserved | None) -> None:
        """An attempt of a child was counted here as lost, and the child goes on, which counts it."""  # noqa: E501
        if reserved is not None:
            self._account.spend(TOKENS, -reserved.tokens)
            self._account.spend(USD, -_units_of(reserved))

    def _estimate(self, reserved: Reserved | None, asked: int, said: int) -> None:
        self.unreported_tokens += asked + said
        if reserved is not None and reserved.input_usd is not None:
            of_output = min(said / reserved.output_tokens, 1) if reserved.output_tokens else 0
            self.unreported_usd += reserved.input_usd + (reserved.output_usd or 0) * of_output

    def settle(
        self, usage: Usage, cost_usd: float | None = None, context_tokens: int | None = None
    ) -> None:
        """A response came: its counts say exactly how large the conversation is, unless
        `context_tokens` does. 0: it is not known, and stays as it was.
        """
        self.spend(usage, cost_usd)
        self.context_tokens = (
            usage.total_tokens if context_tokens is None else context_tokens or self.context_tokens
        )
        self._said_tokens, self._turn_usd = usage.output_tokens, units(cost_usd) if cost_usd else 0
        self._turn_is_over()

    def settle_untold(self, new_bytes: int, said_bytes: int, reserved: Reserved | None) -> None:
        """A response came whose provider did not tell what it used: it counts as what was expected,
        and as what it said.
        """
        # as the journal has it
        asked = reserved.input_tokens if reserved is not None else self._expected_input(new_bytes)
        said = -(-said_bytes // BYTES_PER_TOKEN)
        self.spend(Usage(), None)
        self._account.spend(TOKENS, asked + said)
        self._estimate(reserved, asked, said)
        if reserved is not None and reserved.input_usd is not None:
            of_output = said / reserved.output_tokens if reserved.output_tokens else 0
            self._account.spend(
                USD, units(reserved.input_usd + (reserved.output_usd or 0) * of_output)
            )
        self.context_tokens, self._said_tokens = asked + said, said
        self._turn_is_over()

    def pass_turn(self) -> None:
        """A turn in which no model was asked."""
        self._turn_is_over()

    def _turn_is_over(self) -> None:
        self.turns += 1
        self.fixed_bytes = 0
        if self._account.own[TOKENS] or self._account.own[USD]:
            self._account.let_go(TOKENS)
            self._account.let_go(USD)
        if self._on_last:
            self._keeps_last = self._on_last = False
        if self._account.own[TURNS] > self._keeps_last:
            self._account.hold(TURNS, -1)
        self._account.spend(TURNS, 1)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What `cost_usd` does not say, where it says something."""
        if self.cost_usd is None or not self.unpriced:
            return ()
        times = "once" if self.unpriced == 1 else f"{self.unpriced} times"
        return (
            (
                f"the cost of this run is not all: {times} a model was used whose price is not "
                "known; prices in the configuration can say it"
            ),
        )

    def left(self, limit: Outcome) -> float:
        """What is left of it, for people."""
        kind = [*LIMIT_NAMES].index(limit)
        free = max(int(self._account.free(kind)) + (kind == TURNS and self._keeps_last), 0)
        return float(Decimal(free) / PER_DOLLAR) if kind == USD else free

    # ------------------------------------------------------------ calls

    def admit_call(self, *, completes: bool = False) -> bool:
        """Whether one more may start; it is kept for it until `start_call` or `forget_calls`.

        `completes`: it says that the run is done.
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
        """Those that were admitted and never started are free again."""
        if (admitted := self._account.own[CALLS] - self._keeps_call) > 0:
            self._account.hold(CALLS, -admitted)


def _affordable(left: int, asked: int, wanted: int, price: Dearest) -> int:
    """Output tokens, where every token of the request is as dear as it can be: a cache may have
    forgotten all of it.
    """
    left_usd = Decimal(left) / PER_DOLLAR - price.request - price.token_in * asked
    if left <= 0 or left_usd < 0:
        return 0
    return int(left_usd / price.token_out) if price.token_out else wanted


def _units_of(reserved: Reserved) -> int:
    return units(reserved.input_usd or 0) + units(reserved.output_usd or 0)
