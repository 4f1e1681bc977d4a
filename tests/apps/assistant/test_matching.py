"""What holds for whatever people call their tasks, and however they misspell it."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from treadle.apps.assistant.matching import distance, folded, holding, meant

WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=10)
TEXT = st.text(max_size=30)
TITLES = st.lists(TEXT, max_size=8)


@given(TITLES, TEXT)
def test_every_place_is_of_a_title_and_comes_once_and_in_order(titles: list[str], query: str):
    for found in (meant(query, titles), holding(query, titles)):
        assert found == sorted(set(found))
        assert all(0 <= at < len(titles) for at in found)


@given(TITLES, st.integers(0, 7))
def test_a_title_finds_itself_and_those_that_are_the_same(titles: list[str], at: int):
    if at < len(titles) and 0 < len(folded(titles[at])) <= 20:
        assert meant(titles[at], titles) == [
            i for i, title in enumerate(titles) if folded(title) == folded(titles[at])
        ]


@given(TEXT)
def test_case_width_and_outer_spaces_do_not_matter(text: str):
    for other in (f"  {text} ", unicodedata.normalize("NFKC", text), text.casefold()):
        assert folded(other) == folded(text) or not any(c.isalnum() for c in text)


@given(st.lists(WORD, min_size=1, max_size=4), st.data())
def test_the_beginnings_of_some_words_in_any_order_find_it(words: list[str], data: st.DataObject):
    wanted = data.draw(st.lists(st.sampled_from(words), min_size=1))
    pieces = [word[: data.draw(st.integers(1, len(word)))] for word in wanted]
    assert 0 in holding(" ".join(pieces), [" ".join(words)])


@given(WORD, st.data())
def test_one_slip_in_a_word_is_forgiven(word: str, data: st.DataObject):
    at, letter = (
        data.draw(st.integers(0, len(word) - 1)),
        data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz")),
    )
    swapped = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    for slip in (
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at + 1 :],
        word[:at] + letter + word[at:],
        swapped,
    ):
        assert meant(slip, [f"{word} 0000"]) == [0], slip


@given(st.text("abcd", min_size=1, max_size=3), st.text("wxyz", min_size=1, max_size=9))
def test_a_word_that_has_nothing_in_common_is_not_found(word: str, other: str):
    assert meant(word, [other]) == []


def slow_distance(one: str, other: str) -> int:
    """As a textbook has it (optimal string alignment)."""
    rows = [
        [i + j if 0 in (i, j) else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)
    ]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            rows[i][j] = min(
                rows[i - 1][j] + 1,
                rows[i][j - 1] + 1,
                rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]),
            )
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(st.text("abc", max_size=9), st.text("abc", max_size=9), st.integers(1, 2))
def test_letters_that_are_wrong_are_counted_as_in_a_textbook(one: str, other: str, most: int):
    assert distance(one, other, most) == min(slow_distance(one, other), most + 1)


def test_a_list_that_is_made_to_be_slow_is_looked_through_in_time():
    """Each of these took minutes."""
    letters = str.maketrans("0123456789", "bcdefghijk")
    alike = ["a" * 194 + f"{number:06}".translate(letters) for number in range(2000)]
    assert meant("a" * 194 + "zzzzzz", alike) == []
    others = [
        " ".join("aaa" + chr(0x4E00 + at * 40 + word) for word in range(40)) for at in range(500)
    ]
    assert meant(" ".join("aaa" + chr(0x400 + word) for word in range(20)), others) == []
