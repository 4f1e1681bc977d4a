"""A renderer for an inline screen: text goes above the live region once, in the same frame in which
the region is drawn anew.

prompt_toolkit's own asks the terminal where the cursor is, never makes a region smaller, and erases
the wrong rows where a terminal has wrapped them on resize. Reaches into what its class keeps for
itself (3.0.53; the pin allows 3.0.x only). Entry: `InlineRenderer`.
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
"""Synchronized output: what stands between them is shown at once.

A terminal that does not know it passes over it.
"""


class InlineRenderer(Renderer):
    """Draws the region, and above it whatever was given to `above` since."""

    def __init__(self, style: BaseStyle, output: Output, *, reflows: bool = True) -> None:
        """`reflows`: whether the terminal wraps what stands on it anew when it is resized."""
        super().__init__(style, output)
        self._reflows = reflows
        self._above: list[str] = []
        self.holds = False
        """While the terminal is being resized nothing is drawn: tmux has changed its grid up to a
        quarter of a second before it says so.
        """
        self.settled: Size | None = None
        """The size that a resizing has come to."""
        self.noticed: Callable[[], None] = lambda: None
        """Told of another size that no signal has told of yet."""

    def above(self, text: str) -> None:
        """`text`: whole lines, with colours. It is written with the next frame."""
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
        """Called before another program may write to the terminal, and at the end: what was to come
        with the next frame is written too.
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
        """Takes the region away; the cursor stands where its first row began.

        Row by row: tmux keeps in its history what one command clears from the top of the screen.
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
        """How many the region takes on the terminal now, and how many of them stand above the
        cursor: what was wider than it has become takes several.
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
    """Of what was written in that row."""
    row = cells.data_buffer[y]
    return 1 + max(
        (x for x, cell in row.items() if cell.char not in (" ", "\u200b") or cell.style.strip()),
        default=-1,
    )


def reflows(environ: Mapping[str, str]) -> bool:
    """Most do; xterm and the console of Linux cut."""
    return "XTERM_VERSION" not in environ and environ.get("TERM") != "linux"
