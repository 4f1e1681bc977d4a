"""What runs have cost in sum: rows, their order, and what has no price."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.budget.costs import By, Cost, RunCost, Tally
from treadle.budget.spending import Spending
from treadle.types import Usage

AT = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)


def part(
    day: int, model: str, cost_usd: float | None, *, responses: int = 1, unpriced: int | None = None
) -> Spending:
    return Spending(
        model=model,
        day=f"2026-11-{day}",
        responses=responses,
        unpriced=(responses if cost_usd is None else 0) if unpriced is None else unpriced,
        usage=Usage(input_tokens=10 * responses, output_tokens=responses),
        cost_usd=cost_usd,
    )


def run(
    run_id: str,
    *parts: Spending,
    session: str | None = None,
    parent: str | None = None,
    **more: Any,
) -> RunCost:
    return RunCost(
        run_id=run_id,
        session_id=session,
        parent_run_id=parent,
        model="m",
        started_at=AT,
        spending=parts,
        **more,
    )


RUNS = (
    run("a", part(18, "big", 2.0), part(19, "big", 1.0), part(19, "small", 0.25), session="ada"),
    run("b", part(19, "local", None, responses=3), session="bob"),
    run("c", part(20, "small", 0.5), parent="a"),
    run("d", part(20, "small", 0.125)),
)


def rows(by: By, *, since: date | None = None) -> list[tuple[str | None, int, int, float | None]]:
    tally = Tally(by, since=since)
    for each in RUNS:
        tally.add(each)
    return [(row.key, row.runs, row.responses, row.cost_usd) for row in tally.costs().rows]


def test_days_come_with_the_newest_first() -> None:
    assert rows("day") == [
        ("2026-11-20", 2, 2, 0.625),
        ("2026-11-19", 2, 5, 1.25),
        ("2026-11-18", 1, 1, 2.0),
    ]


def test_models_come_with_the_dearest_first_and_those_without_a_price_last() -> None:
    assert rows("model") == [("big", 1, 2, 3.0), ("small", 3, 3, 0.875), ("local", 1, 3, None)]


def test_what_a_tool_of_a_run_started_counts_for_its_session() -> None:
    assert rows("session") == [("ada", 2, 4, 3.75), (None, 1, 1, 0.125), ("bob", 1, 3, None)]


def test_only_the_days_that_are_asked_for_count() -> None:
    assert rows("session", since=date(2026, 11, 20)) == [("ada", 1, 1, 0.5), (None, 1, 1, 0.125)]


def test_a_run_whose_end_an_older_version_wrote_counts_on_the_day_on_which_it_began() -> None:
    tally = Tally("day")
    tally.add(run("old", turns=2, usage=Usage(input_tokens=7)))
    tally.add(run("nothing"))
    (row,) = tally.costs().rows
    assert row == Cost(
        key="2026-11-20",
        runs=1,
        responses=2,
        unpriced=2,
        usage=Usage(input_tokens=7),
        cost_usd=None,
    )
    assert tally.costs().total == Cost(
        key=None, runs=1, responses=2, unpriced=2, usage=Usage(input_tokens=7), cost_usd=None
    )


parts = st.builds(
    part,
    st.integers(10, 20),
    st.sampled_from(["a", "b"]),
    st.none() | st.floats(0, 10),
    responses=st.integers(1, 5),
)
some_runs = st.lists(
    st.tuples(st.lists(parts, max_size=4), st.sampled_from([None, "ada", "bob"])), max_size=8
)


@given(some_runs)
def test_the_rows_add_up_to_the_total_however_they_are_made(
    given_runs: list[tuple[list[Spending], str | None]],
) -> None:
    by: By
    for by in ("day", "model", "session"):
        tally = Tally(by)
        for n, (each, session) in enumerate(given_runs):
            tally.add(run(f"run_{n}", *each, session=session))
        costs = tally.costs()
        assert sum((row.usage for row in costs.rows), Usage()) == costs.total.usage
        assert sum(row.responses for row in costs.rows) == costs.total.responses
        assert sum(row.unpriced for row in costs.rows) == costs.total.unpriced
        known = [row.cost_usd for row in costs.rows if row.cost_usd is not None]
        assert (costs.total.cost_usd is None) == (not known)
        assert abs(sum(known) - (costs.total.cost_usd or 0)) < 1e-9
        assert costs.total.runs == sum(bool(each) for each, _ in given_runs)
