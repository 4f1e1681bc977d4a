"""Markdown that is given away while it grows: what is finished depends on the text alone, and the
rest stays small.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tui import growing
from treadle.tui.containers import Within
from treadle.tui.drawing import Drawing
from treadle.tui.growing import (
    CODE_LINES,
    DEPTH_MAX,
    LINE_CHARS,
    TAIL_CHARS,
    TAIL_LINES,
    Growing,
    SourcePiece,
)
from treadle.tui.markdown import drawn
from treadle.tui.theme import Theme

LINES = (
    "",
    "",
    " ",
    "words",
    "more words, **bold**",
    "# head",
    "===",
    "---",
    "- item",
    "  - nested",
    "    deep",
    "1. one",
    "1. again",
    "   within",
    "* star",
    "```",
    "```python",
    "   ```",
    "~~~",
    "> quote",
    "> > twice",
    ">",
    "> - in it",
    "| a | b |",
    "|---|---|",
    "| 1 | 2 |",
    "\tcode",
    "[x]: http://a",
    "<div>",
    "a\r",
    "nul\0",
    "- ```",
    "10) ten",
    "x" * 2000,
    "Sentence. " * 300,
)
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(LINES), max_size=60).map("\n".join),
    st.text("-*>#`|~ \n\t1.ab[]()_\\", max_size=300),
)


def pieces(text: str, *cuts: int) -> list[SourcePiece]:
    growing = Growing()
    given: list[SourcePiece] = []
    for begin, end in pairwise([0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]):
        given += growing.feed(text[begin:end])
    return given + growing.finish()


@given(TEXTS, st.lists(st.integers(0, 3000), max_size=30))
def test_any_cut_gives_the_same_pieces_and_they_are_the_text(text: str, cuts: list[int]) -> None:
    at_once, in_deltas = pieces(text), pieces(text, *cuts)
    assert "".join(in_deltas) == text
    assert [(str(piece), piece.within) for piece in in_deltas] == [
        (str(piece), piece.within) for piece in at_once
    ]
    assert all(in_deltas)


@given(TEXTS)
def test_the_tail_and_every_piece_are_bounded(text: str) -> None:
    growing = Growing()
    given: list[SourcePiece] = []
    for begin in range(0, len(text), 40):
        given += growing.feed(text[begin : begin + 40])
        assert growing.tail.count("\n") < TAIL_LINES
        assert len(growing.tail) < TAIL_CHARS + LINE_CHARS
        assert "".join(given) + growing.tail == text[: begin + 40]
    assert all(len(piece) < TAIL_CHARS + LINE_CHARS for piece in [*given, *growing.finish()])
    assert growing.finish() == []


BLOCKS = (
    "# Head\n",
    "## Head\nwords under it\n",
    "Some words\nin two lines\n",
    "Words:\n- a\n- b\n",
    "- a\n- b\n  - c\n  - d\n- e\n",
    "1. a\n1. b\n1. c\n",
    "- a\n\n- b\n\n  para\n",
    "4. d\n   - x\n5. e\n",
    "```python\nx = 1\n\ny = 2\n```\n",
    "> quote\n> - list\n>\n> more\n",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n",
    "---\n",
    "1. Run:\n   ```sh\n   make\n   ```\n2. Done.\n",
    "    code\n\n    more\n",
    "- [ ] open\n- [x] done\n",
    "<b>not html</b>\n",
    "***\n",
    "Setext\n===\n",
    "> ```\n> x\n> ```\n",
    "10) ten\n10) eleven\n",
)


@given(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=6), st.sampled_from([100, 30]))
def test_pieces_drawn_one_after_the_other_look_like_the_whole(
    blocks: list[str], width: int
) -> None:
    text, drawing = "\n".join(blocks), Drawing(width, Theme("none", 1))
    assert "".join(drawing.ansi(drawn(piece, drawing)) for piece in pieces(text)) == drawing.ansi(
        drawn(text, drawing)
    )


@pytest.mark.parametrize(
    "text",
    [
        "```python\n" + "".join(f"x = {n}\n" for n in range(50)) + "```\n",
        "1. Run:\n   ```\n"
        + "".join(f"   line {n}\n" for n in range(50))
        + "   ```\n1. next\n1. last\n",
        "- a\n" + "".join(f"  - nested {n}\n" for n in range(100)) + "- b\n",
        "> ```\n" + "".join(f"> line {n}\n" for n in range(50)) + "> ```\n\nend\n",
        "| a | b |\n|---|---|\n" + "".join(f"| {n:03} | x |\n" for n in range(200)) + "\nend\n",
        "".join(f"> line {n}\n" for n in range(100)),
        "".join(f"line {n}\n" for n in range(100)),
    ],
    ids=["code", "code in a list", "a long item", "code in a quote", "table", "quote", "paragraph"],
)
def test_what_has_to_be_given_in_pieces_looks_as_if_it_were_whole(text: str) -> None:
    drawing = Drawing(60, Theme("none", 1))
    assert len(pieces(text)) > 2
    assert "".join(drawing.ansi(drawn(piece, drawing)) for piece in pieces(text)) == drawing.ansi(
        drawn(text, drawing)
    )


def test_an_open_code_block_gives_its_lines_away_and_each_piece_knows_that_it_goes_on() -> None:
    growing = Growing()
    first, second = growing.feed("```py\n" + "x\n" * (2 * CODE_LINES))
    assert (first.within.fence, second.within.fence, growing.tail) == ("", "```py\n", "x\n")
    assert growing.tail.within == Within(fence="```py\n")


def test_a_list_is_given_away_item_by_item_with_its_numbers() -> None:
    given = pieces("3. a\n3. b\n\n3. c\n")
    assert [(str(piece), piece.within.number, piece.within.gap) for piece in given] == [
        ("3. a\n", None, False),
        ("3. b\n\n", 4, False),
        ("3. c\n", 5, True),
    ]


def test_code_in_a_list_is_given_away_in_pieces_too() -> None:
    growing = Growing()
    growing.feed("1. Run:\n   ```sh\n" + "   make\n" * 30)
    assert growing.tail.count("\n") < CODE_LINES
    assert growing.tail.within == Within(containers=(3,), fence="```sh\n")


def test_an_item_of_one_long_line_goes_on_as_an_item() -> None:
    drawing = Drawing(60, Theme("none", 1, attributes=False))
    given = pieces("1. " + "Some words. " * 400 + "\n1. next")
    assert [(piece.within.containers, piece.within.midline) for piece in given[1:3]] == [
        ((3,), True),
        ((3,), True),
    ]
    lines = "".join(drawing.ansi(drawn(piece, drawing)) for piece in given).splitlines()
    assert {line[:3] for line in lines[1:-1]} == {"   "}
    assert lines[-1] == "2. next"


def test_what_is_open_is_no_deeper_than_markdown_goes() -> None:
    assert max(len(piece.within.containers) for piece in pieces("> " * 10_000)) == DEPTH_MAX


def test_a_long_line_is_cut_at_a_sentence_where_no_code_is_open() -> None:
    text = "A word. " * 150 + "`code. " + "and. " * 30 + "` end. " + "x" * 2000
    first = pieces(text)[0]
    assert len(first) <= LINE_CHARS
    assert first.count("`") % 2 == 0
    assert first.endswith(". ")


def test_a_paragraph_is_given_away_with_the_empty_line_after_it_and_not_before() -> None:
    growing = Growing()
    assert growing.feed("words\n") == []
    assert growing.feed("===") == []
    assert growing.feed("\nmore\n\n") == ["words\n===\n", "more\n\n"]
    assert growing.tail == ""


def test_finished_text_is_never_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured in characters: ten thousand deltas cost as much each as the first hundred."""
    parser = growing._parser()
    parsed: list[int] = []
    parse = parser.parse
    monkeypatch.setattr(
        parser, "parse", lambda text, env=None: (parsed.append(len(text)), parse(text, env))[1]
    )
    message, deltas = Growing(), 10_000
    paragraph = "Some words of a line\nand another one.\n\n- item\n- item\n\n```py\nx = 1\n```\n\n"
    for n in range(deltas):
        message.feed(paragraph[n % len(paragraph)])
    assert sum(parsed) < 4 * deltas
    assert max(parsed) <= len(paragraph)
