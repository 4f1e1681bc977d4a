"""The list of prices: the same answers as the library's, found by who is asked, and loaded late and
beside everything else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import anyio
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice
from genai_prices.types import Usage as TheirUsage
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles import PlayedModel, agent, end, open_runtime
from treadle.budget.price_list import Prices, listed
from treadle.budget.prices import UNKNOWN
from treadle.config import Config, Price, Provider
from treadle.messages.response_details import OtherUsage, ResponseDetails
from treadle.models.model import TextDelta
from treadle.types import Limits, Usage

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
USED = Usage(
    input_tokens=1_000, output_tokens=50, cache_read_tokens=100_000, cache_write_tokens=200
)
LIST = get_snapshot()


def has_rates(prices: Any) -> bool:
    """At any time."""
    return (
        prices.input_mtok is not None
        if isinstance(prices, ModelPrice)
        else all(has_rates(dated.prices) for dated in prices)
    )


@cache
def models() -> list[tuple[str, str]]:
    """Provider and id of each model that is found by its id, and whose tokens have a price."""
    found: list[tuple[str, str]] = []
    for provider in LIST.providers:
        for model in provider.models:
            with suppress(LookupError):  # the id of some is no name that anybody can ask for
                if has_rates(LIST.find_provider_model(model.id, None, provider.id, None)[1].prices):
                    found.append((provider.id, model.id))
    return found


counts = st.integers(0, 3_000_000) | st.integers(199_990, 200_010) | st.integers(271_990, 272_010)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    output, written = draw(counts), draw(counts)
    return Usage(
        input_tokens=draw(counts),
        output_tokens=output,
        cache_read_tokens=draw(counts),
        cache_write_tokens=written,
        reasoning_tokens=draw(st.integers(0, output)),
        cache_write_1h_tokens=draw(st.integers(0, written)),
        web_searches=draw(st.integers(0, 50)),
    )


TIMES = st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))


@given(
    st.deferred(lambda: st.sampled_from(models())),
    usages(),
    TIMES,
    st.sampled_from([None, None, "flex", "fast", "priority"]),
)
def test_a_response_costs_what_the_library_says(
    model: tuple[str, str], used: Usage, at: datetime, tier: str | None
) -> None:
    provider, model_id = model
    tariff = listed(LIST, provider, None, model_id)
    assert tariff is not None
    theirs = LIST.calc(
        TheirUsage(
            input_tokens=used.total_input_tokens,
            cache_read_tokens=used.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens,
            output_tokens=used.output_tokens,
            output_reasoning_tokens=used.reasoning_tokens,
            cache_write_1h_tokens=used.cache_write_1h_tokens,
            web_searches=used.web_searches,
        ),
        model_id,
        provider,
        None,
        at,
        {"service_tier": tier, "speed": tier} if tier else None,
    )
    rates = tariff(at).of(tier, at)
    if rates is None:
        assert not any(
            tier in variant.when.values() for variant in theirs.model.price_variants or ()
        )
    else:
        assert rates.cost_usd(used) == pytest.approx(float(theirs.total_price), rel=1e-12)


def test_most_models_of_the_list_have_a_price() -> None:
    assert len(models()) > 1_000
    assert {
        ("anthropic", "claude-opus-5-5"),
        ("openai", "gpt-5.6-sol"),
        ("google", "gemini-2.5-pro"),
    } <= set(models())


def test_what_has_no_rates_in_the_list_has_an_unknown_price_and_not_none() -> None:
    free = LIST.find_provider_model("gemma-3", None, "google", None)[1]
    assert not has_rates(free.prices)
    assert listed(LIST, "google", None, "gemma-3") is None


# ---------------------------------------------------------------- who is asked


async def cost(name: str, *, said: str = "", at: datetime = AT, **config: Any) -> float | None:
    return await Prices(Config(**config)).of(name).cost_usd(USED, at, said)


@pytest.mark.parametrize(
    ("name", "listed_at"),
    [
        ("anthropic:claude-opus-5-5", ("anthropic", "claude-opus-5-5")),
        ("claude:claude-opus-5-5", ("anthropic", "claude-opus-5-5")),
        ("openai:gpt-5.6-sol", ("openai", "gpt-5.6-sol")),
        ("openai-chat:gpt-5.6-sol", ("openai", "gpt-5.6-sol")),
        ("gemini:gemini-2.5-pro", ("google", "gemini-2.5-pro")),
    ],
)
async def test_a_vendor_is_known_by_its_name(name: str, listed_at: tuple[str, str]) -> None:
    tariff = listed(LIST, listed_at[0], None, listed_at[1])
    assert tariff is not None
    assert await cost(name) == tariff(AT).cost_usd(USED)


@pytest.mark.parametrize(
    ("base_url", "vendor", "model_id"),
    [
        ("https://openrouter.ai/api/v1", "openrouter", "anthropic/claude-3.5-haiku"),
        ("https://api.groq.com/openai/v1", "groq", "llama-3.3-70b-versatile"),
        ("https://api.deepseek.com", "deepseek", "deepseek-chat"),
        ("https://api.openai.com/v1", "openai", "gpt-5.6-sol"),
    ],
)
async def test_another_provider_is_known_by_its_address(
    base_url: str, vendor: str, model_id: str
) -> None:
    tariff = listed(LIST, vendor, None, model_id)
    assert tariff is not None
    providers = {"other": Provider(type="openai-chat", base_url=base_url)}
    assert await cost(f"other:{model_id}", providers=providers) == tariff(AT).cost_usd(USED)


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1:8080", "http://localhost:1/v1", "https://gateway.example.org"]
)
async def test_elsewhere_the_same_model_has_no_known_price(base_url: str) -> None:
    providers = {"anthropic": Provider(type="anthropic", base_url=base_url)}
    assert await cost("anthropic:claude-opus-5-5", providers=providers) is None


@pytest.mark.parametrize(
    "base_url", ["http://127.0.0.1:8080", "http://localhost:1/v1", "http://[::1]:80"]
)
def test_for_a_server_on_this_machine_no_list_is_loaded(base_url: str) -> None:
    providers = {"local": Provider(type="openai-chat", base_url=base_url)}
    assert Prices(Config(providers=providers)).of("local:any") is UNKNOWN


async def test_an_object_is_priced_where_it_is_reached_and_not_where_its_name_would_be() -> None:
    prices = Prices(Config())
    assert (
        await prices.reached_at("anthropic:claude-opus-5-5", "http://127.0.0.1:1").cost_usd(
            USED, AT, ""
        )
        is None
    )
    assert (
        await prices.reached_at("anthropic:claude-opus-5-5", None).cost_usd(USED, AT, "")
        is not None
    )


@pytest.mark.parametrize(
    "name",
    ["script:talk.json", "tape:talk.tape", "played:model", "script", "anthropic:no-such-model"],
)
async def test_what_is_in_no_list_has_no_price(name: str) -> None:
    assert await cost(name) is None


async def test_where_the_asked_model_is_in_no_list_the_one_that_answered_counts() -> None:
    assert await cost("anthropic:of-our-own", said="claude-opus-5-5") == await cost(
        "anthropic:claude-opus-5-5"
    )
    assert await cost("anthropic:claude-haiku-5-5", said="claude-opus-5-5") == await cost(
        "anthropic:claude-haiku-5-5"
    )


async def test_a_price_counts_from_the_day_on_which_it_changed() -> None:
    changed = datetime(2026, 8, 21, tzinfo=UTC)
    before, after = [
        await cost("openai:gpt-5.6-sol", at=changed + timedelta(days=days)) for days in (-1, 1)
    ]
    assert before is not None
    assert after is not None
    assert before > after


async def spent(name: str, details: ResponseDetails, **config: Any) -> float | None:
    return await Prices(Config(**config)).of(name).cost_usd(USED, AT, "", details)


async def test_other_models_that_took_part_are_paid_at_their_own_prices() -> None:
    part = Usage(input_tokens=600, output_tokens=20)
    rest = Usage(
        input_tokens=400, output_tokens=30, cache_read_tokens=100_000, cache_write_tokens=200
    )
    own, other = [
        listed(LIST, "anthropic", None, name) for name in ("claude-haiku-5-5", "claude-opus-5-5")
    ]
    assert own is not None
    assert other is not None
    details = ResponseDetails(others=(OtherUsage(model="claude-opus-5-5", usage=part),))
    assert await spent("anthropic:claude-haiku-5-5", details) == pytest.approx(
        own(AT).cost_usd(rest) + other(AT).cost_usd(part)
    )
    unknown = ResponseDetails(others=(OtherUsage(model="claude-of-2030", usage=part),))
    assert await spent("anthropic:claude-haiku-5-5", unknown) is None


async def test_what_the_vendor_bills_by_the_piece_has_its_price() -> None:
    details = ResponseDetails(file_searches=4, containers=2)
    for name, fees in (("openai:gpt-5.6-sol", 0.07), ("anthropic:claude-opus-5-5", 0.0)):
        tokens = await cost(name)
        assert tokens is not None
        assert await spent(name, details) == pytest.approx(tokens + fees)
    price = Price(input=0, output=0, file_searches=1_000, containers=3)
    assert await spent("local:any", details, prices={"local:*": price}) == 10.0


# ---------------------------------------------------------------- what is configured


async def test_what_the_configuration_says_goes_before_the_list() -> None:
    price = Price(input=1_000_000, output=0, cache_read=0, cache_write=0)
    assert (
        await cost("anthropic:claude-opus-5-5", prices={"anthropic:claude-opus-5-5": price})
        == 1_000.0
    )
    assert await cost("anthropic:claude-opus-5-5", prices={"anthropic:*": price}) == 1_000.0
    assert await cost("claude:claude-opus-5-5", prices={"anthropic:*": price}) == 1_000.0


async def test_the_price_of_a_model_goes_before_that_of_its_provider() -> None:
    prices = {
        "local:*": Price(input=0, output=0),
        "local:big": Price(input=1_000, output=0, cache_read=0, cache_write=0),
    }
    providers = {"local": Provider(type="openai-chat", base_url="http://127.0.0.1:1")}
    assert await cost("local:big", prices=prices, providers=providers) == 1.0
    assert await cost("local:small", prices=prices, providers=providers) == 0.0


# ---------------------------------------------------------------- when it is loaded

LATE = """
import anyio, sys, threading
import treadle
from treadle.models.model import ResponseEnd, TextDelta
from treadle.types import StopReason, Usage

