"""Spending of a run by model and day, and reservations. Entry points: `Spending`, `Reserved`."""

from __future__ import annotations

from treadle.types import Usage, Value


class Spending(Value, frozen=True, kw_only=True):
    """Usage of one model on one day, within one run."""

    model: str
    """Name of the requested model, like "anthropic:claude-opus-5-5"."""
    day: str
    """Day in UTC, like "2026-11-20"."""
    responses: int = 0
    """Number of complete responses. Interrupted ones are excluded, since their usage is unknown."""
    unpriced: int = 0
    """Number of uses without a known price. `cost_usd` excludes them."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Cost in USD; None if no price was known."""


class Reserved(Value, frozen=True, kw_only=True):
    """Maximum usage of one attempt, reserved on its run and all ancestors."""

    input_tokens: int
    """Input tokens: the conversation's last reported size, and an estimate for newer messages."""
    output_tokens: int
    input_usd: float | None = None
    """Cost in USD; None if cost is not limited."""
    output_usd: float | None = None

    @classmethod
    def of(cls, usage: Usage, cost_usd: float | None) -> Reserved:
        """Return the usage of an attempt that ended, in place of its reservation."""
        return cls(input_tokens=usage.total_tokens, output_tokens=0, input_usd=cost_usd)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens
