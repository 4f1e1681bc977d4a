"""Rates per million tokens, and the exact cost of a response.

The configuration or price_list.py provides the rates of a model. Entry points: `Rates`, `Pricing`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from treadle.config import Price
from treadle.errors import AgentError
from treadle.messages.response_details import NO_DETAILS, ResponseDetails
from treadle.models.model import Delta
from treadle.types import Settings, Time, Usage

_MILLION = Decimal(1_000_000)


class PriceStep(NamedTuple):
    """A price and the input size above which it applies."""

    above: int
    """Threshold in total input tokens; -1 for a price that always applies."""
    usd: Decimal
    """USD per million tokens."""


Rate: TypeAlias = tuple[PriceStep, ...]
"""Price steps, the highest threshold first. The last step always applies."""

FREE: Rate = (PriceStep(-1, Decimal(0)),)


def flat(usd: float | Decimal) -> Rate:
    return (PriceStep(-1, usd if isinstance(usd, Decimal) else Decimal(str(usd))),)


class Dearest(NamedTuple):
    """Maximum prices of a request, in USD."""

    token_in: Decimal
    """Highest price of an input token: uncached, read from a cache or written to one."""
    token_out: Decimal
    request: Decimal


BATCH: Final = "batch"
"""Service tier of requests in a batch."""
BATCH_FACTOR: Final = Decimal("0.5")
"""Price of a token in a batch, as a part of its standard price.

Source: the pages on batches of Anthropic ("Batch processing": 50% of standard prices), OpenAI
("Batch API": 50%), Google ("Batch API": 50%) and Groq ("Batch Processing": 50%); read 2026-11-29.
"""
_OF_TOKENS: Final = (
    *("input", "output", "cache_read", "cache_write", "reasoning", "cache_write_1h"),
)


def _no_tiers(tier: str, at: Time) -> Rates | None:
    return None


class Rates(NamedTuple):
    """Prices of one model at one time. A price step applies to all tokens of a response."""

    input: Rate
    output: Rate
    cache_read: Rate
    cache_write: Rate
    reasoning: Rate | None = None
    """Rate of reasoning tokens; None: same as `output`."""
    request: Decimal = Decimal(0)
    """USD per request."""
    cache_write_1h: Rate | None = None
    """Rate of cache writes kept for an hour; None: same as `cache_write`."""
    search: Decimal = Decimal(0)
    """USD per web search that the provider runs."""
    file_search: Decimal = Decimal(0)
    """USD per search of the provider's file stores."""
    container: Decimal = Decimal(0)
    """USD per container that the provider starts."""
    tiers: Callable[[str, Time], Rates | None] = _no_tiers
    """Function that returns the rates of a service tier, by the provider's name; None if unknown.
    """

    def of(self, tier: str | None, at: Time) -> Rates | None:
        """Return the rates of a service tier; None if they are unknown. `tier`: None for the
        standard tier.
        """
        if tier is None:
            return self
        return self.tiers(tier, at) or (self.batched if tier == BATCH else None)

    @property
    def batched(self) -> Rates:
        """Rates of requests in a batch: those of tokens are half, fees are not reduced."""
        rates: dict[str, Rate] = {
            name: tuple(PriceStep(above, usd * BATCH_FACTOR) for above, usd in rate)
            for name in _OF_TOKENS
            if (rate := getattr(self, name)) is not None
        }
        return self._replace(**rates)

    def asked(self, settings: Settings, at: Time) -> Rates:
        """Return the rates that can apply to a request with these settings."""
        fast = (
            self.tiers("fast", at) or self.tiers("priority", at)
            if settings.service_tier == "fast"
            else None
        )
        rates = fast or self
        return (
            rates
            if settings.cache == "1h" or rates.cache_write_1h is None
            else rates._replace(cache_write_1h=None)
        )

    def fees_usd(self, details: ResponseDetails | None) -> float:
        """Return the price of file searches and containers, in USD."""
        if details is None or not (details.file_searches or details.containers):
            return 0.0
        searches, containers = details.file_searches, details.containers
        return float(self.file_search * searches + self.container * containers)

    def cost_usd(self, usage: Usage) -> float:
        total = usage.total_input_tokens
        sum_usd = _at(self.input, total) * usage.input_tokens
        if usage.cache_read_tokens:
            sum_usd += _at(self.cache_read, total) * usage.cache_read_tokens
        if usage.cache_write_tokens:
            longer = (
                0
                if self.cache_write_1h is None
                else min(usage.cache_write_1h_tokens, usage.cache_write_tokens)
            )
            sum_usd += _at(self.cache_write, total) * (usage.cache_write_tokens - longer)
            if self.cache_write_1h is not None:
                sum_usd += _at(self.cache_write_1h, total) * longer
        reasoning = (
            0 if self.reasoning is None else min(usage.reasoning_tokens, usage.output_tokens)
        )
        sum_usd += _at(self.output, total) * (usage.output_tokens - reasoning)
        if self.reasoning is not None:
            sum_usd += _at(self.reasoning, total) * reasoning
        return float(sum_usd / _MILLION + self.request + self.search * usage.web_searches)

    def dearest(self, input_tokens: int) -> Dearest:
        """Return the maximum prices of a request with at most `input_tokens`."""
        written = self.cache_write if self.cache_write_1h is None else self.cache_write_1h
        inputs = (
            _highest(rate, input_tokens)
            for rate in (self.input, self.cache_read, self.cache_write, written)
        )
        outputs = (
            _highest(rate, input_tokens)
            for rate in (self.output, self.reasoning)
            if rate is not None
        )
        return Dearest(max(inputs) / _MILLION, max(outputs) / _MILLION, self.request)


