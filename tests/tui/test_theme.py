"""Colours and signs: which theme a terminal gets, and that every name means something everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from prompt_toolkit.styles import Style as ToolkitStyle
from rich.style import Style

import treadle.tui
from treadle.tui import theme as themes
from treadle.tui.palettes import ASCII, STYLES, UNICODE
from treadle.tui.theme import Theme, theme_of, toolkit_style

XTERM = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("setting", "environ", "expected"),
    [
        ("auto", XTERM, Theme("dark", 8)),
        ("auto", {**XTERM, "COLORTERM": "truecolor"}, Theme("dark", 24)),
        ("auto", {"TERM": "xterm"}, Theme("dark", 4)),
        ("auto", {"TERM": "xterm-direct"}, Theme("dark", 24)),
        ("auto", {**XTERM, "COLORFGBG": "0;15"}, Theme("light", 8)),
        ("auto", {**XTERM, "COLORFGBG": "15;default;0"}, Theme("dark", 8)),
        ("auto", {**XTERM, "COLORFGBG": "0;default"}, Theme("dark", 8)),
        ("light", XTERM, Theme("light", 8)),
        ("dark", {**XTERM, "COLORFGBG": "0;15"}, Theme("dark", 8)),
        ("none", XTERM, Theme("none", 1)),
        ("dark", {**XTERM, "NO_COLOR": "1"}, Theme("none", 1)),
        ("auto", {**XTERM, "NO_COLOR": ""}, Theme("dark", 8)),
        ("auto", {**XTERM, "NO_COLOR": "1", "FORCE_COLOR": "3"}, Theme("none", 1)),
        ("auto", {"TERM": "dumb"}, Theme("none", 1, attributes=False)),
        ("light", {"TERM": "dumb"}, Theme("none", 1, attributes=False)),
        ("auto", {}, Theme("none", 1, attributes=False)),
        ("auto", {"TERM": "vt100"}, Theme("none", 1)),
        ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, Theme("dark", 4)),
        ("auto", {"TERM": "xterm", "FORCE_COLOR": "3"}, Theme("dark", 24)),
        ("auto", {**XTERM, "FORCE_COLOR": "1"}, Theme("dark", 8)),
        ("auto", {**XTERM, "FORCE_COLOR": "0"}, Theme("none", 1)),
    ],
)
def test_a_terminal_gets_what_it_can_show_and_a_person_what_he_asked_for(
    setting: themes.Setting, environ: dict[str, str], expected: Theme
) -> None:
    assert theme_of(setting, environ, "utf-8") == expected


def test_no_unicode_where_the_encoding_has_none() -> None:
    assert [
        theme_of("auto", XTERM, encoding).glyphs
        for encoding in ("UTF-8", "utf8", "ANSI_X3.4-1968", "iso-8859-1", None)
    ] == [
        UNICODE,
        UNICODE,
        ASCII,
        ASCII,
        ASCII,
    ]


def test_signs_in_ascii_are_ascii_and_as_many() -> None:
    for field in fields(ASCII):
        value = getattr(ASCII, field.name)
        assert "".join(value).isascii()
        assert type(value) is type(getattr(UNICODE, field.name))


@pytest.mark.parametrize(
    "theme",
    [Theme(name, depth) for name, depth in (("dark", 24), ("light", 4), ("none", 1))],
    ids=lambda theme: theme.name,
)
def test_every_style_is_one_for_rich_and_for_prompt_toolkit(theme: Theme) -> None:
    toolkit = ToolkitStyle.from_dict(theme.toolkit_styles())
    for name in STYLES:
        ours, theirs = (
            Style.parse(theme.rich(name)),
            toolkit.get_attrs_for_style_str(theme.toolkit(name)),
        )
        assert [bool(ours.bold), bool(ours.reverse), bool(ours.italic)] == [
            theirs.bold,
            theirs.reverse,
            theirs.italic,
        ]
        assert (ours.color is None, ours.bgcolor is None) == (not theirs.color, not theirs.bgcolor)
        assert theme.name != "none" or (ours.color is None and ours.bgcolor is None)


def test_colours_have_the_same_names_where_they_have_others() -> None:
    assert toolkit_style("bold white on bright_white") == "bold fg:ansigray bg:ansiwhite"
    assert toolkit_style("#102030 on bright_black") == "fg:#102030 bg:ansibrightblack"


def test_a_dumb_terminal_gets_no_attributes_either() -> None:
    dumb = Theme("none", 1, attributes=False)
    assert {dumb.rich(name) for name in STYLES} == {dumb.toolkit(name) for name in STYLES} == {""}


def test_every_name_that_the_code_uses_exists() -> None:
    code = "\n".join(path.read_text() for path in Path(treadle.tui.__path__[0]).rglob("*.py"))
    used = set(re.findall(r"""\b(?:_?style|toolkit|rich)\("([a-z.0-9]+)"\)""", code))
    assert len(used) > 15
    assert used - STYLES == set()
    signs = set(re.findall(r"glyphs\.([a-z_]+)", code))
    assert {name for name in signs if not hasattr(UNICODE, name)} == set()


def test_choosing_a_theme_brings_no_library() -> None:
    check = "import sys; import treadle.tui.theme; print(sorted({'rich', 'prompt_toolkit', 'pygments', 'markdown_it'} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", check], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
