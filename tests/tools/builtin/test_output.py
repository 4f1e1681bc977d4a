"""Output is capped with its head and tail, and the whole is kept."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tools import truncate as output
from treadle.tools.plain_text import plain_text
from treadle.tools.spill import Spill
from treadle.tools.tool import MAX_LINE_CHARS, MAX_OUTPUT_LINES
from treadle.tools.truncate import Capture, cap_output


def nowhere(text: str) -> Path:
    """A file that takes everything."""
    return Path(os.devnull)


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def test_text_that_fits_is_given_as_it_is(spill: Spill) -> None:
    text = "one\ntwo\n"
    assert cap_output(text, spill=spill.write) is text
    assert not [*spill.directory().glob("output-*")]


@pytest.mark.parametrize("text", ["a" * 2_000, "a\n" * 2_000, "\n".join(["b" * 1_000] * 29), ""])
def test_the_limits_themselves_still_fit(text: str) -> None:
    assert cap_output(text, spill=nowhere) == text


def test_a_long_text_keeps_head_and_tail_and_names_the_file_with_the_whole(spill: Spill) -> None:
    text = "".join(f"line {i}\n" for i in range(10_000))
    shown = cap_output(text, spill=spill.write)
    assert len(shown) <= 30_000
    assert shown.startswith("line 0\nline 1\n")
    assert shown.endswith("line 9998\nline 9999\n")
    (file,) = spill.directory().glob("output-*")
    assert str(file) in shown
    assert file.read_text() == text


def test_the_line_in_the_middle_says_how_much_is_missing() -> None:
    shown = lines_of(cap_output("".join(f"{i}\n" for i in range(3_000)), spill=nowhere))
    at = next(i for i, line in enumerate(shown) if line.startswith("[left out here"))
    missing = int(shown[at + 1]) - int(shown[at - 1]) - 1
    assert shown[at].startswith(f"[left out here: {missing:,} lines,")
    assert len(shown) <= MAX_OUTPUT_LINES


def test_one_endless_line_keeps_its_start_and_its_end() -> None:
    shown = cap_output("start" + "x" * 1_000_000 + "end", spill=nowhere)
    assert shown.startswith("startxxx")
    assert shown.endswith("xxxend")
    assert len(shown) <= 30_000
    assert max(map(len, lines_of(shown))) <= MAX_LINE_CHARS


def test_long_lines_are_cut_even_where_everything_else_fits() -> None:
    shown = cap_output("first\n" + "y" * 5_000 + "\nlast\n", spill=nowhere)
    first, cut, last, note = lines_of(shown)
    assert (first, last) == ("first", "last")
    assert cut.startswith("yyy")
    assert cut.endswith("yyy")
    assert "characters left out" in cut
    assert os.devnull in note


@given(
    text=st.text(alphabet=st.sampled_from("ab\nż😀"), max_size=400).map(lambda t: t * 40),
    max_chars=st.integers(1, 4_000),
)
def test_a_capped_text_never_exceeds_its_cap(text: str, max_chars: int) -> None:
    shown = cap_output(text, max_chars=max_chars, spill=nowhere)
    assert len(shown) <= max_chars
    assert len(lines_of(shown)) <= MAX_OUTPUT_LINES
    assert max(map(len, lines_of(shown))) <= max(
        MAX_LINE_CHARS, max_chars if len(text) <= max_chars else 0
    )
    if len(text) > max_chars >= 600:
        assert shown[:20] == text[:20]
        assert shown[-20:] == text[-20:]


@given(lines=st.lists(st.integers(0, 6_000), max_size=40))
def test_head_and_tail_never_overlap(lines: list[int]) -> None:
    text = "".join(f"{i}:{'z' * length}\n" for i, length in enumerate(lines))
    shown = cap_output(text, max_chars=20_000, spill=nowhere)
    numbers = [int(line.partition(":")[0]) for line in lines_of(shown) if line[:1].isdigit()]
    assert numbers == sorted(set(numbers))


def test_a_text_that_cannot_be_kept_is_shown_all_the_same() -> None:
    def full(text: str) -> Path:
        raise OSError(28, "No space left on device")

    shown = cap_output("x\n" * 20_000, spill=full)
    assert shown.startswith("x\nx\n")
    assert "the whole could not be kept: No space left on device" in shown


# ---------------------------------------------------------------- the file


def test_a_spilled_file_is_bounded_and_says_where_it_stops(
    spill: Spill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_SPILL_BYTES", 100_000)
    with Capture(spill.write) as capture:
        for _ in range(100):
            capture.feed(b"0123456789\n" * 1_000)
        shown = capture.text()
    (file,) = spill.directory().glob("output-*")
    assert "its first 0 MiB are in" in shown
    assert file.stat().st_size < 100_000 + 200
    assert "this file stops here" in file.read_text()[-200:]


# ---------------------------------------------------------------- capture


def captured(
    data: bytes, cuts: list[int], spill: Callable[[str], Path] = nowhere, **limits: int
) -> str:
    with Capture(spill, **limits) as capture:
        for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True):
            capture.feed(data[a:b])
        return capture.text()


PIECES = st.sampled_from(
    [
        b"a",
        b"word ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\x1b[31m",
        b"\x1b",
        b"[",
        b"\x1b]0;title\x07",
        b"\x1b]0;t\x1b\\",
        b"\x1b]",
        b"\x1b(B",
        b"\x00",
        b"\x07",
        b"\x9b",
        b"\xff",
        *["ż".encode(), "😀".encode(), b"\xf0\x9f", b"q" * 2_500, b"r" * 5_000, b"\n" * 50],
    ]
)


@given(pieces=st.lists(PIECES, max_size=60), data=st.data())
def test_any_cut_of_the_bytes_gives_what_capping_the_whole_gives(
    pieces: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    with_spill = captured(whole, cuts, max_chars=4_000)
    assert with_spill == cap_output(
        plain_text(whole.decode("utf-8", "replace")), max_chars=4_000, spill=nowhere
    )


def test_a_capture_spills_the_whole_of_what_it_was_fed(spill: Spill) -> None:
    data = b"".join(b"%d some words\n" % i for i in range(20_000))
    shown = captured(data, [*range(0, len(data), 4_096)], spill.write)
    (file,) = spill.directory().glob("output-*")
    assert file.read_bytes() == data
    assert str(file) in shown


def test_memory_stays_flat_whatever_comes(spill: Spill) -> None:
    piece = b"0123456789abcde\n" * 4_096
    pieces = 16 * 40
    tracemalloc.start()
    try:
        with Capture(spill.write) as capture:
            for _ in range(pieces):
                capture.feed(piece)
            shown = capture.text()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Threads of other tests may allocate a few megabytes meanwhile.
    assert peak < pieces * len(piece) / 2
    assert len(shown) <= 30_000


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1bPdata\x1b\\after", "after"),
        (b"\x1b(Bafter\x1b7", "after"),
        (b"\x1b]never closed", "]never closed"),
        (b"a\x00b\x07c\x7fd", "abcd"),
        (b"tab\tand\r\nbreak", "tab\tand\nbreak"),
        (b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        (b"10%\r50%\r", "50%"),
        (b"\xffinvalid\xc3", "\ufffdinvalid\ufffd"),
        ("zażółć 😀".encode(), "zażółć 😀"),
    ],
)
def test_terminal_output_becomes_plain_text(data: bytes, text: str) -> None:
    assert captured(data, []) == text
    assert captured(data, [*range(len(data))]) == text


def test_an_escape_that_never_ends_swallows_nothing() -> None:
    assert captured(b"\x1b]" + b"x" * 10_000, []).count("x") > 1_900


def test_the_newest_line_is_known_while_output_comes() -> None:
    with Capture(nowhere) as capture:
        capture.feed(b"one\ntwo")
        assert capture.last_line == "two"
        capture.feed(b"\nthree\n\n")
        assert capture.last_line == "three"
        capture.feed(b"10%\r20%")
        assert capture.last_line == "20%"


def test_the_spill_is_not_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("")

    def linked(text: str) -> Path:
        link = tmp_path / "link"
        os.symlink(target, link)
        return link

    assert "could not be kept" in captured(b"x\n" * 40_000, [40_000], linked)
    assert target.read_text() == ""
