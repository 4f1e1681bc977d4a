"""Inline Markdown as Rich text: emphasis, code and links; HTML and images become text. Entry
points: `worded`, `wrapped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.text import Text

from treadle.tui.drawing import Line

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.style import Style

    from treadle.tui.drawing import Drawing

ADDRESS_CHARS: Final = 300
_STYLES: Final = {
    "strong_open": "strong",
    "em_open": "emphasis",
    "s_open": "struck",
    "link_open": "link",
}


def worded(tokens: Sequence[Token], drawing: Drawing, base: str = "assistant") -> Text:
    """Convert the inline `tokens` of a block. Line breaks are kept."""
    text = Text(style=drawing.style(base), end="")
    open_at: list[tuple[int, str]] = []
    for token in tokens:
        if token.type in _STYLES:
            open_at.append((len(text), str(token.attrs.get("href", ""))))
        elif (begun := f"{token.type.removesuffix('_close')}_open") in _STYLES and open_at:
            at, href = open_at.pop()
            if href and href not in (said := text.plain[at:], f"mailto:{said}"):
                text.append(f" ({_address(href)})", drawing.style("url"))
                text.stylize(drawing.style(_STYLES[begun]), at, at + len(said))
            else:
                text.stylize(drawing.style(_STYLES[begun]), at)
        elif token.type == "code_inline":
            code = token.content if drawing.theme.attributes else f"`{token.content}`"
            text.append(code, drawing.style("code.inline"))
        elif token.type in ("softbreak", "hardbreak"):
            text.append("\n")
        elif token.type == "image":
            text.append(
                f"{token.content or 'image'} ({_address(str(token.attrs.get('src', '')))})",
                drawing.style("url"),
            )
        else:
            text.append(token.content)
    return text


def _address(href: str) -> str:
    return href if len(href) <= ADDRESS_CHARS else href[: ADDRESS_CHARS - 1] + "…"


def wrapped(text: Text, width: int, drawing: Drawing) -> list[Line]:
    """Return the text as lines wrapped between words; words longer than a line are cut."""
    lines: list[Line] = []
    for line in text.split("\n", allow_blank=True):
        if cell_len(line.plain) <= width:
            lines.append(segments(line, drawing))
        else:
            lines += [
                segments(part, drawing)
                for part in line.wrap(drawing.console, width, overflow="fold", tab_size=4)
            ]
    return lines


def chopped(text: Text, width: int, drawing: Drawing) -> list[Line]:
    """Return the text as lines cut at the exact width; code keeps its blanks."""
    if cell_len(text.plain) <= width:
        return [segments(text, drawing)]
    offsets: list[int] = []
    used = 0
    for at, character in enumerate(text.plain):
        wide = get_character_cell_size(character)
        if used + wide > width and used:
            offsets.append(at)
            used = 0
        used += wide
    return [segments(part, drawing) for part in text.divide(offsets)]


def segments(line: Text, drawing: Drawing) -> Line:
    """Return the segments that Rich would render.

    Non-overlapping styles, as in code, take a faster path.
    """
    text, base = line.plain, drawing.console.get_style(line.style)
    parts: Line = []
    at = 0
    for begin, end, style in line.spans:
        if begin < at:
            line.end = ""
            return list(line.render(drawing.console))
        if begin > at:
            parts.append(Segment(text[at:begin], base))
        if end > begin:
            parts.append(Segment(text[begin:end], base + drawing.console.get_style(style)))
            at = end
    if at < len(text):
        parts.append(Segment(text[at:], base))
    return parts


def columns(line: Line) -> int:
    return sum(segment.cell_length for segment in line)


def filled(line: Line, width: int, style: Style | None = None, align: str = "left") -> Line:
    """Return the line padded with blanks to the width."""
    missing = width - columns(line)
    if missing <= 0:
        return line
    before = missing if align == "right" else missing // 2 if align == "center" else 0
    return [Segment(" " * before, style), *line, Segment(" " * (missing - before), style)]
