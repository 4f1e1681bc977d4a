"""Prices from the installed genai-prices list, for models without a configured price.

Nothing is downloaded. Loading the library takes about 250 ms of CPU time, so a thread loads it once
when the first response begins to arrive. Negotiated prices are not in the list. Entry points:
`Prices`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from treadle._internal.uninterrupted import uninterrupted
from treadle.budget.prices import (
    UNKNOWN,
    KnownPrice,
    Listen,
    PriceStep,
    Pricing,
    Rate,
    Rates,
    Tariff,
    configured,
    flat,
)
from treadle.config import Config, Provider
from treadle.config.endpoint import built_in, on_this_machine
from treadle.config.readers import ALIASES
from treadle.messages.response_details import ResponseDetails
from treadle.models.model import Delta
from treadle.types import Time, Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

logger = logging.getLogger("treadle")

_NAMES: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "gemini": "google",
    "bedrock": "aws",
}
"""Vendor names in the list, by provider type. They apply to the vendors' own addresses, which the
list knows too, but for that of Bedrock.
"""


class _Place(NamedTuple):
    """Key of a provider in the list."""

    vendor: str | None
    address: str | None
    """Base URL of the provider; set if `vendor` is not."""


class Prices:
    """Prices by model name: the configured price, or else the listed one."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[str, Pricing] = {}

    def of(self, name: str) -> Pricing:
        found = self._known.get(name)
        if found is None:
            said = self._said(name)
            found = self._known[name] = self.reached_at(
                name, None if said is None else said.base_url
            )
        return found

    def reached_at(self, name: str, address: str | None) -> Pricing:
        """Return the pricing of a model that is reached at `address`.

        `address`: base URL with scheme; None for the vendor's own.
        """
        provider, _, model_id = name.partition(":")
        provider = ALIASES.get(provider, provider)
        prices, said = self._config.prices, self._said(name)
        if (
            price := prices.get(f"{provider}:{model_id}") or prices.get(f"{provider}:*")
        ) is not None:
            return KnownPrice(configured(price))
        # the list has neither replayed models nor local servers
        if said is None or (address is not None and on_this_machine(address)):
            return UNKNOWN
        vendor = _NAMES.get(said.type) if address is None or said.type == "bedrock" else None
        return (
            UNKNOWN
            if vendor is None and address is None
            else _Listed(_Place(vendor, address), model_id)
        )

    def _said(self, name: str) -> Provider | None:
        """Return the provider that a model name selects; None for scripts, tapes and custom
        models.
        """
        provider = name.partition(":")[0]
        provider = ALIASES.get(provider, provider)
        return self._config.providers.get(provider) or built_in(provider)


def _less(usage: Usage, part: Usage) -> Usage:
    return usage + Usage(**{name: -getattr(part, name) for name in part.__struct_fields__})


class _Listed:
    """Listed price of a model, loaded with the list when the first response arrives."""

    __slots__ = ("_found", "_model_id", "_place")

    def __init__(self, place: _Place, model_id: str) -> None:
        self._place = place
        self._model_id = model_id
        self._found: dict[str, Tariff | None] = {}
        """Tariffs by the model that a response names; the key "" is the requested model."""

    @property
    def tariff(self) -> Tariff | None:
        return self._found.get("")

    def listening(self, listen: Listen | None) -> Listen | None:
        if _LIST.loading:
            return listen

        def heard(delta: Delta) -> None:
            if not _LIST.loading:
                _LIST.load()
            if listen is not None:
                listen(delta)

        return heard

    async def load(self) -> Tariff | None:
        return await self._tariff("")

    async def cost_usd(
        self, usage: Usage, at: Time, said: str, details: ResponseDetails | None = None
    ) -> float | None:
        tier = None
        if details is not None:
            if details.cost_usd is not None:
                return details.cost_usd
            tier = details.service_tier
        tariff = self._found.get("") or self._found.get(said) or await self._tariff(said)
        rates = None if tariff is None else tariff(at).of(tier, at)
        if rates is None or details is None:
            return None if rates is None else rates.cost_usd(usage)
        total = rates.fees_usd(details)
        for other in details.others:
            priced = await self._listed(other.model)
            if priced is None:
                return None
            usage = _less(usage, other.usage)
            total += priced(at).cost_usd(other.usage)
        return total + rates.cost_usd(usage)

    async def _tariff(self, said: str) -> Tariff | None:
        """Return the tariff of the requested model, or else of the model that responded."""
        return await self._listed(self._model_id, "") or await self._listed(said)

    async def _listed(self, model_id: str, key: str | None = None) -> Tariff | None:
        """Return the listed tariff of a model. `key`: key in `_found`, by default `model_id`."""
        key = model_id if key is None else key
        if key not in self._found:
            snapshot = await _LIST.snapshot()
            self._found[key] = (
                None
                if snapshot is None or not model_id
                else listed(snapshot, self._place.vendor, self._place.address, model_id)
            )
        return self._found[key]


# ---------------------------------------------------------------- the list


