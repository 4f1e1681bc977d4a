"""A renderer for an inline screen: text goes above the live region once, in the same frame in which the region is drawn anew.

prompt_toolkit's own asks the terminal where the cursor is, never makes a region smaller, and erases the wrong rows where a terminal has wrapped
them on resize. Reaches into what its class keeps for itself (3.0.53; the pin allows 3.0.x only). Entry: `InlineRenderer`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit.data_structures import Point
from prompt_toolkit.renderer import Renderer
from typing_extensions import override

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.layout import Layout
    from prompt_toolkit.layout.screen import Screen as Cells
    from prompt_toolkit.output import Output
    from prompt_toolkit.styles import BaseStyle

BEGIN_FRAME: Final = "\x1b[?2026h"
END_FRAME: Final = "\x1b[?2026l"
"""Synchronized output: what stands between them is shown at once. A terminal that does not know it passes over it."""


class InlineRenderer(Renderer):
    """Draws the region, and above it whatever was given to `above` since."""

    def __init__(self, style: BaseStyle, output: Output, *, reflows: bool = True) -> None:
        """`reflows`: whether the terminal wraps what stands on it anew when it is resized."""
        super().__init__(style, output)
        self._reflows = reflows
        self._above: list[str] = []

    def above(self, text: str) -> None:
        """`text`: whole lines, with colours. It is written with the next frame."""
        self._above.append(text)

    @property
    def has_more(self) -> bool:
        return bool(self._above)

    @override
    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        output, last = self.output, self._last_screen
        output.write_raw(BEGIN_FRAME)
        if last is not None:
            size = output.get_size()
            if self._above or layout.container.preferred_height(size.columns, size.rows).preferred < last.height:
                self._go_to_top()
        if self._above:
            for text in self._above:
                output.write_raw(text.replace("\n", "\r\n"))
            self._above.clear()
        super().render(app, layout, is_done)
        output.write_raw(END_FRAME)
        output.flush()

    @override
    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Called when the terminal was resized, and before somebody else may write to it."""
        self._go_to_top()
        self.output.flush()
        self.reset(leave_alternate_screen=leave_alternate_screen)

    def _go_to_top(self) -> None:
        """Takes the region away; the cursor stands where its first row began."""
        self.output.write_raw("\r")
        self.output.cursor_up(self._rows_above_cursor())
        self.output.erase_down()
        self.output.reset_attributes()
        self.output.enable_autowrap()
        self._cursor_pos, self._last_screen = Point(x=0, y=0), None

    def _rows_above_cursor(self) -> int:
        """As they stand on the terminal now: rows that were wider than it has become take several."""
        cells, drawn, columns = self._last_screen, self._last_size, self.output.get_size().columns
        if cells is None or drawn is None or not self._reflows or columns >= drawn.columns or columns < 1:
            return self._cursor_pos.y
        rows = sum(max(1, -(-_width_of(cells, y) // columns)) for y in range(self._cursor_pos.y))
        return rows + self._cursor_pos.x // columns


def _width_of(cells: Cells, y: int) -> int:
    """Of what was written in that row."""
    row = cells.data_buffer[y]
    return 1 + max((x for x, cell in row.items() if cell.char not in (" ", "\u200b") or cell.style.strip()), default=-1)


def reflows(environ: dict[str, str] | os._Environ[str]) -> bool:
    """Most do; xterm and the console of Linux cut."""
    return "XTERM_VERSION" not in environ and environ.get("TERM") != "linux"
