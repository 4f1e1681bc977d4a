"""What a run has spent and what its limits leave: counted before each request and each call, never after the fact alone.

Not here: reservations shared with children, and money. Entry: `Ledger`.
"""

from __future__ import annotations

from treadle.types import Limits, Outcome, Usage

BYTES_PER_TOKEN = 3
"""Fewer than any tokenizer needs for prose or code on average: what is not counted yet is rather over- than underestimated."""


class Ledger:
    """One run's spending against its limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.usage = Usage()
        self.turns = 0
        self.tool_calls = 0
        """Calls that started."""
        self._context_tokens = 0
        self._new_bytes = 0

    def add_input(self, size_bytes: int) -> None:
        """Text that the next request will hold and no response has counted yet."""
        self._new_bytes += size_bytes

    def settle(self, usage: Usage) -> None:
        """A response came: its counts are exact."""
        self.turns += 1
        self.usage += usage
        self._context_tokens = usage.total_tokens
        self._new_bytes = 0

    def output_left(self, wanted: int) -> int:
        """How many output tokens the next request may ask for, at most `wanted`; 0 or less: not even its input fits."""
        if self.limits.tokens is None:
            return wanted
        expected_input = self._context_tokens + -(-self._new_bytes // BYTES_PER_TOKEN)
        return min(wanted, self.limits.tokens - self.usage.total_tokens - expected_input)

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
