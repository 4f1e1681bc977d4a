from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.providers.surrogates import mended, mended_json

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)


@given(ANY_TEXT)
def test_mended_text_can_be_encoded_and_whole_text_stays(text: str) -> None:
    mended(text).encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert mended(text) == text


def test_two_halves_that_meet_are_one_character() -> None:
    assert mended("\ud83d\ude00 \ud83d") == "😀 \ufffd"


@given(ANY_TEXT, st.booleans())
def test_mended_json_says_the_same_but_for_halves(text: str, escaped: bool) -> None:
    said = json.loads(mended_json(json.dumps([text], ensure_ascii=escaped)))
    said[0].encode()
    assert said == [mended(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'"\\ud83d"', r'"\\ud83d"'),
        (r'"\\\ud83d"', r'"\\\ufffd"'),
        (r'"\uD83D\uDE00"', r'"\uD83D\uDE00"'),
        (r'"\ude00\ud83d"', r'"\ufffd\ufffd"'),
        (r'"\n"', r'"\n"'),
    ],
)
def test_escapes_are_read_as_escapes(text: str, expected: str) -> None:
    assert mended_json(text) == expected
