"""What a run has spent and what its limits leave: counted before each request and each call, never after the fact alone.

Not here: reservations shared with children, and what a token costs (prices.py). Entry: `Ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from treadle.prices import Dearest
from treadle.types import Limits, Outcome, Usage, usd

BYTES_PER_TOKEN = 3
"""Fewer than any tokenizer needs for prose or code on average: what is not counted yet is rather over- than underestimated."""


LIMIT_NAMES = {Outcome.TURN_LIMIT: "turns", Outcome.CALL_LIMIT: "tool_calls"}
"""What a last turn is due to, in the words of `Limits`."""


class Left(NamedTuple):
    """What the coming response may hold."""

    tokens: int
    """0 or less: not even the request fits."""
    limit: Outcome | None
    """The limit that leaves no more; None: it may have what was wanted."""


class Ledger:
    """One run's spending against its limits."""

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
        self._context_tokens = 0
        self._new_bytes = 0
        self._untold_input = self._untold_output = 0
        """Of responses whose provider did not tell."""

    @property
    def estimates(self) -> bool:
        """Whether a limit asks how large the next request will be."""
        return self.limits.tokens is not None or self.limits.cost_usd is not None

    def add_input(self, size_bytes: int) -> None:
        """Text that the next request will hold and no response has counted yet."""
        self._new_bytes += size_bytes

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """What a response, or a failed attempt, is known to have taken. `cost_usd`: None where its price is not known."""
        self.usage += usage
        self.cost_usd = usd(self.cost_usd, cost_usd)
        self.unpriced += cost_usd is None

    @property
    def left_out(self) -> tuple[str, ...]:
        """What `cost_usd` does not say, where it says something."""
        if self.cost_usd is None or not self.unpriced:
            return ()
        times = "once" if self.unpriced == 1 else f"{self.unpriced} times"
        return (f"the cost of this run is not all: {times} a model was used whose price is not known; prices in the configuration can say it",)

    def settle(self, usage: Usage, cost_usd: float | None = None) -> None:
        """A response came: its counts say exactly how large the conversation is."""
        self.turns += 1
        self.spend(usage, cost_usd)
        self._context_tokens = usage.total_tokens
        self._new_bytes = 0

    def settle_untold(self, said_bytes: int) -> None:
        """A response came whose provider did not tell what it used: it counts as what was expected, and as what it said."""
        asked, said = self._expected_input, -(-said_bytes // BYTES_PER_TOKEN)
        self.settle(Usage())
        self._untold_input += asked
        self._untold_output += said
        self._context_tokens = asked + said

    @property
    def _expected_input(self) -> int:
        """Tokens of the next request: counted as far as responses told, the rest estimated."""
        return self._context_tokens + -(-self._new_bytes // BYTES_PER_TOKEN)

    def output_left(self, wanted: int, dearest: Callable[[int], Dearest] | None = None) -> Left:
        """How many output tokens the next request may ask for, at most `wanted`. `dearest`: what so much input costs, asked where money is limited."""
        left = Left(wanted, None)
        if not self.estimates:
            return left
        expected_input, spent = self._expected_input, self.usage.total_tokens + self._untold_input + self._untold_output
        if self.limits.tokens is not None and (tokens := self.limits.tokens - spent - expected_input) < left.tokens:
            left = Left(tokens, Outcome.TOKEN_LIMIT)
        if self.limits.cost_usd is not None and dearest is not None and (tokens := self._affordable(expected_input, wanted, dearest)) < left.tokens:
            left = Left(tokens, Outcome.COST_LIMIT)
        return left

    def _affordable(self, expected_input: int, wanted: int, dearest: Callable[[int], Dearest]) -> int:
        """Output tokens, where every token of the request is as dear as it can be: a cache may have forgotten all of it."""
        left_usd = Decimal(str(self.limits.cost_usd)) - Decimal(str(self.cost_usd or 0))
        if left_usd <= 0:
            return 0
        price = dearest(self._context_tokens + self._new_bytes)  # a step of the rates is reached for sure where it can be
        left_usd -= price.request + price.token_in * (expected_input + self._untold_input) + price.token_out * self._untold_output
        if left_usd < 0:
            return 0
        return int(left_usd / price.token_out) if price.token_out else wanted

    def allows_call(self, waiting: int) -> bool:
        """Whether one more may start after `waiting` others, which have not started yet."""
        return self.limits.tool_calls is None or self.tool_calls + waiting < self.limits.tool_calls

    def last_turn(self) -> Outcome | None:
        """The limit that makes the coming turn the last one, where the model must answer without tools."""
        if self.limits.turns is not None and 1 < self.limits.turns <= self.turns + 1:
            return Outcome.TURN_LIMIT
        if self.limits.tool_calls is not None and self.tool_calls >= self.limits.tool_calls:
            return Outcome.CALL_LIMIT
        return None

    @property
    def is_last_turn(self) -> bool:
        """Whether the coming response is the last that the limit of turns allows."""
        return self.limits.turns is not None and self.turns + 1 >= self.limits.turns

    @property
    def turns_spent(self) -> bool:
        return self.limits.turns is not None and self.turns >= self.limits.turns
