"""What tokens cost: rates per million of them, and what a response comes to, exactly.

Which model has which rates is said by the configuration, or by price_list.py. Entry: `Rates`,
`Pricing`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeAlias

from treadle.config import Price
from treadle.errors import AgentError
from treadle.messages.response_details import ResponseDetails
from treadle.models.model import Delta
from treadle.types import Settings, Time, Usage

_MILLION = Decimal(1_000_000)


class PriceStep(NamedTuple):
    """A price, and the size of the input above which it holds."""

    above: int
    """Tokens of all input; -1: always."""
    usd: Decimal
    """For a million tokens."""


Rate: TypeAlias = tuple[PriceStep, ...]
"""The highest step first, the one that always holds last."""

FREE: Rate = (PriceStep(-1, Decimal(0)),)


def flat(usd: float | Decimal) -> Rate:
    return (PriceStep(-1, usd if isinstance(usd, Decimal) else Decimal(str(usd))),)


class Dearest(NamedTuple):
    """What a request can cost at most, in USD."""

    token_in: Decimal
    """One token of input, whether read, cached or written to a cache."""
    token_out: Decimal
    request: Decimal


def _no_tiers(tier: str, at: Time) -> Rates | None:
    return None


class Rates(NamedTuple):
    """All that tokens of one model cost at one time.

    A step holds for all tokens of a response, not only for those above it.
    """

    input: Rate
    output: Rate
    cache_read: Rate
    cache_write: Rate
    reasoning: Rate | None = None
    """Of the output's reasoning tokens, where they cost something else."""
    request: Decimal = Decimal(0)
    """USD for each request."""
    cache_write_1h: Rate | None = None
    """Of what is kept for an hour; None: as `cache_write`."""
    search: Decimal = Decimal(0)
    """USD for each web search that the provider runs."""
    tiers: Callable[[str, Time], Rates | None] = _no_tiers
    """Rates of a service tier, by its name at the provider; None: not known."""

    def of(self, tier: str | None, at: Time) -> Rates | None:
        """Rates of the tier that served a response; None: not known."""
        return self if tier is None else self.tiers(tier, at)

    def asked(self, settings: Settings, at: Time) -> Rates:
        """Rates that a request with these settings can meet."""
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
        """Of a request with at most so much input."""
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
"""The rates of a model at a time."""


def configured(price: Price) -> Tariff:
    """What the configuration says, whenever it is asked."""
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
    )
    return lambda at: rates


Listen: TypeAlias = Callable[[Delta], None]


class Pricing(Protocol):
    """What the responses of one model cost, as far as anybody can tell."""

    @property
    def tariff(self) -> Tariff | None:
        """None: not known, or not known yet."""
        ...

    def listening(self, listen: Listen | None) -> Listen | None:
        """What a response's deltas are told to:

        `listen`, and whoever has to know that a response has begun.
        """
        ...

    async def load(self) -> Tariff | None:
        """Whatever is to be read for it; without holding up the event loop."""
        ...

    async def cost_usd(
        self, usage: Usage, at: Time, said: str, details: ResponseDetails | None = None
    ) -> float | None:
        """Of a response to a request at that time.

        `said`: the model that it names, which counts where the asked one has no price.
        """
        ...


class KnownPrice:
    """A price that is known beforehand, whatever the provider reports; or known to be unknown."""

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
            return self.tariff(at).cost_usd(usage)
        return None if details is None else details.cost_usd


UNKNOWN: Pricing = KnownPrice(None)


def needed(pricing: Pricing, model: str) -> Tariff:
    """Raises AgentError(invalid), with what to do, where a limit on money cannot be kept."""
    if (tariff := pricing.tariff) is None:
        raise AgentError(
            "invalid",
            f"the run has a limit on money (cost_usd), and the price of {model!r} is not known: "
            "say what it costs in your configuration, "
            f'prices: {{"{model}": {{input: 0.5, output: 1.5}}}} (USD for a million tokens; 0 '
            "where it is free), or limit tokens instead",
        )
    return tariff
