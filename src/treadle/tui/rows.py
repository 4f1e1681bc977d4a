"""prompt_toolkit container that draws lines directly. prompt_toolkit's own windows also scroll,
wrap and search, which costs more than the rest of a frame. Entry points: `Rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import Container, Dimension
from prompt_toolkit.layout.screen import Char
from typing_extensions import override

from treadle._internal.terminal_text import cut

if TYPE_CHECKING:
    from prompt_toolkit.layout.mouse_handlers import MouseHandlers
    from prompt_toolkit.layout.screen import Screen, WritePosition


class Rows(Container):
    """Container as high as its lines; wider lines are cut."""

    def __init__(self, lines: Callable[[], Sequence[StyleAndTextTuples]]) -> None:
        """Create a container. `lines`: function that returns the lines, called twice per frame."""
        self._lines = lines

    @override
    def reset(self) -> None:
        pass

    @override
    def get_children(self) -> list[Container]:
        return []

    @override
    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    @override
    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        return Dimension.exact(len(self._lines()))

    @override
    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        top, left, width, height = (
            write_position.ypos,
            write_position.xpos,
            write_position.width,
            write_position.height,
        )
        for y, line in enumerate(self._lines()[:height], top):
            _write(line, screen, y, left, left + width)
        screen.width, screen.height = (
            max(screen.width, left + width),
            max(screen.height, top + height),
        )


def _write(line: StyleAndTextTuples, screen: Screen, y: int, x: int, end: int) -> None:
    """Write a line, each fragment as one wide cell: the renderer compares and writes cells, and
    most fragments do not change.
    """
    cells = screen.data_buffer[y]
    for fragment in line:
        style, text = fragment[0], fragment[1]
        cell = Char(text, style)
        if x + cell.width > end:
            cell = Char(cut(text, end - x), style)
        if cell.width:
            nothing = Char("", style)
            cells[x] = cell
            for column in range(x + 1, x + cell.width):
                cells[column] = nothing
            x += cell.width
