from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.cli.terminal import columns, cut, lasting, size, tokens, wrapped

TEXTS = st.text(alphabet="ab 日é\u200d\U0001f469\n\t", max_size=80)


@given(TEXTS, st.integers(2, 30))
def test_no_line_is_wider_than_asked_for_and_no_word_is_lost(text: str, most: int) -> None:
    lines = wrapped(text, most)
    assert all(columns(line) <= most for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(TEXTS, st.integers(2, 30))
def test_what_is_cut_fits(text: str, most: int) -> None:
    shown = cut(text, most)
    assert columns(shown) <= most
    assert shown == text or shown.endswith("…")


def test_lines_are_broken_between_words_and_keep_their_indentation() -> None:
    assert wrapped("  one two three", 9) == ["  one two", "three"]
    assert wrapped("✓ one two", 6) == ["✓ one", "two"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.9991, "999 ms"), (0.9996, "1.0 s"), (59.94, "59.9 s"), (59.96, "1:00 min"), (3599, "59:59 min"), (3600, "1:00 h"), (90_000, "1.0 days")],
)
def test_spans_of_time_have_one_form(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


@given(st.integers(0, 10**9))
def test_tokens_stay_narrow(number: int) -> None:
    assert len(tokens(number)) <= 7


def test_sizes_are_said_in_the_unit_that_fits() -> None:
    assert [size(999), size(12_340), size(5_000_000), size(7_100_000_000)] == ["999 bytes", "12.3 kB", "5.0 MB", "7.1 GB"]
