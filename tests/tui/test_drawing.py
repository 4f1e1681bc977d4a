"""One layout in two forms: text for the scrollback and fragments for prompt_toolkit, never too
wide, and harmless.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from rich.cells import cell_len
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from treadle.tui import differences, markdown
from treadle.tui.drawing import Drawing
from treadle.tui.theme import Theme

THEMES = (
    Theme("dark", 24),
    Theme("light", 8),
    Theme("dark", 4),
    Theme("none", 1),
    Theme("none", 1, False, "ascii"),
)
SGR = re.compile(r"\x1b\[[0-9;]*m")
ODD = "aあ👩\u200d👩\u200d👧e\u0301❤\ufe0fक्षि🇩🇪\t \x1b[31m\x07\u202e\x9b|`*_[]()#>-1.\n"
SOURCES = st.one_of(
    st.text(),
    st.text(ODD, max_size=200),
    st.lists(
        st.sampled_from(
            ["| a | あ |", "|--|--|", "- x", "  - あ👩\u200d👧" * 9, "> q", "```", "w" * 90, ""]
        )
    ).map("\n".join),
)


def columns(line: str) -> int:
    return max(cell_len(line), sum(map(cell_len, line)))


@given(SOURCES, st.integers(20, 120), st.sampled_from(THEMES))
def test_nothing_drawn_is_wider_than_the_width_or_more_than_colours(
    source: str, width: int, theme: Theme
) -> None:
    drawing = Drawing(width, theme)
    for renderable in (
        markdown.drawn(source, drawing),
        Text(source),
        differences.drawn("a.py", source, source[::-1], drawing),
    ):
        text = drawing.ansi(renderable)
        lines = SGR.sub("", text).split("\n")
        assert lines.pop() == ""
        assert max(map(columns, lines), default=0) <= width
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", "".join(lines))
        assert theme.encoding != "ascii" or text.isascii()
        assert theme.attributes or "\x1b" not in text
        assert ["".join(text for _, text in line) for line in drawing.lines(renderable)] == lines


@given(SOURCES, st.integers(1, 19))
def test_no_width_is_too_small_to_draw_something(source: str, width: int) -> None:
    drawing = Drawing(width, THEMES[0])
    for renderable in (
        markdown.drawn(source, drawing),
        differences.drawn("a.py", source, source[::-1], drawing),
    ):
        assert all(
            cell_len(line) <= max(width, 2)
            for line in SGR.sub("", drawing.ansi(renderable)).split("\n")
        )


def test_lines_end_where_their_words_end_and_colours_end_with_them() -> None:
    drawing = Drawing(40, THEMES[0])
    assert (
        drawing.ansi(Padding(Text("words  ", "bold"), (0, 4, 1, 2))) == "  \x1b[1mwords\x1b[0m\n\n"
    )
    assert (
        drawing.ansi(Text("a\nb", drawing.style("error")))
        == "\x1b[1;91ma\x1b[0m\n\x1b[1;91mb\x1b[0m\n"
    )
    assert drawing.ansi(Text("x  ", "reverse")) == "\x1b[7mx  \x1b[0m\n"
    assert drawing.ansi(Text("")) == "\n"


@pytest.mark.parametrize(
    ("depth", "code"), [(24, "38;2;95;135;255"), (8, "38;5;69"), (4, "94"), (1, "")]
)
def test_colours_are_those_that_the_terminal_has(depth: int, code: str) -> None:
    theme = Theme("dark", depth)  # pyright: ignore[reportArgumentType]  one of those four
    text = Drawing(40, theme).ansi(Text("x", "#5f87ff"))
    assert text == (f"\x1b[{code}mx\x1b[0m\n" if code else "x\n")


def test_both_forms_have_the_same_colours() -> None:
    for theme in THEMES[2:4]:
        drawing = Drawing(60, theme)
        source = markdown.drawn(
            "# Head\n**bold** `code` [link](http://a)\n\n1. *x*\n\n```python\ndef f(): return 'a'\n```",
            drawing,
        )
        ansi = to_formatted_text(ANSI(drawing.ansi(source)))
        for (style, text), (spelled, same) in zip(
            (cell for cell in ansi if cell[1] != "\n"), cells(drawing, source), strict=True
        ):
            assert text == same
            assert attributes(style) == attributes(spelled)


def cells(drawing: Drawing, source: markdown.Markdown) -> list[tuple[str, str]]:
    return [
        (style, character)
        for line in drawing.lines(source)
        for style, text in line
        for character in text
    ]


def attributes(style: str) -> set[str]:
    return {word.removeprefix("fg:") for word in style.split()}


def test_what_the_terminal_cannot_encode_is_as_wide_as_it_was() -> None:
    drawing = Drawing(40, Theme("none", 1, False, "ascii"))
    assert drawing.ansi(Text("“a” \u2014 b… あe\u0301é|")) == '"a" - b~ ??e?|\n'
    assert Drawing(40, Theme("none", 1, False, "latin-1")).ansi(Text("é あ")) == "é ??\n"


def test_links_lead_nowhere_and_escapes_do_nothing() -> None:
    drawing = Drawing(60, THEMES[0])
    assert "\x1b]8" not in drawing.ansi(Text("x", Style(link="http://a")))
    hostile = "a\x1b]0;title\x07b \x1b[2Jc \x9b31md \x1bP+q\x1b\\e \u202ef [x](http://a\x1b[31m)"
    for renderable in (
        Text(hostile),
        markdown.drawn(hostile, drawing),
        differences.drawn("x", "", hostile, drawing),
    ):
        assert not re.search(
            r"[\x00-\x09\x0b-\x1f\x80-\x9f\u202e]", SGR.sub("", drawing.ansi(renderable))
        )
    assert drawing.ansi(markdown.drawn(hostile, drawing)).startswith("ab c d")


def test_what_rich_makes_too_wide_is_cut_and_nothing_is_lost() -> None:
    drawing = Drawing(20, THEMES[3])
    family = "👩\u200d👩\u200d👧" * 8
    text = drawing.ansi(Text(family))
    assert text.replace("\n", "") == family
    assert all(columns(line) <= 20 for line in text.split("\n"))


def test_any_renderable_may_use_the_names_of_our_styles() -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("a", "error"), Text("b", "mode.safe"))
    assert Drawing(40, Theme("dark", 4)).ansi(table) == "\x1b[1;91ma\x1b[0m  \x1b[32mb\x1b[0m\n"


def test_a_style_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(KeyError):
        Drawing(40, THEMES[0]).style("eror")
