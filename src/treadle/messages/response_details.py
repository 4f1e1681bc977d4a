"""Response metadata from the provider, for operators, prices and traces. Models never see it.

Entry points: `ResponseDetails`.
"""

from __future__ import annotations

from treadle.types import Usage, Value

_TIERS = frozenset({"flex", "priority", "fast", "ultrafast", "batch"})


class RateLimit(Value, frozen=True, kw_only=True):
    """A rate limit of the account, as reported with the response."""

    name: str
    """Counted unit: `requests`, `tokens`, `input_tokens` or `output_tokens`."""
    remaining: int
    limit: int | None = None
    reset_s: float | None = None
    """Seconds until the limit is fully replenished."""


class CacheMiss(Value, frozen=True, kw_only=True):
    """The reason why the prompt cache did not contain the previous request's prefix."""

    reason: str
    """Reason in the provider's terms, like `tools_changed`."""
    tokens: int | None = None
    """Approximate number of tokens that could have been read from the cache."""


class OtherUsage(Value, frozen=True, kw_only=True):
    """Tokens of another model that took part in the response, billed at that model's prices."""

    model: str
    usage: Usage


class ResponseDetails(Value, frozen=True, kw_only=True):
    request_id: str | None = None
    """The provider's id of the request, to quote to its support."""
    service_tier: str | None = None
    """Service tier of the response; None for the standard one."""
    cost_usd: float | None = None
    """Cost in USD, as reported by the provider."""
    cache_miss: CacheMiss | None = None
    rate_limits: tuple[RateLimit, ...] = ()
    others: tuple[OtherUsage, ...] = ()
    """Shares of the response's usage that belong to an advisor or fallback model of the provider.
    """
    file_searches: int = 0
    """Number of searches in the provider's file stores."""
    containers: int = 0
    """Number of containers that the provider started for this response."""


NO_DETAILS = ResponseDetails()


def tier_of(said: str | None) -> str | None:
    """Return the service tier if it is priced separately; None for standard, by any name."""
    tier = said.lower() if said else None
    return tier if tier in _TIERS else None
