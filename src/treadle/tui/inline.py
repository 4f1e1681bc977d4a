"""Renderer for an inline screen: prints text above the live region and redraws the region in the
same frame.

prompt_toolkit's own renderer asks the terminal for the cursor position, never shrinks a region, and
erases the wrong rows after a terminal has rewrapped on resize. This class uses private attributes
of its base class (checked with 3.0.53). Entry points: `InlineRenderer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from prompt_toolkit.data_structures import Point, Size
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
"""Synchronized output: the text between them is displayed in one step.

Terminals without support ignore it.
"""


class InlineRenderer(Renderer):
    """Renderer that draws the region, preceded by the text passed to `above`."""

    def __init__(self, style: BaseStyle, output: Output, *, reflows: bool = True) -> None:
        """Create a renderer. `reflows`: the terminal rewraps its content when it is resized."""
        super().__init__(style, output)
        self._reflows = reflows
        self._above: list[str] = []
        self.holds = False
        """True while the terminal is being resized and nothing is drawn. tmux changes its grid up
        to a quarter of a second before it reports the new size.
        """
        self.settled: Size | None = None
        """Size after the last completed resize."""
        self.noticed: Callable[[], None] = lambda: None
        """Callback for a new size that no signal has reported yet."""

    def above(self, text: str) -> None:
        """Queue complete coloured lines for the next frame."""
        self._above.append(text)

    @property
    def has_more(self) -> bool:
        return bool(self._above)

    @override
    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:
        output, last, size = self.output, self._last_screen, self.output.get_size()
        if last is not None and size not in (self._last_size, self.settled) and not is_done:
            self.noticed()
        if self.holds and not is_done:
            return
        output.write_raw(BEGIN_FRAME)
        if last is not None and (
            size != self._last_size
            or self._above
            or layout.container.preferred_height(size.columns, size.rows).preferred < last.height
        ):
            self._go_to_top()
        self._write_above()
        super().render(app, layout, is_done)
        output.write_raw(END_FRAME)
        output.flush()

    @override
    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the region before another program uses the terminal, and at the end; write queued
        text.
        """
        self._go_to_top()
        self._write_above()
        self.output.flush()
        self.reset(leave_alternate_screen=leave_alternate_screen)

    def _write_above(self) -> None:
        for text in self._above:
            self.output.write_raw(text.replace("\n", "\r\n"))
        self._above.clear()

    def _go_to_top(self) -> None:
        """Erase the region and move the cursor to its first row.

        Erases row by row, because tmux keeps in its history what one command clears from the top of
        the screen.
        """
        rows, above = self._rows()
        self.output.write_raw("\r")
        self.output.cursor_up(above)
        self.output.write_raw("\x1b[B".join(["\x1b[2K"] * rows))
        self.output.cursor_up(rows - 1)
        self.output.reset_attributes()
        self.output.enable_autowrap()
        self._cursor_pos, self._last_screen = Point(x=0, y=0), None

    def _rows(self) -> tuple[int, int]:
        """Return the region's height on the terminal now, and the rows above the cursor. After
        shrinking, a row may take several.
        """
        cells, drawn, columns, at = (
            self._last_screen,
            self._last_size,
            self.output.get_size().columns,
            self._cursor_pos,
        )
        if cells is None or drawn is None:
            return at.y + 1, at.y
        if not self._reflows or columns >= drawn.columns or columns < 1:
            return max(cells.height, at.y + 1), at.y
        taken = [max(1, -(-_width_of(cells, y) // columns)) for y in range(cells.height)]
        return sum(taken), sum(taken[: at.y]) + at.x // columns


def _width_of(cells: Cells, y: int) -> int:
    """Return the width of the text written in a row."""
    row = cells.data_buffer[y]
    return 1 + max(
        (x for x, cell in row.items() if cell.char not in (" ", "\u200b") or cell.style.strip()),
        default=-1,
    )


def reflows(environ: Mapping[str, str]) -> bool:
    """Return True if the terminal rewraps its content on resize. Most do; xterm and the Linux
    console truncate.
    """
    return "XTERM_VERSION" not in environ and environ.get("TERM") != "linux"