def loads():
    return any(thread.name == "treadle-prices" for thread in threading.enumerate())

class Model:
    name = "anthropic:claude-opus-5-5"
    refuses = frozenset()
    async def stream(self, request):
        assert "genai_prices" not in sys.modules and not loads(), "loaded before the request was sent"
        yield TextDelta("hi")
        assert "genai_prices" in sys.modules or loads(), "not loaded beside the response"
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage(input_tokens=1_000_000))

async def main():
    async with treadle.Runtime() as runtime:
        result = await runtime.run(treadle.Agent(name="a", model=Model()), "go")
    print(result.outcome, result.metrics.cost_usd, "httpx2" in sys.modules)

anyio.run(main)
"""

STOPPED = """
import anyio
import treadle
from treadle.models.model import ResponseEnd
from treadle.types import StopReason, Usage

class Model:
    name = "anthropic:claude-opus-5-5"
    refuses = frozenset()
    async def stream(self, request):
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage(input_tokens=1_000_000))
        stream.cancel()

async def main():
    global stream
    async with treadle.Runtime() as runtime:
        async with runtime.stream(treadle.Agent(name="a", model=Model()), "go") as stream:
            async for event in stream:
                pass
    print(stream.result.outcome, stream.result.metrics.cost_usd)

anyio.run(main)
"""

FORKED = """
import anyio, os, threading
import treadle
from treadle.models.model import ResponseEnd, TextDelta
from treadle.types import StopReason, Usage

