"""Spending of models on a day, and what an attempt may take at most. Entry points: `Spending`."""

from __future__ import annotations

from treadle.types import Usage, Value


class Spending(Value, frozen=True, kw_only=True):
    """Usage of one model on one day, within one run."""

    model: str
    """Name of the requested model, like "anthropic:claude-opus-5-5"."""
    day: str
    """Day in UTC, like "2026-11-20"."""
    responses: int = 0
    """Whole ones; those that a run's end cut are not counted, since what they took is not known."""
    unpriced: int = 0
    """Uses whose price was not known; `cost_usd` leaves them out."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """Cost in US dollars; None if no price was known."""


class Reserved(Value, frozen=True, kw_only=True):
    """Upper bound of one attempt, reserved on its run and on all runs above."""

    input_tokens: int
    """Input tokens reported by responses; the rest is estimated."""
    output_tokens: int
    input_usd: float | None = None
    """None where no limit asks for money."""
    output_usd: float | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens
