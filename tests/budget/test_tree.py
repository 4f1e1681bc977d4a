"""Limits of a tree of runs: whoever spends what and in whatever order, no limit above is passed,
and nobody starves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.budget.ledger import Ledger
from treadle.budget.limits import LEAST_SAID, BudgetSpent, ReservedResponse
from treadle.budget.prices import Dearest, Rates, flat
from treadle.budget.spending import Reserved
from treadle.types import Limits, Outcome, Usage

FLAT = Rates(
    input=flat(2_000_000),
    output=flat(5_000_000),
    cache_read=flat(1_000),
    cache_write=flat(3_000_000),
)
"""In dollars: 3 at most a token of input, 5 a token of output."""


def child_of(above: Ledger, **limits: int) -> Ledger:
    made = Ledger(Limits(**limits))
    made.begin(above)
    return made


def root(**limits: int) -> Ledger:
    made = Ledger(Limits(**limits))
    made.begin()
    return made


def turn(
    one: Ledger, usage: Usage | None = None, *, wanted: int = 8192, new_bytes: int = 0
) -> ReservedResponse:
    left = one.output_left(wanted, new_bytes)
    one.ask(left)
    one.settle(usage or Usage(input_tokens=1, output_tokens=1))
    return left


# ---------------------------------------------------------------- turns


def test_turns_of_a_child_count_on_all_above_and_leave_each_its_last_one() -> None:
    top = root(turns=6)
    turn(top)
    middle = child_of(top)
    turn(middle)
    low = child_of(middle)
    taken = 0
    while not low.turns_spent:
        turn(low)
        taken += 1
    low.end()
    # of six, one is the top's and one the middle's so far, and each of them keeps one
    assert taken == 2
    assert middle.last_turn() is Outcome.TURN_LIMIT
    turn(middle)
    middle.end()
    assert top.last_turn() is Outcome.TURN_LIMIT
    turn(top)
    assert (top.turns, top.turns_spent) == (2, True)


def test_a_child_with_one_turn_answers_in_it_and_the_run_above_may_look_first() -> None:
    top = root(turns=2)
    assert top.last_turn() is None
    assert root(turns=1).last_turn() is None, (
        "a person asked for one turn: its tools may run in it, and one more is for the last word"
    )
    low = child_of(top)
    assert low.last_turn() is Outcome.TURN_LIMIT


def test_no_child_begins_where_only_the_last_turn_is_left() -> None:
    top = root(turns=2)
    turn(top)
    with pytest.raises(BudgetSpent) as refused:
        child_of(top)
    assert refused.value.outcome is Outcome.TURN_LIMIT
    assert not top.turns_spent


def test_what_a_child_kept_and_did_not_use_is_free_when_it_ends() -> None:
    top = root(turns=4)
    top.expect(1)
    child_of(top).end()
    assert [turn(top) and top.last_turn() for _ in range(3)] == [None, None, Outcome.TURN_LIMIT]


def test_thirty_two_children_at_once_have_a_share_each() -> None:
    top = root(turns=1 + 32 * 3, tokens=32 * 2_000, tool_calls=64)
    top.expect(32)
    children = [child_of(top) for _ in range(32)]
    greedy, *others = children
    while not greedy.turns_spent and greedy.output_left(8192).tokens > 0:
        turn(greedy, Usage(output_tokens=400), wanted=400)
    while greedy.admit_call():
        greedy.start_call()
    for other in others:
        assert [turn(other, Usage(output_tokens=300), wanted=300).tokens for _ in range(3)] == [
            300
        ] * 3
        assert (other.admit_call(), other.admit_call()) == (True, True)


# ---------------------------------------------------------------- tokens and money


def test_a_child_may_say_no_more_than_its_parent_has_left_and_the_limit_is_named() -> None:
    top = root(tokens=10_000)
    turn(top, Usage(input_tokens=1_000, output_tokens=500))
    top.expect(1)
    left = child_of(top, tokens=1_000_000).output_left(8192)
    assert left.limit is Outcome.TOKEN_LIMIT
    assert 0 < left.tokens < 8_500 - 1_500  # the parent keeps what it needs for its own next turn


def test_what_is_under_way_below_is_kept_on_every_run_above() -> None:
    top = root(tokens=10_000)
    top.expect(4)
    low = child_of(child_of(top))
    low.ask(low.output_left(8_000))
    beside = child_of(top)
    kept = 3 * LEAST_SAID
    assert beside.output_left(8_000).tokens == 2_000 - kept
    low.settle(Usage(output_tokens=500))
    low.end()
    assert (
        beside.output_left(8_000).tokens == 9_500 - 2_000 + 192 - kept
    )  # a quarter of what was not kept was the share of the one above it, of which 500 are spent


def test_what_a_lost_attempt_may_have_cost_is_spent_on_all_above() -> None:
    top = root(tokens=10_000, cost_usd=100_000)
    middle = child_of(top)
    low = child_of(middle)
    before = low.output_left(1_000, 300, FLAT.dearest)
    low.ask(before)
    low.check_again(before.reserved)
    low.lose(before.reserved)
    low.end()
    middle.end()
    assert before.reserved == Reserved(
        input_tokens=100, output_tokens=1_000, input_usd=300.0, output_usd=5_000.0
    )
    after = top.output_left(100_000, 0, FLAT.dearest)
    assert after.tokens == 10_000 - 1_100


def test_an_attempt_is_not_made_once_more_where_it_does_not_fit_twice() -> None:
    top = root(tokens=3_000)
    low = child_of(top)
    left = low.output_left(2_000)
    low.ask(left)
    with pytest.raises(BudgetSpent) as spent:
        low.check_again(left.reserved)
    assert spent.value.outcome is Outcome.TOKEN_LIMIT


def test_what_children_of_a_run_that_is_taken_up_had_spent_counts() -> None:
    before = root()
    turn(before, Usage(output_tokens=700))
    before.start_call()
    top = root(tokens=1_000, tool_calls=1, turns=3)
    top.add_below("run_1", before)
    assert top.output_left(8192).tokens == 300
    assert not top.admit_call()
    assert (top.turns, top.usage, top.tool_calls) == (0, Usage(), 0)


def test_what_a_parent_needs_for_its_next_turn_is_kept_in_money_too() -> None:
    top, rates = root(cost_usd=10_000), FLAT._replace(request=Decimal(7))
    top.ask(top.output_left(1_000, 0, rates.dearest))
    top.settle(Usage(input_tokens=100, output_tokens=300), 1_800.0)
    top.expect(1)
    # what was said so far, as much again, and what it then reads
    kept = 7 + 3 * (400 + 300) + 5 * 300
    assert child_of(top).output_left(8192, 0, FLAT.dearest).tokens == (10_000 - 1_800 - kept) // 5


@pytest.mark.parametrize(("spent", "last"), [(0, None), (1, Outcome.COST_LIMIT)])
def test_the_last_turn_that_money_allows_is_the_one_after_which_another_would_not_fit(
    spent: int, last: Outcome | None
) -> None:
    new, said = 300, 400
    # what the coming turn has read by then, and what it will have said
    another = 7 + 3 * (500 + new // 3 + said) + 5 * said
    made, rates = root(cost_usd=2_000 + 900 + another), FLAT._replace(request=Decimal(7))
    made.settle(Usage(input_tokens=100, output_tokens=said), 2_000.0 - 1_100 + spent)
    made.spend(Usage(), 1_100.0)
    seen: list[int] = []

    def dearest(tokens: int) -> Dearest:
        seen.append(tokens)
        return rates.dearest(tokens)

    assert made.last_turn(new, dearest) is last
    assert seen == [500 + new], "a step of the rates is reached for sure where it can be"


@pytest.mark.parametrize(("more", "last"), [(0, None), (-1, Outcome.TOKEN_LIMIT)])
def test_the_last_turn_that_tokens_allow_is_the_one_after_which_another_would_not_fit(
    more: int, last: Outcome | None
) -> None:
    asked, said = 600, 400
    made = root(tokens=500 + 2 * asked + 3 * said + more)
    made.settle(Usage(input_tokens=100, output_tokens=said))
    assert made.last_turn(300) is last


def test_what_a_child_had_spent_before_it_was_taken_up_is_not_taken_from_its_share() -> None:
    top, again = root(tokens=10_000), Ledger(Limits())
    again.settle(Usage(output_tokens=3_000))
    top.expect(4)
    again.begin(top)
    again.settle(Usage(output_tokens=1_000))
    need = 3 * LEAST_SAID
    share = (10_000 - need) // 4
    assert child_of(top).output_left(100_000).tokens == 10_000 - need - share


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_calls_of_a_child_are_those_that_its_parent_has_left(limit: int) -> None:
    top = root(tool_calls=limit)
    assert top.admit_call()
    top.start_call()
    top.expect(1)
    child, admitted = child_of(top), 0
    for _ in range(9):
        if child.admit_call():
            child.start_call()
            admitted += 1
    assert admitted == limit - 1


# ---------------------------------------------------------------- whatever happens


@dataclass
class Node:
    """A run, and beside its ledger a sum of its own of what it and those below it have spent."""

    ledger: Ledger
    above: Node | None = None
    asked: ReservedResponse | None = None
    admitted: int = 0
    spent: list[Decimal] = field(default_factory=lambda: [Decimal(0)] * 4)
    """Turns, calls, tokens, dollars."""

    def spend(self, *amounts: float) -> None:
        node: Node | None = self
        while node is not None:
            node.spent = [
                before + Decimal(amount) for before, amount in zip(node.spent, amounts, strict=True)
            ]
            node = node.above

    @property
    def under_way(self) -> tuple[float, ...]:
        if self.asked is None:
            return (0, self.admitted, 0, 0)
        return (1, self.admitted, *taking(self.asked.reserved))


def taking(reserved: Reserved | None) -> tuple[float, float]:
    return (
        (0, 0)
        if reserved is None
        else (reserved.tokens, (reserved.input_usd or 0) + (reserved.output_usd or 0))
    )


verbs = st.sampled_from(["child", "ask", "settle", "lose", "admit", "start", "forget", "end"])
steps = st.lists(st.tuples(verbs, st.integers(0, 99), st.integers(0, 400)), max_size=120)
maybe = st.none() | st.integers(1, 60)


@settings(max_examples=2_000, deadline=None)
@given(
    st.builds(
        Limits,
        turns=maybe,
        tool_calls=maybe,
        tokens=st.none() | st.integers(1, 6_000),
        cost_usd=st.none() | st.integers(1, 30_000),
    ),
    steps,
)
def test_no_limit_of_any_run_is_passed_at_any_instant(
    limits: Limits, plan: list[tuple[str, int, int]]
) -> None:
    top = Node(Ledger(limits))
    top.ledger.begin()
    nodes = [top]
    for what, which, amount in plan:
        step(nodes[which % len(nodes)], what, amount, nodes)
        for one in nodes:
            within(one, [node for node in nodes if is_of(one, node)])


def step(node: Node, what: str, amount: int, nodes: list[Node]) -> None:
    ledger = node.ledger
    match what:
        case "child":
            ledger.expect(1 + amount % 8)
            child = Node(
                Ledger(
                    Limits(tokens=amount * 10 or None)
                    if amount % 3
                    else Limits(turns=1 + amount % 5)
                ),
                node,
            )
            try:
                child.ledger.begin(ledger)
            except BudgetSpent:
                return
            nodes.append(child)
        case "ask" if node.asked is None and not ledger.turns_spent:
            left = ledger.output_left(amount + 1, amount, FLAT.dearest)
            if left.tokens > 0:
                ledger.ask(left)
                node.asked = left
        case "settle" if (left := node.asked) is not None:
            asked = left.reserved.input_tokens if left.reserved else amount
            usage = Usage(
                input_tokens=asked - asked // 2,
                cache_write_tokens=asked // 2,
                output_tokens=left.tokens * (amount % 5) // 4,
            )
            cost_usd = FLAT.cost_usd(usage)
            ledger.settle(usage, cost_usd)
            node.spend(1, 0, usage.total_tokens, cost_usd)
            node.asked = None
        case "lose" if (left := node.asked) is not None:
            try:
                ledger.check_again(left.reserved)
            except BudgetSpent:
                return
            ledger.lose(left.reserved)
            node.spend(0, 0, *taking(left.reserved))
        case "admit":
            node.admitted += ledger.admit_call()
        case "start" if node.admitted:
            ledger.start_call()
            node.spend(0, 1, 0, 0)
            node.admitted -= 1
        case "forget":
            ledger.forget_calls()
            node.admitted = 0
        case "end" if node is not nodes[0] and not any(one.above is node for one in nodes):
            if (left := node.asked) is not None:
                ledger.lose(left.reserved)
                node.spend(0, 0, *taking(left.reserved))
            ledger.end()
            nodes.remove(node)
        case _:
            pass


def is_of(one: Node, node: Node | None) -> bool:
    """Whether it is that run, or one below it."""
    while node is not None and node is not one:
        node = node.above
    return node is one


def within(node: Node, all_of_it: list[Node]) -> None:
    """What is spent, and what may still be spent by requests and calls under way, in this run and
    all below.
    """
    turns, calls, tokens, dollars = [
        spent + sum(map(Decimal, held))
        for spent, *held in zip(node.spent, *[one.under_way for one in all_of_it], strict=True)
    ]
    limits = node.ledger.limits
    assert limits.turns is None or turns <= limits.turns
    assert limits.tool_calls is None or calls <= limits.tool_calls
    assert limits.tokens is None or tokens <= limits.tokens
    assert limits.cost_usd is None or dollars <= Decimal(str(limits.cost_usd)) + Decimal("0.000001")
