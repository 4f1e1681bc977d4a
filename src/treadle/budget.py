"""What a run and those it started have spent and have under way, and what the limits of it and of all above it leave.

A request is reserved here and on every run above before it is sent, and settled from its usage; so no limit is passed between a look and
a spending. Not here: what a token costs (prices.py). Entry: `Ledger`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from typing import NamedTuple, TypeAlias

from treadle.context import BYTES_PER_TOKEN
from treadle.prices import Dearest
from treadle.types import Limits, Outcome, Reserved, Usage, usd

LEAST_SAID = 256
"""Output tokens that a turn is expected to have at least, where one looks ahead."""

LIMIT_NAMES = {Outcome.TURN_LIMIT: "turns", Outcome.CALL_LIMIT: "tool_calls", Outcome.TOKEN_LIMIT: "tokens", Outcome.COST_LIMIT: "cost_usd"}
"""What a last turn is due to, in the words of `Limits`."""

_TURNS, _CALLS, _TOKENS, _USD = range(4)
_KINDS = tuple(LIMIT_NAMES.items())
_UNITS = Decimal(10**12)
"""Money is counted in millionths of a millionth of a dollar, so that sums are exact."""
_DearestOf: TypeAlias = Callable[[int], Dearest]


class Left(NamedTuple):
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
    """One run's spending against its limits, and its children's, and a share of the limits above it.

    Not safe from several threads: runs and their children are driven in one event loop, and nothing here waits.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.usage = Usage()
        self.cost_usd: float | None = None
        """Of what had a price; None where nothing had."""
        self.unpriced = 0
        """How much was used whose price was not known: responses, and failed attempts of which one knows what they used."""
        self.turns = 0
        self.tool_calls = 0
        """Calls that started."""
        self.fixed_bytes = 0
        """What the first request holds beside messages."""
        self.context_tokens = 0
        """Of the conversation up to the last response, as far as anybody told."""
        self._said_tokens = 0
        self._turn_usd = 0
        """What the last response said, and took."""
        self._above: Ledger | None = None
        self._below: list[Ledger] = []
        """Children under way."""
        self._spent = [0, 0, 0, 0]
        """Of each kind, its own and that of all below."""
        self._held = [0, 0, 0, 0]
        """Under way and not settled, its own and that of all below."""
        self._own = [0, 0, 0, 0]
        """Its own part of that."""
        self._since = [0, 0, 0, 0]
        self._share = [0, 0, 0, 0]
        """Of what is left above it: nobody else may take that much, counted from `_since`."""
        self._need = [0, 0, 0, 0]
        """What it keeps for its own next turn while children run."""
        self._price: Dearest | None = None
        """Of its last request."""
        self._starting = 1
        """Children that the calls under way may still start."""
        self._keeps_last = self._on_last = False
        """One turn is kept for an answer without tools; whether it is the one under way."""

    # ------------------------------------------------------------ the tree

    def begin(self, above: Ledger | None = None) -> None:
        """From here on it is driven. `above`: that of the run that started it. Raises BudgetSpent where that has no turn left for it."""
        if above is not None:
            left = [above._free(kind) - above._need[kind] for kind in range(4)]
            if left[_TURNS] < 1:
                raise BudgetSpent(Outcome.TURN_LIMIT)
            self._above, self._since = above, [*self._spent]
            self._share = [0 if one == math.inf else max(int(one) // above._starting, 0) for one in left]
            above._starting = max(above._starting - 1, 1)
            above._below.append(self)
        if self._free(_TURNS) >= 1:
            self._keeps_last = True
            self._hold(_TURNS, 1)

    def end(self) -> None:
        """Nobody drives it any more: what it had not used is free again. Idempotent."""
        for kind in range(4):
            self._hold(kind, -self._own[kind])
        self._keeps_last = self._on_last = False
        if self._above is not None:
            self._above._below.remove(self)
            self._above = None

    def expect(self, children: int) -> None:
        """So many calls run now, each of which may start a child: what is left is for all of them."""
        self._starting = max(children, 1)
        said = max(self._said_tokens, LEAST_SAID)
        self._need[_TOKENS] = self.context_tokens + 3 * said
        if self._price is not None:
            self._need[_USD] = _units(self._price.request + self._price.token_in * (self.context_tokens + said) + self._price.token_out * said)

    def add_below(self, other: Ledger) -> None:
        """What a child had spent that is not under way any more, or not yet again."""
        for kind in range(4):
            self._spend(kind, other._spent[kind])

    def _free(self, kind: int) -> float:
        """What it may still take of one kind, by all limits above it; infinite where none is."""
        least, node, child = math.inf, self, None
        while node is not None:
            limit = node._limit(kind)
            if limit is not None:
                kept = sum(max(one._share[kind] - (one._spent[kind] - one._since[kind] + one._held[kind]), 0) for one in node._below if one is not child)
                own = 0 if child is None else node._need[kind]
                least = min(least, limit - node._spent[kind] - node._held[kind] - kept - own)
            child, node = node, node._above
        return least

    def _limit(self, kind: int) -> int | None:
        limits = self.limits
        if kind == _USD:
            return None if limits.cost_usd is None else _units(limits.cost_usd)
        return (limits.turns, limits.tool_calls, limits.tokens)[kind]

    def _hold(self, kind: int, amount: int) -> None:
        self._own[kind] += amount
        node = self
        while node is not None:
            node._held[kind] += amount
            node = node._above

    def _spend(self, kind: int, amount: int) -> None:
        node = self
        while node is not None:
            node._spent[kind] += amount
            node = node._above

    @property
    def estimates(self) -> bool:
        """Whether a limit, here or above, asks how large the next request will be."""
        node = self
        while node is not None:
            if node.limits.tokens is not None or node.limits.cost_usd is not None:
                return True
            node = node._above
        return False

    # ------------------------------------------------------------ turns and requests

    def last_turn(self, new_bytes: int = 0, dearest: _DearestOf | None = None) -> Outcome | None:
        """The limit that makes the coming turn the last one, where the model must answer without tools. `new_bytes`: as for `output_left`."""
        if self._free(_TURNS) < 1 and (self.turns or not self._keeps_last):
            return Outcome.TURN_LIMIT
        if self._free(_CALLS) < 1:
            return Outcome.CALL_LIMIT
        return self._nearly_spent(new_bytes, dearest) if self.turns and self.estimates else None

    def _nearly_spent(self, new_bytes: int, dearest: _DearestOf | None) -> Outcome | None:
        """Whether one more turn would likely not fit after the coming one."""
        said = max(self._said_tokens, LEAST_SAID)
        asked = self._expected_input(new_bytes)
        if self._free(_TOKENS) <= asked:
            return None  # not even the coming one fits
        if self._free(_TOKENS) < 2 * asked + 3 * said:
            return Outcome.TOKEN_LIMIT
        if dearest is not None and self._free(_USD) != math.inf:
            price = dearest(self.context_tokens + self.fixed_bytes + new_bytes)
            if self._free(_USD) < self._turn_usd + _units(price.request + price.token_in * (asked + said) + price.token_out * said):
                return Outcome.COST_LIMIT
        return None

    @property
    def last_by_count(self) -> Outcome | None:
        """By its own limits and counts alone: of journals that do not say it."""
        limits = self.limits
        if limits.turns is not None and 1 < limits.turns <= self.turns + 1:
            return Outcome.TURN_LIMIT
        return Outcome.CALL_LIMIT if limits.tool_calls is not None and self.tool_calls >= limits.tool_calls else None

    @property
    def is_last_turn(self) -> bool:
        """Whether the turn under way is the last that the limits of turns allow."""
        return self._on_last

    @property
    def turns_spent(self) -> bool:
        return not self._keeps_last and self._free(_TURNS) < 1

    def output_left(self, wanted: int, new_bytes: int = 0, dearest: _DearestOf | None = None) -> Left:
        """How many output tokens the next request may ask for, at most `wanted`.

        `new_bytes`: of messages that no response has counted yet. `dearest`: what so much input costs, asked where money is limited.
        """
        if not self.estimates:
            return Left(wanted, None)
        left, asked, price = Left(wanted, None), self._expected_input(new_bytes), None
        if (tokens := self._free(_TOKENS) - asked) < left.tokens:
            left = Left(int(tokens), Outcome.TOKEN_LIMIT)
        if dearest is not None and (units := self._free(_USD)) != math.inf:
            price = dearest(self.context_tokens + self.fixed_bytes + new_bytes)  # a step of the rates is reached for sure where it can be
            if (tokens := _affordable(int(units), asked, wanted, price)) < left.tokens:
                left = Left(tokens, Outcome.COST_LIMIT)
        self._price = price
        reserved = Reserved(input_tokens=asked, output_tokens=max(left.tokens, 0))
        if price is not None:
            money = float(price.request + price.token_in * asked), float(price.token_out * reserved.output_tokens)
            reserved = Reserved(input_tokens=asked, output_tokens=reserved.output_tokens, input_usd=money[0], output_usd=money[1])
        return left._replace(reserved=reserved)

    def _expected_input(self, new_bytes: int) -> int:
        """Tokens of the next request: counted as far as responses told, the rest estimated."""
        return self.context_tokens + -(-(self.fixed_bytes + new_bytes) // BYTES_PER_TOKEN)

    def ask(self, left: Left) -> None:
        """A request goes out: until it is settled, nobody else may take what it may cost."""
        if self._free(_TURNS) >= 1:
            self._hold(_TURNS, 1)
        else:
            self._on_last = True
        if left.reserved is not None:
            self._hold(_TOKENS, left.reserved.tokens)
            self._hold(_USD, _units_of(left.reserved))

    def check_again(self, reserved: Reserved | None) -> None:
        """Before an attempt that may have cost all of its reservation is made once more. Raises BudgetSpent where it does not fit twice."""
        if reserved is not None and self._free(_TOKENS) < reserved.tokens:
            raise BudgetSpent(Outcome.TOKEN_LIMIT)
        if reserved is not None and self._free(_USD) < _units_of(reserved):
            raise BudgetSpent(Outcome.COST_LIMIT)

    def set_aside(self, reserved: Reserved) -> bool:
        """Keeps that much for a request beside the turns, until it is given back; False where it is not there."""
        if self._free(_TOKENS) < reserved.tokens or self._free(_USD) < _units_of(reserved):
            return False
        self._hold(_TOKENS, reserved.tokens)
        self._hold(_USD, _units_of(reserved))
        return True

    def give_back(self, reserved: Reserved) -> None:
        """What was set aside; what it took is spent already."""
        self._hold(_TOKENS, -reserved.tokens)
        self._hold(_USD, -_units_of(reserved))

    @property
    def counts_money(self) -> bool:
        """Whether a limit, here or above, is one of money."""
        return self._free(_USD) != math.inf

    # ------------------------------------------------------------ what was spent

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """What a response, or a failed attempt, is known to have taken. `cost_usd`: None where its price is not known."""
        self.usage += usage
        self.cost_usd = usd(self.cost_usd, cost_usd)
        self.unpriced += cost_usd is None
        self._spend(_TOKENS, usage.total_tokens)
        self._spend(_USD, _units(cost_usd or 0))

    def lose(self, reserved: Reserved | None) -> None:
        """An attempt was cut, and nobody knows what it took: it counts as all that it may have."""
        if reserved is not None:
            self._spend(_TOKENS, reserved.tokens)
            self._spend(_USD, _units_of(reserved))

    def settle(self, usage: Usage, cost_usd: float | None = None) -> None:
        """A response came: its counts say exactly how large the conversation is."""
        self.spend(usage, cost_usd)
        self.context_tokens, self._said_tokens, self._turn_usd = usage.total_tokens, usage.output_tokens, _units(cost_usd or 0)
        self._turn_is_over()

    def settle_untold(self, new_bytes: int, said_bytes: int, reserved: Reserved | None) -> None:
        """A response came whose provider did not tell what it used: it counts as what was expected, and as what it said."""
        asked, said = self._expected_input(new_bytes), -(-said_bytes // BYTES_PER_TOKEN)
        self.spend(Usage(), None)
        self._spend(_TOKENS, asked + said)
        if reserved is not None and reserved.input_usd is not None:
            of_output = said / reserved.output_tokens if reserved.output_tokens else 0
            self._spend(_USD, _units(reserved.input_usd + (reserved.output_usd or 0) * of_output))
        self.context_tokens, self._said_tokens = asked + said, said
        self._turn_is_over()

    def pass_turn(self) -> None:
        """A turn in which no model was asked."""
        self._turn_is_over()

    def _turn_is_over(self) -> None:
        self.turns += 1
        self.fixed_bytes = 0
        self._hold(_TOKENS, -self._own[_TOKENS])
        self._hold(_USD, -self._own[_USD])
        if self._on_last:
            self._keeps_last = self._on_last = False
        if self._own[_TURNS] > self._keeps_last:
            self._hold(_TURNS, -1)
        self._spend(_TURNS, 1)

    @property
    def left_out(self) -> tuple[str, ...]:
        """What `cost_usd` does not say, where it says something."""
        if self.cost_usd is None or not self.unpriced:
            return ()
        times = "once" if self.unpriced == 1 else f"{self.unpriced} times"
        return (f"the cost of this run is not all: {times} a model was used whose price is not known; prices in the configuration can say it",)

    def left(self, limit: Outcome) -> float:
        """What is left of it, for people."""
        for kind, (outcome, _) in enumerate(_KINDS):
            if outcome is limit:
                free = self._free(kind) + (kind == _TURNS and self._keeps_last)
                return float(Decimal(int(free)) / _UNITS) if kind == _USD else max(int(free), 0)
        raise AssertionError(limit)

    # ------------------------------------------------------------ calls

    def admit_call(self) -> bool:
        """Whether one more may start; it is kept for it until `start_call` or `forget_calls`."""
        if self._free(_CALLS) < 1:
            return False
        self._hold(_CALLS, 1)
        return True

    def start_call(self) -> None:
        self.tool_calls += 1
        if self._own[_CALLS]:
            self._hold(_CALLS, -1)
        self._spend(_CALLS, 1)

    def forget_calls(self) -> None:
        """Those that were admitted and never started are free again."""
        self._hold(_CALLS, -self._own[_CALLS])


def _affordable(left: int, asked: int, wanted: int, price: Dearest) -> int:
    """Output tokens, where every token of the request is as dear as it can be: a cache may have forgotten all of it."""
    left_usd = Decimal(left) / _UNITS - price.request - price.token_in * asked
    if left <= 0 or left_usd < 0:
        return 0
    return int(left_usd / price.token_out) if price.token_out else wanted


def _units(amount: float | Decimal) -> int:
    exact = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    return int((exact * _UNITS).to_integral_value(ROUND_CEILING))


def _units_of(reserved: Reserved) -> int:
    return _units(reserved.input_usd or 0) + _units(reserved.output_usd or 0)