def _at(rate: Rate, total: int) -> Decimal:
    for above, usd in rate:
        if total > above:
            return usd
    return rate[-1].usd


def _highest(rate: Rate, total: int) -> Decimal:
    return max(usd for above, usd in rate if above < total or above < 0)


Tariff: TypeAlias = Callable[[Time], Rates]
"""Rates of a model as a function of time."""


def configured(price: Price) -> Tariff:
    """Return the tariff of a configured price, which is the same at all times."""
    base = flat(price.input)
    read, write = (
        base if usd is None else flat(usd) for usd in (price.cache_read, price.cache_write)
    )
    longer = None if price.cache_write_1h is None else flat(price.cache_write_1h)
    search = Decimal(str(price.web_searches)) / 1000
    rates = Rates(
        input=base,
        output=flat(price.output),
        cache_read=read,
        cache_write=write,
        cache_write_1h=longer,
        search=search,
        file_search=Decimal(str(price.file_searches)) / 1000,
        container=Decimal(str(price.containers)),
    )
    return lambda at: rates


Listen: TypeAlias = Callable[[Delta], None]


class Pricing(Protocol):
    """Price source of one model."""

    @property
    def tariff(self) -> Tariff | None:
        """The tariff; None if it is unknown or not yet loaded."""
        ...

    def listening(self, listen: Listen | None) -> Listen | None:
        """Wrap a delta listener so that the first delta starts the loading of prices."""
        ...

    async def load(self) -> Tariff | None:
        """Load and return the tariff without blocking the event loop; None if it is unknown."""
        ...

    async def cost_usd(
        self, usage: Usage, at: Time, said: str, details: ResponseDetails | None = None
    ) -> float | None:
        """Return the cost of a response to a request sent at `at`, in USD; None if unknown.

        `said`: the model that the response names, used if the requested one has no price.
        """
        ...


class KnownPrice:
    """A fixed price, which also applies to other models that took part in a response.

    Without a tariff, only the cost that the provider reports counts.
    """

    __slots__ = ("tariff",)

    def __init__(self, tariff: Tariff | None) -> None:
        self.tariff = tariff

    def listening(self, listen: Listen | None) -> Listen | None:
        return listen

    async def load(self) -> Tariff | None:
        return self.tariff

    async def cost_usd(
        self, usage: Usage, at: Time, said: str, details: ResponseDetails | None = None
    ) -> float | None:
        if self.tariff is not None:
            rates = self.tariff(at)
            if details is not None and details.service_tier == BATCH:
                rates = rates.of(BATCH, at) or rates
            return rates.cost_usd(usage) + rates.fees_usd(details)
        return None if details is None else details.cost_usd


UNKNOWN: Pricing = KnownPrice(None)


class BatchPrice:
    """Price of a model whose requests go out in batches, from its standard price."""

    __slots__ = ("_standard",)

    def __init__(self, standard: Pricing) -> None:
        self._standard = standard

    @property
    def tariff(self) -> Tariff | None:
        standard = self._standard.tariff
        return None if standard is None else lambda at: standard(at).of(BATCH, at) or standard(at)

    def listening(self, listen: Listen | None) -> Listen | None:
        return self._standard.listening(listen)

    async def load(self) -> Tariff | None:
        await self._standard.load()
        return self.tariff

    async def cost_usd(
        self, usage: Usage, at: Time, said: str, details: ResponseDetails | None = None
    ) -> float | None:
        # not every provider reports the tier
        batched = msgspec.structs.replace(details or NO_DETAILS, service_tier=BATCH)
        return await self._standard.cost_usd(usage, at, said, batched)


def needed(pricing: Pricing, model: str) -> Tariff:
    """Return the tariff that a cost limit needs. Raises AgentError(invalid) if there is none."""
    if (tariff := pricing.tariff) is None:
        raise AgentError(
            "invalid",
            f"the run has a cost limit (cost_usd), but the price of {model!r} is not known: "
            "add it to your configuration, "
            f'prices: {{"{model}": {{input: 0.5, output: 1.5}}}} (USD per million tokens; 0 '
            "if it is free), or in a program "
            f'Config(prices={{"{model}": Price(input=0.5, output=1.5)}}), or limit tokens instead',
        )
    return tariff
