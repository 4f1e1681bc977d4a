"""What tokens cost: rates, their steps, and the dearest that a request can come to."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import values_of
from treadle._internal.units import usd
from treadle.budget.prices import (
    UNKNOWN,
    Dearest,
    KnownPrice,
    PriceStep,
    Rates,
    configured,
    flat,
    needed,
)
from treadle.config import Price
from treadle.errors import AgentError
from treadle.types import Usage

AT = datetime(2026, 11, 20, tzinfo=UTC)
STEPPED = Rates(
    input=(PriceStep(200_000, Decimal(4)), PriceStep(-1, Decimal(2))),
    output=(PriceStep(200_000, Decimal(18)), PriceStep(-1, Decimal(12))),
    cache_read=flat(0.2),
    cache_write=flat(2.5),
)

# below, a millionth of it has fewer digits than a float
prices = st.just(0.0) | st.floats(1e-9, 1000)
price = st.builds(
    Price,
    input=prices,
    output=prices,
    cache_read=st.none() | prices,
    cache_write=st.none() | prices,
)
counts = st.integers(0, 10**7)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
)


def test_each_kind_of_token_has_its_own_price() -> None:
    rates = configured(Price(input=1, output=10, cache_read=0.1, cache_write=1.25))(AT)
    used = Usage(
        input_tokens=1_000_000,
        output_tokens=200_000,
        cache_read_tokens=3_000_000,
        cache_write_tokens=400_000,
    )
    assert rates.cost_usd(used) == 1 + 2 + 0.3 + 0.5


def test_cached_input_without_a_price_of_its_own_costs_as_much_as_any_other() -> None:
    rates = configured(Price(input=2, output=0))(AT)
    assert (
        rates.cost_usd(Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3)) == 0.000012
    )


def test_what_is_free_costs_nothing_and_is_known_to() -> None:
    assert (
        configured(Price(input=0, output=0))(AT).cost_usd(
            Usage(input_tokens=10**9, output_tokens=10**9)
        )
        == 0.0
    )


@pytest.mark.parametrize(
    ("cached", "cost"),
    [(199_000, 2 * 0.001 + 0.2 * 0.199 + 12), (199_001, 4 * 0.001 + 0.2 * 0.199001 + 18)],
)
def test_a_step_counts_all_input_and_holds_for_all_tokens(cached: int, cost: float) -> None:
    assert STEPPED.cost_usd(
        Usage(input_tokens=1_000, cache_read_tokens=cached, output_tokens=1_000_000)
    ) == pytest.approx(cost, abs=1e-12)


def test_reasoning_with_a_price_of_its_own_is_no_other_output() -> None:
    rates = STEPPED._replace(reasoning=flat(3), request=Decimal("0.01"))
    assert rates.cost_usd(
        Usage(output_tokens=1_000_000, reasoning_tokens=400_000)
    ) == pytest.approx(0.6 * 12 + 0.4 * 3 + 0.01)
    assert rates.cost_usd(Usage(output_tokens=1, reasoning_tokens=5)) == pytest.approx(
        3 / 1e6 + 0.01
    )


def test_the_dearest_token_is_that_of_the_steps_which_the_input_can_reach() -> None:
    million = Decimal(1_000_000)
    assert STEPPED.dearest(200_000) == Dearest(Decimal("2.5") / million, 12 / million, Decimal(0))
    assert STEPPED.dearest(200_001) == Dearest(4 / million, 18 / million, Decimal(0))


@given(price, usages)
def test_no_response_costs_more_than_the_dearest_that_it_could(
    given_price: Price, used: Usage
) -> None:
    rates = configured(given_price)(AT)
    dearest = rates.dearest(used.total_input_tokens)
    assert Decimal(rates.cost_usd(used)) <= (
        dearest.token_in * used.total_input_tokens + dearest.token_out * used.output_tokens
    ) * (1 + Decimal("1e-12"))


@given(usages)
def test_with_steps_too(used: Usage) -> None:
    dearest = STEPPED.dearest(used.total_input_tokens)
    assert Decimal(STEPPED.cost_usd(used)) <= (
        dearest.token_in * used.total_input_tokens + dearest.token_out * used.output_tokens
    ) * (1 + Decimal("1e-12"))


@given(values_of(Usage))
def test_an_unknown_price_makes_no_cost(used: Usage) -> None:
    assert UNKNOWN.tariff is None


async def test_of_what_has_no_price_the_cost_is_not_known() -> None:
    assert await UNKNOWN.cost_usd(Usage(input_tokens=1), AT, "any") is None
    assert (
        await KnownPrice(configured(Price(input=1, output=1))).cost_usd(
            Usage(input_tokens=1), AT, "any"
        )
        == 1e-6
    )


def test_a_price_that_is_needed_and_missing_says_how_to_give_one() -> None:
    with pytest.raises(AgentError, match=r'"local:x": \{input: 0.5, output: 1.5\}') as caught:
        needed(UNKNOWN, "local:x")
    assert caught.value.kind == "invalid"


def test_sums_of_money_leave_out_what_nobody_knows() -> None:
    assert usd(None, None) is None
    assert usd(None, 0.0) == 0.0
    assert usd(0.1, None, 0.2) == 0.3
