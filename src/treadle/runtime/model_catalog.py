"""Available models: every configured provider, its response, and known facts about its models.

Front ends decide how to display it. Connects only to configured addresses. Entry points:
`looked_up`; `providers` and `look_up` for one provider at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio

from treadle.budget.price_list import Prices
from treadle.config import Config, Endpoint
from treadle.config.keys import STAND_INS, VENDORS
from treadle.config.model_profile import Abilities
from treadle.config.presets import PRESETS
from treadle.config.readers import ALIASES
from treadle.errors import AgentError
from treadle.models.providers.known_models import known_ids
from treadle.models.providers.listing import Listed
from treadle.models.providers.told_models import remember, told
from treadle.models.providers.wires import models_at
from treadle.models.registry import abilities_of

ANSWER_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model with its known facts. Prices are in USD per million tokens."""

    name: str
    """Name as `--model` takes it."""
    abilities: Abilities
    input_usd: float | None
    output_usd: float | None


@dataclass(slots=True)
class ProviderAnswer:
    """Response of one provider."""

    name: str
    type: str = ""
    address: str | None = None
    """Base URL; None: the vendor's own."""
    key_origin: str = ""
    asked: bool = False
    error: AgentError | None = None
    note: str = ""
    rows: list[CatalogModel] = field(default_factory=list[CatalogModel])


async def looked_up(config: Config, only: str | None, *, offline: bool) -> list[ProviderAnswer]:
    """Ask all providers concurrently and return their answers in the order of their names.
    `only`: ask this one.

    Raises AgentError: invalid for an unknown `only`, auth if it has no key and would be asked.
    """
    answers = [
        ProviderAnswer(name)
        for name in (providers(config) if only is None else [ALIASES.get(only, only)])
    ]
    if only is not None:
        config.endpoint(only, to_ask=not offline)
    async with anyio.create_task_group() as group:
        for answer in answers:
            group.start_soon(look_up, config, answer, offline)
    return answers


def providers(config: Config) -> list[str]:
    """Return the names of the providers of the default models, of the configuration, and of keys in
    the environment.
    """
    wanted = [config.models.large.partition(":")[0], config.models.small.partition(":")[0]]
    usable = [
        name
        for name in (*config.providers, *VENDORS, *PRESETS)
        if name in wanted or _is_meant(config, name)
    ]
    return sorted({*(name for name in wanted if name not in STAND_INS), *usable})


def _is_meant(config: Config, name: str) -> bool:
    settings = [
        setting.origin
        for path, setting in config.settings.items()
        if path[:2] == ("providers", name)
    ]
    if any(origin.source in ("file", "argument") for origin in settings):
        return True
    # the environment's OpenAI settings apply to both of its APIs, so one query suffices
    if name == "openai-chat":
        return False
    provider = config.providers.get(name)
    return provider is not None and (
        provider.api_key is not None or provider.auth_token is not None
    )


async def look_up(config: Config, answer: ProviderAnswer, offline: bool) -> None:
    """Fill in a provider's rows, or its error. Never raises."""
    try:
        endpoint = config.endpoint(answer.name, to_ask=not offline)
    except AgentError as e:
        answer.error = e
        return
    answer.type, answer.address, answer.key_origin = (
        endpoint.type,
        endpoint.base_url,
        endpoint.key_origin,
    )
    if offline:
        heard = told(config.home, endpoint) if config.home is not None else dict[str, Abilities]()
        ids = dict.fromkeys(
            (
                *heard,
                *(known_ids(endpoint.type, endpoint.base_url) if not heard else ()),
                *_defaults(config, answer.name),
            )
        )
        answer.rows = await _rows(
            config, endpoint, [Listed(id=model_id) for model_id in ids], heard
        )
        return
    answer.asked = True
    try:
        found = await _asked(endpoint)
    except AgentError as e:
        answer.error = e
        return
    heard = {
        model.id: model.abilities
        for model in found
        if not any(secret in model.id for secret in config.secrets())
    }
    if config.home is not None:
        try:
            remember(config.home, endpoint, heard)
        except AgentError as e:
            answer.note = f"its list of models cannot be cached: {e.message}"
    answer.rows = await _rows(config, endpoint, found, heard)


def _defaults(config: Config, provider: str) -> list[str]:
    names = (config.models.large, config.models.small)
    return [name.partition(":")[2] for name in names if name.partition(":")[0] == provider]


async def _asked(endpoint: Endpoint) -> list[Listed]:
    try:
        with anyio.fail_after(ANSWER_WITHIN_S):
            return await models_at(endpoint)
    except TimeoutError:
        raise AgentError("timeout", f"no answer within {ANSWER_WITHIN_S:.0f} s") from None


async def _rows(
    config: Config, endpoint: Endpoint, found: list[Listed], heard: Mapping[str, Abilities]
) -> list[CatalogModel]:
    prices, now, rows = Prices(config), datetime.now(UTC), list[CatalogModel]()
    for model in sorted(found, key=lambda model: model.id):
        name = f"{endpoint.name}:{model.id}"
        abilities = abilities_of(config, endpoint, model.id, heard)
        configured = name in config.prices or f"{endpoint.name}:*" in config.prices
        if model.input_usd is not None and not configured:
            rows.append(CatalogModel(name, abilities, model.input_usd, model.output_usd))
        elif (tariff := await prices.of(name).load()) is not None:
            rates = tariff(now)
            rows.append(
                CatalogModel(
                    name, abilities, float(rates.input[-1].usd), float(rates.output[-1].usd)
                )
            )
        else:
            rows.append(CatalogModel(name, abilities, None, None))
    return rows
