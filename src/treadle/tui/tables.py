"""Markdown tables fitted to the width: columns shrink, and if they get too narrow, cells are listed
one per line. Entry points: `tabled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.segment import Segment

from treadle.tui.drawing import Line
from treadle.tui.wording import filled, worded, wrapped

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.text import Text

    from treadle.tui.drawing import Drawing

GUTTER: Final = 2
COLUMN_LEAST: Final = 6
"""Minimum column width; below it, cells are listed one per line."""
COLUMNS_MAX: Final = 40

Cells = list["Text"]


def tabled(
    tokens: Sequence[Token], width: int, drawing: Drawing, *, headed: bool = True
) -> list[Line]:
    """Draw the table in `tokens`, which begin with `table_open`. Without `headed`, its first row
    was drawn with an earlier piece.
    """
    rows, aligns = _cells(tokens, drawing)
    head, body = rows[0], rows[1:]
    natural = [
        max(max(map(cell_len, cell.plain.split("\n"))) for cell in column) or 1
        for column in zip(*rows, strict=True)
    ]
    widths = fitted(natural, width - GUTTER * (len(natural) - 1))
    if widths is None:
        return _listed(head, body, width, drawing)
    lines: list[Line] = []
    if headed:
        rule = drawing.theme.glyphs.rule
        lines += _row(head, widths, aligns, drawing)
        lines.append(
            [Segment((" " * GUTTER).join(rule * wide for wide in widths), drawing.style("mark"))]
        )
    for cells in body:
        lines += _row(cells, widths, aligns, drawing)
    return lines


def _cells(tokens: Sequence[Token], drawing: Drawing) -> tuple[list[Cells], list[str]]:
    """Return rows of equal length, and the alignment of each column."""
    rows: list[Cells] = []
    aligns: list[str] = []
    style = "assistant"
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            style = "table.head" if token.type == "th_open" else "assistant"
            if len(rows) == 1:
                aligns.append(
                    str(token.attrs.get("style", "")).removeprefix("text-align:") or "left"
                )
        elif token.type == "inline" and len(rows[-1]) < COLUMNS_MAX:
            rows[-1].append(worded(token.children or (), drawing, style))
    return rows, aligns


def fitted(natural: Sequence[int], room: int) -> list[int] | None:
    """Return the column widths, shrinking the widest first, or None if they would be too narrow."""
    widths = list(natural)
    if sum(widths) <= room:
        return widths
    if sum(min(wide, COLUMN_LEAST) for wide in widths) > room:
        return None
    for at in sorted(range(len(widths)), key=widths.__getitem__):
        narrower = [wide for wide in natural if wide < natural[at]]
        share = (room - sum(narrower)) // (len(widths) - len(narrower))
        if share < natural[at]:
            share = max(share, COLUMN_LEAST)
            return [min(wide, share) for wide in natural]
    return widths


def _row(
    cells: Cells, widths: Sequence[int], aligns: Sequence[str], drawing: Drawing
) -> list[Line]:
    columns = [wrapped(cell, wide, drawing) for cell, wide in zip(cells, widths, strict=True)]
    lines: list[Line] = []
    for parts in zip_longest(*columns, fillvalue=[]):
        line: Line = []
        for n, (part, wide, align) in enumerate(zip(parts, widths, aligns, strict=True)):
            line += [*([Segment(" " * GUTTER)] if n else []), *filled(part, wide, align=align)]
        lines.append(line)
    return lines


def _listed(head: Cells, body: Sequence[Cells], width: int, drawing: Drawing) -> list[Line]:
    """Return the lines of a table whose cells are listed, each after the name of its column, with a
    blank line between rows.
    """
    lines: list[Line] = []
    for n, cells in enumerate(body or [[]]):
        if n:
            lines.append([])
        for name, cell in zip_longest(head, cells):
            both = name.copy() if name is not None else worded((), drawing)
            if cell is not None:
                both.append(": ").append_text(cell)
            lines += wrapped(both, width, drawing)
    return lines