class Model:
    name = "anthropic:claude-opus-5-5"
    refuses = frozenset()
    async def stream(self, request):
        yield TextDelta("hi")
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage(input_tokens=1_000_000))
        if (child := os.fork()) == 0:
            beside = threading.Thread(target=anyio.run, args=(again,), daemon=True)
            beside.start()
            beside.join(10)
            os._exit(9 if beside.is_alive() else 0)
        print("child", os.waitpid(child, 0)[1], flush=True)

class Other(Model):
    async def stream(self, request):
        yield TextDelta("hi")
        yield ResponseEnd(stop_reason=StopReason.COMPLETE, usage=Usage(input_tokens=1_000_000))

async def again():
    async with treadle.Runtime() as runtime:
        await runtime.run(treadle.Agent(name="a", model=Other()), "go")

async def main():
    async with treadle.Runtime() as runtime:
        result = await runtime.run(treadle.Agent(name="a", model=Model()), "go")
    print(result.outcome, result.metrics.cost_usd)

anyio.run(main)
"""

PLAYED = """
import anyio, sys
import treadle
from treadle.testing import ScriptedModel

async def main():
    async with treadle.Runtime() as runtime:
        result = await runtime.run(treadle.Agent(name="a", model=ScriptedModel([{"text": "hi"}])), "go")
    print(result.outcome, result.metrics.cost_usd, "genai_prices" in sys.modules)

anyio.run(main)
"""


def said_by(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=250,
    )
    return done.stdout + done.stderr


def test_the_list_is_loaded_beside_the_first_response_and_not_before_it() -> None:
    assert said_by(LATE) == "completed 4.0 True\n"


def test_a_response_is_not_lost_to_a_run_that_is_stopped_while_the_list_loads() -> None:
    assert said_by(STOPPED) == "cancelled 4.0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_that_was_forked_while_the_list_loads_goes_on_without_prices() -> None:
    assert said_by(FORKED).endswith("child 0\ncompleted 4.0\n")


async def test_with_a_limit_on_money_the_price_is_known_before_the_run() -> None:
    model = PlayedModel([TextDelta("hi"), end(usage=Usage(input_tokens=1_000_000))])
    model.name = "anthropic:claude-opus-5-5"
    async with open_runtime() as rt:
        result = await rt.run(agent(model), "go", limits=Limits(cost_usd=10))
    assert (result.outcome, result.metrics.cost_usd) == ("completed", 4.0)
    assert model.requests[0].settings.max_tokens == 8192


def test_who_plays_a_script_loads_no_list() -> None:
    assert said_by(PLAYED) == "completed None False\n"


async def test_many_that_ask_at_once_are_answered() -> None:
    prices = Prices(Config())
    found: list[float | None] = []

    async def ask() -> None:
        found.append(await prices.of("anthropic:claude-opus-5-5").cost_usd(USED, AT, ""))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(ask)
    assert len(set(found)) == 1
    assert found[0] is not None
