"""What a provider reports about a response beside its content: for operators, prices and traces,
never for the model. Entry: `ResponseDetails`.
"""

from __future__ import annotations

from treadle.types import Value

_TIERS = frozenset({"flex", "priority", "fast", "ultrafast", "batch"})


class RateLimit(Value, frozen=True, kw_only=True):
    """One of the account's limits, as it stood after the request."""

    name: str
    """What it counts: `requests`, `tokens`, `input_tokens` or `output_tokens`."""
    remaining: int
    limit: int | None = None
    reset_s: float | None = None
    """Seconds until it is full again."""


class CacheMiss(Value, frozen=True, kw_only=True):
    """Why the prompt cache could not give back the prefix of the request before."""

    reason: str
    """In the provider's words, like `tools_changed`."""
    tokens: int | None = None
    """About how many could have been read."""


class ResponseDetails(Value, frozen=True, kw_only=True):
    request_id: str | None = None
    """By which the provider can be asked about it."""
    service_tier: str | None = None
    """The tier that served it; None for the standard one."""
    cost_usd: float | None = None
    """Its price, as the provider reports it."""
    cache_miss: CacheMiss | None = None
    rate_limits: tuple[RateLimit, ...] = ()


NO_DETAILS = ResponseDetails()


def tier_of(said: str | None) -> str | None:
    """A service tier that has prices of its own; None for the standard one, whatever a server calls
    it.
    """
    tier = said.lower() if said else None
    return tier if tier in _TIERS else None