class _List:
    """The price list, loaded once per process. Usable from any thread and event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Lock that guards `_future`, so that the list is loaded only once."""
        self._future: Future[DataSnapshot | None] | None = None

    @property
    def loading(self) -> bool:
        """True if the list is loaded, or is being loaded."""
        return self._future is not None

    def load(self) -> Future[DataSnapshot | None]:
        with self._lock:
            if self._future is None:
                self._future = Future()
                threading.Thread(
                    target=self._run, args=(self._future,), name="treadle-prices"
                ).start()
            return self._future

    async def snapshot(self) -> DataSnapshot | None:
        """Return the list, or None if it cannot be loaded.

        Not cancellable, because the caller holds a response that must not be lost.
        """
        future = self.load()
        return (
            future.result() if future.done() else await uninterrupted(asyncio.wrap_future(future))
        )

    def abandon(self) -> None:
        """Stop waiting for the list in a forked process, which lacks the loading thread and cannot
        repeat a partial import.
        """
        self._lock = threading.Lock()
        if self._future is not None and not self._future.done():
            self._future = Future()
            self._future.set_result(None)

    @staticmethod
    def _run(future: Future[DataSnapshot | None]) -> None:
        try:
            from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  takes 230 ms, and few starts need prices

            future.set_result(get_snapshot())
        except Exception as e:  # noqa: BLE001  edge of the thread; runs continue without prices
            logger.warning("cannot load the price list: %s: %s", type(e).__name__, e)
            future.set_result(None)


_LIST = _List()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_LIST.abandon)


OPENAI_FEES: Final[dict[str, Decimal]] = {
    "file_search": Decimal("0.0025"),
    "container": Decimal("0.03"),
}
"""USD for a file search, and for 20 minutes of a 1 GB container. The list lacks both.

Containers are billed per minute since 2026-06-02, so a shorter use costs less than this.
Sources: modelcostwatch.com, 2026-03-12 (file search); community.openai.com, thread 1364328, and
OpenAI's changelog of 2026-06-02 as quoted by modeldex.dev (containers); read 2026-11-26.
"""


def listed(
    snapshot: DataSnapshot, vendor: str | None, address: str | None, model_id: str
) -> Tariff | None:
    """Return the listed tariff of a model; None if the list lacks the model or its token prices."""
    try:
        _, model = snapshot.find_provider_model(model_id, None, vendor, address)
    except LookupError:
        return None
    tiers = _tiers(model)
    fees: dict[str, Decimal] = OPENAI_FEES if vendor == "openai" else {}
    if isinstance(model.prices, list):
        by_price = {
            id(dated.prices): at_that_time._replace(**fees)
            for dated in model.prices
            if (at_that_time := _rates(dated.prices, tiers)) is not None
        }
        return (
            (lambda at: by_price[id(model.get_prices(at))])
            if by_price and len(by_price) == len(model.prices)
            else None
        )
    rates = _rates(model.prices, tiers)
    if rates is None:
        return None
    rates = rates._replace(**fees)
    return lambda at: rates


def _tiers(model: ModelInfo) -> Callable[[str, Time], Rates | None]:
    """Return a lookup of one model's listed rates by service tier."""
    known: dict[tuple[str, date], Rates | None] = {}

    def rates_of(tier: str, at: Time) -> Rates | None:
        key = tier, at.date()
        if key not in known:
            named = {
                variant.when.get("service_tier", variant.when.get("speed"))
                for variant in model.price_variants or ()
            }
            known[key] = (
                _rates(model.get_prices(at, {"service_tier": tier, "speed": tier}), rates_of)
                if tier in named
                else None
            )
        return known[key]

    return rates_of


def _rates(price: ModelPrice, tiers: Callable[[str, Time], Rates | None]) -> Rates | None:
    """Return the rates of a listed price; None without token prices, because the list may mean that
    the model is free, or that its price is unknown.
    """
    if price.input_mtok is None:
        return None
    base = _rate(price.input_mtok)
    return Rates(
        input=base,
        output=flat(Decimal(0)) if price.output_mtok is None else _rate(price.output_mtok),
        cache_read=base if price.cache_read_mtok is None else _rate(price.cache_read_mtok),
        cache_write=base if price.cache_write_mtok is None else _rate(price.cache_write_mtok),
        reasoning=None
        if price.output_reasoning_mtok is None
        else _rate(price.output_reasoning_mtok),
        request=Decimal(0)
        if price.requests_kcount is None
        else _rate(price.requests_kcount)[-1].usd / 1000,
        cache_write_1h=None
        if price.cache_write_1h_mtok is None
        else _rate(price.cache_write_1h_mtok),
        search=Decimal(0)
        if price.web_searches_kcount is None
        else _rate(price.web_searches_kcount)[-1].usd / 1000,
        tiers=tiers,
    )


def _rate(price: Decimal | TieredPrices) -> Rate:
    if isinstance(price, Decimal):
        return flat(price)
    return (
        *(PriceStep(tier.start, tier.price) for tier in reversed(price.tiers)),
        PriceStep(-1, price.base),
    )
