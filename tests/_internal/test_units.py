from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.units import ago, count, lasting, money, size, tokens


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.9991, "999 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1:00 min"),
        (3599, "59:59 min"),
        (3600, "1:00 h"),
        (90_000, "1.0 days"),
    ],
)
def test_spans_of_time_have_one_form(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


@given(st.integers(0, 10**9))
def test_tokens_stay_narrow(number: int) -> None:
    assert len(tokens(number)) <= 7


def test_sizes_are_said_in_the_unit_that_fits() -> None:
    assert [size(999), size(12_340), size(5_000_000), size(7_100_000_000)] == [
        "999 bytes",
        "12.3 kB",
        "5.0 MB",
        "7.1 GB",
    ]


def test_one_is_not_many() -> None:
    assert [count(0, "turn"), count(1, "turn"), count(1200, "turn")] == [
        "0 turns",
        "1 turn",
        "1,200 turns",
    ]


def test_money_is_said_as_fine_as_it_is() -> None:
    assert [money(0), money(0.00001), money(0.0042), money(0.42), money(12.3)] == [
        "$0.00",
        "<$0.0001",
        "$0.0042",
        "$0.42",
        "$12.30",
    ]
    assert [money(None), money(0.42, more=True)] == ["unknown", "$0.42 + unknown"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s"), (59, "59 s"), (90, "2 min"), (7200, "2 h"), (200_000, "2 d")]
)
def test_how_long_ago_is_one_number(seconds: float, text: str) -> None:
    now = datetime(2026, 11, 20, tzinfo=UTC)
    assert ago(now - timedelta(seconds=seconds), now) == text
