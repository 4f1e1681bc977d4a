"""What a run has spent, and what its limits leave for the next request and the next call."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import values_of
from treadle.budget.ledger import BYTES_PER_TOKEN, Ledger
from treadle.budget.prices import FREE, Dearest, PriceStep, Rates, flat
from treadle.types import Limits, Outcome, Usage


class Books(Ledger):
    """That of a run whose new text is counted as it comes."""

    new_bytes = 0

    def add_input(self, size_bytes: int) -> None:
        self.new_bytes += size_bytes

    def settle(self, usage: Usage, cost_usd: float | None = None) -> None:
        super().settle(usage, cost_usd)
        self.new_bytes = 0

    def settle_unsaid(
        self, said_bytes: int, dearest: Callable[[int], Dearest] | None = None
    ) -> None:
        self.settle_untold(
            self.new_bytes, said_bytes, self.output_left(8192, self.new_bytes, dearest).reserved
        )
        self.new_bytes = 0

    def may_say(
        self, wanted: int, dearest: Callable[[int], Dearest] | None = None
    ) -> tuple[int, Outcome | None]:
        left = self.output_left(wanted, self.new_bytes, dearest)
        return left.tokens, left.limit


def ledger(*usages: Usage, **limits: int) -> Books:
    made = Books(Limits(**limits))
    for usage in usages:
        made.settle(usage)
    return made


# ---------------------------------------------------------------- turns


@pytest.mark.parametrize(
    ("limit", "settled", "last", "spent"),
    [
        (None, 0, None, False),
        (None, 500, None, False),
        (1, 0, None, False),
        (2, 0, None, False),
        (2, 1, Outcome.TURN_LIMIT, False),
        (20, 18, None, False),
        (20, 19, Outcome.TURN_LIMIT, False),
    ],
)
def test_the_last_allowed_turn_is_the_last_one_unless_it_is_the_only_one(
    limit: int | None, settled: int, last: Outcome | None, spent: bool
) -> None:
    made = Ledger(Limits(turns=limit))
    made.begin()
    for _ in range(settled):
        made.ask(made.output_left(8192))
        made.settle(Usage())
    assert made.turns == settled
    assert made.last_turn() is last
    assert made.turns_spent is spent


@pytest.mark.parametrize("limit", [1, 2, 20])
def test_as_many_turns_are_taken_as_the_limit_says_and_the_last_one_knows_that_it_is(
    limit: int,
) -> None:
    made, lasts = Ledger(Limits(turns=limit)), list[bool]()
    made.begin()
    while not made.turns_spent:
        made.ask(made.output_left(8192))
        lasts.append(made.is_last_turn)
        made.settle(Usage())
    assert lasts == [*[False] * (limit - 1), True]


@pytest.mark.parametrize(("settled", "spent"), [(1, False), (2, True), (5, True)])
def test_a_run_that_is_taken_up_goes_on_with_the_turns_that_are_left(
    settled: int, spent: bool
) -> None:
    made = Ledger(Limits(turns=2))
    for _ in range(settled):
        made.settle(Usage())
    made.begin()
    assert made.turns_spent is spent
    assert made.last_turn() is Outcome.TURN_LIMIT


# ---------------------------------------------------------------- calls


def test_calls_may_start_up_to_the_limit_and_the_next_turn_is_the_last() -> None:
    made = ledger(tool_calls=2)
    assert [made.admit_call() for _ in range(4)] == [True, True, False, False]
    made.start_call()
    made.forget_calls()
    assert (made.admit_call(), made.admit_call()) == (True, False)
    made.start_call()
    assert (made.admit_call(), made.last_turn()) == (False, Outcome.CALL_LIMIT)


def test_calls_without_a_limit_are_only_counted() -> None:
    made = ledger()
    for _ in range(1_000):
        made.start_call()
    assert made.admit_call()
    assert (made.tool_calls, made.last_turn()) == (1_000, None)


def test_the_limit_of_turns_is_named_before_that_of_calls() -> None:
    made = ledger(Usage(), turns=2, tool_calls=1)
    made.begin()
    made.start_call()
    assert made.last_turn() is Outcome.TURN_LIMIT


# ---------------------------------------------------------------- tokens


def test_without_a_limit_on_tokens_all_that_is_wanted_may_be_asked_for() -> None:
    made = ledger(Usage(input_tokens=10**9))
    made.add_input(10**9)
    assert made.may_say(8192) == (8192, None)


def test_new_text_counts_as_more_tokens_than_it_may_have() -> None:
    made = ledger(tokens=1_000)
    made.add_input(BYTES_PER_TOKEN * 100 + 1)
    assert made.may_say(8192) == (1_000 - 101, Outcome.TOKEN_LIMIT)
    assert made.may_say(50) == (50, None)


def test_a_settled_context_is_counted_exactly_and_once_more_for_the_next_request() -> None:
    made = ledger(
        Usage(input_tokens=100, cache_read_tokens=200, cache_write_tokens=50, output_tokens=30),
        tokens=1_000,
    )
    assert made.may_say(8192) == (1_000 - 380 - 380, Outcome.TOKEN_LIMIT)
    made.add_input(30)
    assert made.may_say(8192) == (1_000 - 380 - 390, Outcome.TOKEN_LIMIT)
    made.settle(Usage(input_tokens=100, output_tokens=5))
    assert made.may_say(8192) == (1_000 - 380 - 105 - 105, Outcome.TOKEN_LIMIT)


def test_what_a_provider_does_not_tell_counts_as_what_was_expected_and_said() -> None:
    made = ledger(tokens=1_000)
    made.add_input(BYTES_PER_TOKEN * 100)
    made.settle_unsaid(BYTES_PER_TOKEN * 10)
    assert made.may_say(8192) == (1_000 - 110 - 110, Outcome.TOKEN_LIMIT)
    made.add_input(BYTES_PER_TOKEN * 20)
    made.settle_unsaid(1)
    assert made.may_say(8192) == (1_000 - 110 - 130 - 1 - 131, Outcome.TOKEN_LIMIT)
    assert made.usage == Usage()


def test_what_a_provider_does_not_tell_is_taken_for_as_dear_as_it_can_be() -> None:
    made = ledger(cost_usd=10_000)
    made.add_input(BYTES_PER_TOKEN * 100)
    made.settle_unsaid(BYTES_PER_TOKEN * 10, FLAT.dearest)
    assert made.may_say(8192, FLAT.dearest)[0] == (10_000 - 3 * 100 - 5 * 10 - 3 * 110) // 5


def test_reasoning_counts_within_the_output() -> None:
    assert ledger(Usage(output_tokens=10, reasoning_tokens=9), tokens=100).may_say(100) == (
        100 - 10 - 10,
        Outcome.TOKEN_LIMIT,
    )


def test_what_does_not_even_fit_its_input_leaves_nothing() -> None:
    made = ledger(tokens=10)
    made.add_input(100)
    assert made.may_say(8192)[0] < 1


@given(st.integers(1, 10_000), st.lists(st.integers(0, 3_000), max_size=8), st.integers(1, 8192))
def test_a_run_whose_requests_keep_to_what_is_left_never_spends_more_than_its_limit(
    limit: int, new_bytes: list[int], wanted: int
) -> None:
    """The input of a request is what it holds, and at most as many tokens as we take new text for."""
    made, context = ledger(tokens=limit), 0
    for size in new_bytes:
        made.add_input(size)
        left = made.may_say(wanted)[0]
        if left < 1:
            break
        usage = Usage(input_tokens=context + size // BYTES_PER_TOKEN, output_tokens=left)
        made.settle(usage)
        context = usage.total_tokens
        assert made.usage.total_tokens <= limit


# ---------------------------------------------------------------- money

FLAT = Rates(
    input=flat(2_000_000),
    output=flat(5_000_000),
    cache_read=flat(1_000),
    cache_write=flat(3_000_000),
)
"""In dollars: 2 a token of input, 3 where it is written to a cache, 5 a token of output."""
STEPPED = FLAT._replace(
    input=(PriceStep(300, Decimal(4_000_000)), *flat(2_000_000)),
    output=(PriceStep(300, Decimal(9_000_000)), *flat(5_000_000)),
)


def test_without_a_limit_on_money_nobody_is_asked_what_it_costs() -> None:
    def dearest(tokens: int) -> Dearest:
        raise AssertionError

    assert ledger(tokens=1_000).may_say(10, dearest) == (10, None)


def test_the_output_is_what_is_left_after_the_dearest_input() -> None:
    made = ledger(cost_usd=1_000)
    made.add_input(BYTES_PER_TOKEN * 100)
    assert made.may_say(8192, FLAT.dearest) == ((1_000 - 300) // 5, Outcome.COST_LIMIT)
    assert made.may_say(140, FLAT.dearest) == (140, None)
    made.settle(Usage(input_tokens=100, output_tokens=20), 300.0)
    assert made.may_say(8192, FLAT.dearest) == ((1_000 - 300 - 3 * 120) // 5, Outcome.COST_LIMIT)


def test_what_each_request_costs_by_itself_is_left_too() -> None:
    assert ledger(cost_usd=10).may_say(8192, FLAT._replace(request=Decimal(6)).dearest)[0] == 0
    assert ledger(cost_usd=10).may_say(8192, FLAT._replace(request=Decimal(5)).dearest)[0] == 1


def test_money_that_is_spent_leaves_nothing_also_where_the_rest_is_free() -> None:
    free = Rates(input=FREE, output=FREE, cache_read=FREE, cache_write=FREE)
    made = ledger(cost_usd=1)
    assert made.may_say(8192, free.dearest) == (8192, None)
    made.settle(Usage(), 1.0)
    assert made.may_say(8192, free.dearest) == (0, Outcome.COST_LIMIT)


def test_a_free_answer_to_what_takes_the_last_cent_is_had_whole() -> None:
    made = ledger(cost_usd=300)
    made.add_input(BYTES_PER_TOKEN * 100)
    assert made.may_say(8192, FLAT._replace(output=FREE).dearest) == (8192, None)
    made.add_input(1)
    assert made.may_say(8192, FLAT._replace(output=FREE).dearest) == (0, Outcome.COST_LIMIT)


def test_the_tighter_of_two_limits_is_named() -> None:
    assert ledger(cost_usd=50, tokens=11).may_say(8192, FLAT.dearest) == (10, Outcome.COST_LIMIT)
    assert ledger(cost_usd=50, tokens=10).may_say(8192, FLAT.dearest) == (10, Outcome.TOKEN_LIMIT)


def test_a_step_that_new_text_can_reach_is_taken_for_reached() -> None:
    made = ledger(cost_usd=10_000)
    made.add_input(300)
    assert made.may_say(8192, STEPPED.dearest)[0] == (10_000 - 3 * 100) // 5
    made.add_input(3)
    assert made.may_say(8192, STEPPED.dearest)[0] == (10_000 - 4 * 101) // 9


turns = st.lists(
    st.tuples(st.integers(0, 900), st.integers(0, 40), st.integers(0, 100), st.integers(0, 100)),
    max_size=8,
)


@given(st.integers(1, 20_000), turns, st.integers(1, 500), st.sampled_from([FLAT, STEPPED]))
def test_spent_money_passes_its_limit_by_no_more_than_the_input_that_was_not_foreseen(
    limit: int, given_turns: list[tuple[int, int, int, int]], wanted: int, rates: Rates
) -> None:
    """A request has new text, tokens beyond those that we take it for, and may find any part of
    itself in a cache, or none.
    """
    made, context = ledger(cost_usd=limit), 0
    for size, unforeseen, read, written in given_turns:
        made.add_input(size)
        left = made.may_say(wanted, rates.dearest)[0]
        if left < 1:
            break
        # no token is shorter than a byte
        unforeseen = min(unforeseen, size - size // BYTES_PER_TOKEN)
        total = context + size // BYTES_PER_TOKEN + unforeseen
        cached = total * read // 100
        stored = (total - cached) * written // 100
        usage = Usage(
            input_tokens=total - cached - stored,
            cache_read_tokens=cached,
            cache_write_tokens=stored,
            output_tokens=left,
        )
        made.settle(usage, rates.cost_usd(usage))
        context = usage.total_tokens
        assert made.cost_usd is not None
        assert Decimal(str(made.cost_usd)) <= limit + unforeseen * rates.dearest(total).token_in


def test_what_has_no_price_is_said_and_left_out() -> None:
    made = ledger()
    made.settle(Usage(), None)
    assert (made.cost_usd, made.left_out) == (None, ())
    made.spend(Usage(), 0.5)
    assert made.cost_usd == 0.5
    assert "once a model was used" in made.left_out[0]
    made.settle(Usage(), None)
    assert "2 times a model was used" in made.left_out[0]


@given(st.lists(values_of(Usage), max_size=4))
def test_usage_is_the_sum_of_the_responses(usages: list[Usage]) -> None:
    made = ledger(*usages)
    assert made.usage == sum(usages, Usage())
    assert made.turns == len(usages)
