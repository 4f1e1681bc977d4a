"""Conversion of Rich renderables to ANSI text and prompt_toolkit fragments, always cut to the
width.

All output passes through here, so that no control character reaches the terminal. Colours are in
theme.py. Entry points: `Drawing`.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from rich.cells import cell_len, get_character_cell_size
from rich.color import Color, ColorSystem, ColorType
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme as RichTheme

from treadle._internal.terminal_text import encodable, plain
from treadle.tui.palettes import STYLES
from treadle.tui.theme import Theme, toolkit_style

TAB_COLUMNS: Final = 4
WIDENING: Final = "\ufe0f"
"""Variation selector that turns a character into an emoji, which some terminals draw wider."""
_SYSTEMS: Final = {4: ColorSystem.STANDARD, 8: ColorSystem.EIGHT_BIT, 24: ColorSystem.TRUECOLOR}
_CODES: Final = (
    ("bold", 1),
    ("dim", 2),
    ("italic", 3),
    ("underline", 4),
    ("reverse", 7),
    ("strike", 9),
)
_NAMES: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

Row: TypeAlias = list[tuple[str, Style | None]]
Line: TypeAlias = list[Segment]
"""One row of Rich segments, without its line end."""


class LaidOut(ABC):
    """Renderable that computes its own lines, which is faster than Rich's layout."""

    @abstractmethod
    def laid_out(self, width: int) -> Iterable[Line]:
        """Return the lines, none wider than `width`, which is at least one column."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.laid_out(max(options.max_width, 1)):
            yield from line
            yield Segment.line()


class Drawing:
    """Drawing for one width of at least one column and one theme.

    Cheap to create: expensive state is cached per theme.
    """

    __slots__ = ("_pens", "theme", "width")

    def __init__(self, width: int, theme: Theme) -> None:
        self.width = max(width, 1)
        self.theme = theme
        self._pens = _pens(theme)

    def style(self, name: str) -> Style:
        """Return a style of the theme as a Rich style. Raises KeyError if the name is not in
        `STYLES`.
        """
        return self._pens.named[name]

    @property
    def console(self) -> Console:
        """Console for the layout, with the names of our styles."""
        return self._pens.console

    @property
    def options(self) -> ConsoleOptions:
        return self._pens.options.update(width=self.width)

    def ansi(self, renderable: RenderableType) -> str:
        """Return complete lines with line ends and without trailing blanks; colours end with their
        line.
        """
        out: list[str] = []
        for row in self.rows(renderable):
            for text, style in row:
                code = "" if style is None else self._pens.code(style)
                out.append(f"\x1b[{code}m{text}\x1b[0m" if code else text)
            out.append("\n")
        return "".join(out)

    def lines(self, renderable: RenderableType) -> list[list[tuple[str, str]]]:
        """Return the same lines as prompt_toolkit fragments."""
        spelled = self._pens.spelled
        return [
            [("" if style is None else spelled(style), text) for text, style in row]
            for row in self.rows(renderable)
        ]

    def rows(self, renderable: RenderableType) -> Iterator[Row]:
        """Yield the rows, sanitised and cut to the width."""
        if isinstance(renderable, LaidOut):
            lines: Iterable[Row] = (
                [(text, style) for text, style, _ in line]
                for line in renderable.laid_out(self.width)
            )
        else:
            lines = _split(self._pens.console.render(renderable, self.options))
        for line in lines:
            row = _trimmed(
                [
                    (text if text.isascii() and text.isprintable() else self._clean(text), style)
                    for text, style in line
                ]
            )
            yield from [row] if _columns(row) <= self.width else _folded(row, self.width)

    def _clean(self, text: str) -> str:
        text = plain(text).replace("\n", " ").replace("\t", " " * TAB_COLUMNS)
        return text if self._pens.unicode else encodable(text, self.theme.encoding)


class _Pens:
    """Cache of the escape codes of each style."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self.unicode = theme.unicode
        self.named = {name: Style.parse(theme.rich(name)) for name in STYLES}
        self.console = Console(
            file=io.StringIO(), width=80, height=25, color_system=None, force_terminal=False, legacy_windows=False, markup=False, highlight=False, emoji=False,  # noqa: E501
            theme=RichTheme(dict(self.named)), _environ={},
        )  # fmt: skip
        self.options = self.console.options.update(height=None)
        if not self.unicode:
            self.options.encoding = "ascii"
        self._codes: dict[Style, str] = {}
        self._spelled: dict[Style, str] = {}

    def code(self, style: Style) -> str:
        """Return the code between `ESC [` and `m`.

        Links are omitted; their targets are written out.
        """
        if (code := self._codes.get(style)) is None:
            code = self._codes[style] = (
                ";".join(self._parts(style)) if self._theme.attributes else ""
            )
        return code

    def _parts(self, style: Style) -> Iterator[str]:
        for name, number in _CODES:
            if getattr(style, name):
                yield str(number)
        if (system := _SYSTEMS.get(self._theme.depth)) is not None:
            for colour, foreground in ((style.color, True), (style.bgcolor, False)):
                if colour is not None and not colour.is_default:
                    yield from colour.downgrade(system).get_ansi_codes(foreground)

    def spelled(self, style: Style) -> str:
        if (spelled := self._spelled.get(style)) is None:
            words = (
                [name for name, _ in _CODES if getattr(style, name)]
                if self._theme.attributes
                else []
            )
            if self._theme.depth > 1:
                words += [
                    colour
                    for colour in (_named(style.color), "on", _named(style.bgcolor))
                    if colour
                ]
            spelled = self._spelled[style] = toolkit_style(" ".join(words))
        return spelled


@lru_cache(maxsize=8)
def _pens(theme: Theme) -> _Pens:
    return _Pens(theme)


def _named(colour: Color | None) -> str:
    """Return the colour in the spelling of theme.py."""
    if colour is None or colour.is_default:
        return ""
    if (
        colour.type in (ColorType.STANDARD, ColorType.EIGHT_BIT)
        and colour.number is not None
        and colour.number < 16
    ):
        return ("bright_" if colour.number > 7 else "") + _NAMES[colour.number % 8]
    return colour.get_truecolor().hex


def _split(segments: Iterable[Segment]) -> Iterator[Row]:
    """Split segments into lines, of which the last may lack its line end."""
    row: Row = []
    for text, style, control in segments:
        if control:
            continue
        first, *more = text.split("\n")
        if first:
            row.append((first, style))
        for piece in more:
            yield row
            row = [(piece, style)] if piece else []
    if row:
        yield row


def _trimmed(row: Row) -> Row:
    """Remove trailing blanks, which a terminal would wrap when it is resized."""
    while row:
        text, style = row[-1]
        if style is not None and (style.bgcolor or style.reverse or style.underline):
            break
        if kept := text.rstrip(" "):
            row[-1] = (kept, style)
            break
        row.pop()
    return row


def _columns(row: Row) -> int:
    """Return the width of a row, the larger one of those that terminals use: some draw joined emoji
    as one glyph, others as several.
    """
    return sum(
        len(text) if text.isascii() else max(cell_len(text), sum(map(_size, text)))
        for text, _ in row
    )


def _size(character: str) -> int:
    return 1 if character == WIDENING else get_character_cell_size(character)


def _folded(row: Row, width: int) -> Iterator[Row]:
    """Fold a row that Rich made too wide, without loss."""
    kept: Row = []
    used = 0
    for text, style in row:
        begin = 0
        for at, character in enumerate(text):
            wide = _size(character)
            if used + wide > width and used:
                yield [*kept, (text[begin:at], style)]
                kept, used, begin = [], 0, at
            used += wide
        kept.append((text[begin:], style))
    yield kept
